/// Some of the loop's fact sources, by their index.
struct SourceSet: OptionSet, Hashable, Sendable {
  let rawValue: UInt8

  init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The set with one source. A source beyond the eighth counts as the eighth.
  init(index: Int) { self.init(rawValue: 1 << min(index, 7)) }
}

extension Duration {
  /// Parses a time span: `500ms`, `5s`, `1.5s`, `2m`, `1h` or `1d`. A number alone is in seconds.
  ///
  /// The configuration and the command line share this notation.
  package init?(text: some StringProtocol) {
    let number = text.prefix { ("0"..."9").contains($0) || $0 == "." }
    let milliseconds: Int64
    switch text.dropFirst(number.count) {
    case "ms": milliseconds = 1
    case "s", "": milliseconds = 1_000
    case "m": milliseconds = 60_000
    case "h": milliseconds = 3_600_000
    case "d": milliseconds = 86_400_000
    default: return nil
    }
    let parts = number.split(separator: ".", omittingEmptySubsequences: false)
    guard let first = parts.first, let whole = Int64(first), whole <= 1_000_000_000 else {
      return nil
    }
    self = .milliseconds(whole * milliseconds)
    switch parts.count {
    case 1: break
    case 2:
      guard let fraction = Int64(parts[1]), parts[1].count <= 9 else { return nil }
      let scale = (0..<parts[1].count).reduce(Int64(1)) { scale, _ in scale * 10 }
      self += .milliseconds(fraction * milliseconds) / Int(scale)
    default: return nil
    }
  }

  /// The notation, for messages.
  package static let notation = "500ms, 5s, 2m, 1h or 1d; a number alone is in seconds"
}

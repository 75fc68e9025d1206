import ConnectivityRules
import Glibc

/// Wraps a source of link costs during a recording. It records the results, not the messages and
/// files behind them.
struct RecordedMetering: MeteringSource {
  let metering: any MeteringSource
  let recorder: Recorder

  var descriptors: [pollfd] { self.metering.descriptors }
  var timeout: Duration? { self.metering.timeout }

  func process() -> MeteringWords? {
    let words = self.metering.process()
    if let words { self.recorder.note(.metering(words.encoded)) }
    return words
  }

  func noteLinks() { self.metering.noteLinks() }
  func settle(within time: Duration) { self.metering.settle(within: time) }
}

/// The link costs of a recording.
struct ReplayedMetering: MeteringSource {
  let tape: RecordingCursor

  let descriptors: [pollfd] = []
  /// Zero while there are recorded results, because only the results were recorded.
  var timeout: Duration? { self.tape.hasMetering ? .zero : nil }

  func process() -> MeteringWords? { self.tape.takeMetering() }
  func noteLinks() {}
  func settle(within time: Duration) {}
}

extension MeteringWords {
  var encoded: [UInt8] {
    var fields = FieldWriter()
    fields.put(UInt32(clamping: self.manager.count))
    for (name, state) in self.manager.sorted(by: { $0.key < $1.key }) {
      fields.put(name)
      fields.put(state.rawValue)
    }
    fields.put(UInt32(clamping: self.phones.count))
    for name in self.phones.sorted() { fields.put(name) }
    return fields.bytes
  }

  init(decoding bytes: [UInt8]) throws(FieldReader.Fault) {
    var fields = FieldReader(bytes)
    self.init()
    for _ in 0..<(try fields.number(UInt32.self)) {
      let name = try fields.text()
      guard let state = Metering(rawValue: try fields.text()) else { throw FieldReader.Fault() }
      self.manager[name] = state
    }
    for _ in 0..<(try fields.number(UInt32.self)) { self.phones.insert(try fields.text()) }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
  }
}

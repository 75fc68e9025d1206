import Connectivity

/// Wraps a source of modem facts during a recording. It records the results, not the messages
/// behind them, which contain more than the links of modems.
struct RecordedModems: ModemSource {
  let modems: any ModemSource
  let recorder: Recorder

  var fileDescriptor: CInt { self.modems.fileDescriptor }
  var events: Int16 { self.modems.events }
  var timeout: Duration? { self.modems.timeout }
  var signalQualities: [String: UInt32] { self.modems.signalQualities }

  func process() -> [String: ModemLink]? { self.noting(self.modems.process(), afterLinks: false) }

  func noteLinks() -> [String: ModemLink]? {
    self.noting(self.modems.noteLinks(), afterLinks: true)
  }

  private func noting(_ links: [String: ModemLink]?, afterLinks: Bool) -> [String: ModemLink]? {
    if let links {
      self.recorder.note(.modems(afterLinks: afterLinks, ModemLink.encoded(links)))
    }
    return links
  }
}

/// The modem facts of a recording.
struct ReplayedModems: ModemSource {
  let tape: RecordingCursor

  let fileDescriptor: CInt = -1
  let events: Int16 = 0
  /// Zero while there are recorded results, because only the results were recorded.
  var timeout: Duration? { self.tape.hasModems ? .zero : nil }
  /// Not recorded, because nothing depends on them.
  let signalQualities: [String: UInt32] = [:]

  func process() -> [String: ModemLink]? { self.tape.takeModems(afterLinks: false) }
  func noteLinks() -> [String: ModemLink]? { self.tape.takeModems(afterLinks: true) }
}

extension ModemLink {
  static func encoded(_ links: [String: ModemLink]) -> [UInt8] {
    var fields = FieldWriter()
    fields.put(UInt32(clamping: links.count))
    for (name, link) in links.sorted(by: { $0.key < $1.key }) {
      fields.put(name)
      fields.put(link.isConnected)
      fields.put(link.isSuspended)
      fields.put(link.generation) { $0.put($1.rawValue) }
      fields.put(link.isRoaming)
    }
    // After the fields of earlier versions.
    for (_, link) in links.sorted(by: { $0.key < $1.key }) {
      fields.put(link.mobileOperator) {
        $0.put($1.code)
        $0.put($1.name)
      }
    }
    return fields.bytes
  }

  static func decoded(_ bytes: [UInt8]) throws(FieldReader.Fault) -> [String: ModemLink] {
    var fields = FieldReader(bytes)
    var links: [String: ModemLink] = [:]
    var names: [String] = []
    for _ in 0..<(try fields.number(UInt32.self)) {
      let name = try fields.text()
      names.append(name)
      links[name] = ModemLink(
        isConnected: try fields.flag(), isSuspended: try fields.flag(),
        generation: try fields.optional { (fields) throws(FieldReader.Fault) -> MobileGeneration in
          guard let generation = MobileGeneration(rawValue: try fields.text()) else {
            throw FieldReader.Fault()
          }
          return generation
        }, isRoaming: try fields.flag())
    }
    for name in fields.isAtEnd ? [] : names {
      links[name]?.mobileOperator = try fields.optional {
        (fields) throws(FieldReader.Fault) -> MobileOperator in
        MobileOperator(code: try fields.text(), name: try fields.text())
      }
    }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
    return links
  }
}

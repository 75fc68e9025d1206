import Connectivity
import ConnectivityRules
import Glibc

/// Wraps a source of facts during a recording. It records the facts, not the messages behind them,
/// which reveal more. DNS settings are not recorded here, because their files are.
struct RecordedFacts: FactSource {
  let source: any FactSource
  let recorder: Recorder

  var descriptors: [pollfd] { self.source.descriptors }
  var timeout: Duration? { self.source.timeout }
  var signalQualities: [String: UInt32] { self.source.signalQualities }

  func process() -> [FactUpdate] { self.noting(self.source.process(), afterLinks: false) }
  func noteLinks() -> [FactUpdate] { self.noting(self.source.noteLinks(), afterLinks: true) }
  func settle(within time: Duration) { self.source.settle(within: time) }

  private func noting(_ updates: [FactUpdate], afterLinks: Bool) -> [FactUpdate] {
    for (kind, bytes) in updates.compactMap(\.recorded) {
      self.recorder.note(.fact(kind, afterLinks: afterLinks, bytes))
    }
    return updates
  }
}

/// The modem and cost facts of a recording.
struct ReplayedFacts: FactSource {
  let tape: RecordingCursor

  let descriptors: [pollfd] = []
  /// Zero while there are recorded facts, because nothing else was recorded about their source.
  var timeout: Duration? { self.tape.hasFacts ? .zero : nil }

  func process() -> [FactUpdate] { self.tape.takeFacts(afterLinks: false) }
  func noteLinks() -> [FactUpdate] { self.tape.takeFacts(afterLinks: true) }
}

/// The kinds of facts in a recording. The numbers must stay.
enum FactKind: UInt8 {
  case modems = 1
  case metering
  case checks
  case portals
  case advertisement
}

extension FactUpdate {
  /// The facts as recorded, or `nil` for DNS settings, whose files are recorded.
  var recorded: (kind: FactKind, bytes: [UInt8])? {
    switch self {
    case .dns: nil
    case .modems(let links): (.modems, ModemLink.encoded(links))
    case .metering(let words): (.metering, words.encoded)
    case .checks(let checks): (.checks, ConnectivityChecks.encoded(checks))
    case .portals(let portals): (.portals, PortalAdvertisement.encoded(portals))
    case .advertisement(let advertisement): (.advertisement, advertisement.encoded)
    }
  }

  /// Decodes recorded facts, or returns `nil` if they are invalid.
  init?(_ kind: FactKind, _ bytes: [UInt8]) {
    do throws(FieldReader.Fault) {
      switch kind {
      case .modems: self = .modems(try ModemLink.decoded(bytes))
      case .metering: self = .metering(try MeteringWords(decoding: bytes))
      case .checks: self = .checks(try ConnectivityChecks.decoded(bytes))
      case .portals: self = .portals(try PortalAdvertisement.decoded(bytes))
      case .advertisement: self = .advertisement(try PortalAdvertisement(decoding: bytes))
      }
    } catch {
      return nil
    }
  }

  /// Returns the facts with substitutes for a report.
  func anonymized(by anonymizer: Anonymizer) -> FactUpdate {
    switch self {
    case .dns: self
    case .modems(let links): .modems(anonymizer.modems(links))
    case .metering(let words): .metering(anonymizer.metering(words))
    case .checks(let checks): .checks(anonymizer.checks(checks))
    case .portals(let portals): .portals(anonymizer.portals(portals))
    case .advertisement(let advertisement):
      .advertisement(PortalAdvertisement(link: advertisement.link, portal: anonymizer.portal))
    }
  }
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
    // New fields follow those of earlier versions.
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

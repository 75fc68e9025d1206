import Connectivity
import Systemd

/// The modems and bearers of ModemManager, and the links that follow from them. Does not access the
/// bus.
///
/// The input is not trusted: values of a wrong type count as unknown, and the numbers of objects
/// are limited.
struct ModemObjects: Hashable {
  private struct Modem: Hashable {
    var technologies: UInt32 = 0
    var registration: Int64?
    var operatorCode = ""
    var operatorName = ""
    /// In percent.
    var signalQuality: UInt32?
    var bearers: [String] = []
  }

  private struct Bearer: Hashable {
    var interface: String?
    var isConnected = false
    var isSuspended = false
  }

  /// All objects are stored by their paths.
  private var modems: [String: Modem] = [:]
  private var bearers: [String: Bearer] = [:]

  static let modem = "org.freedesktop.ModemManager1.Modem"
  static let network = "org.freedesktop.ModemManager1.Modem.Modem3gpp"
  static let bearer = "org.freedesktop.ModemManager1.Bearer"

  /// The properties that are read from each interface.
  static let properties: [String: Set<String>] = [
    Self.modem: ["AccessTechnologies", "Bearers", "SignalQuality"],
    Self.network: ["RegistrationState", "OperatorCode", "OperatorName"],
    Self.bearer: ["Interface", "Connected", "Suspended"],
  ]

  private static let maxModems = 16
  private static let maxBearers = 64

  /// Updates some properties of an object.
  mutating func update(_ path: String, _ properties: BusProperties) {
    let values = properties.values
    switch properties.interface {
    case Self.modem:
      guard var modem = self.modem(path) else { return }
      if let value = values["AccessTechnologies"] {
        modem.technologies = UInt32(clamping: value.number ?? 0)
      }
      if let value = values["Bearers"] { modem.bearers = value.texts ?? [] }
      if let value = values["SignalQuality"] { modem.signalQuality = value.signalQuality }
      self.modems[path] = modem
      self.forgetBearers()
    case Self.network:
      guard var modem = self.modem(path) else { return }
      if let value = values["RegistrationState"] { modem.registration = value.number }
      if let value = values["OperatorCode"] { modem.operatorCode = value.operatorCode ?? "" }
      if let value = values["OperatorName"] { modem.operatorName = value.operatorName ?? "" }
      self.modems[path] = modem
    case Self.bearer where self.listed.contains(path):
      var bearer = self.bearers[path] ?? Bearer()
      if let value = values["Interface"] { bearer.interface = value.linkName }
      if let value = values["Connected"] { bearer.isConnected = value.flag ?? false }
      if let value = values["Suspended"] { bearer.isSuspended = value.flag ?? false }
      self.bearers[path] = bearer
    default: return
    }
  }

  /// Notes that an object has lost interfaces.
  mutating func remove(_ path: String, _ interfaces: [String]) {
    if interfaces.contains(Self.modem) { self.modems[path] = nil }
    if interfaces.contains(Self.network) {
      self.modems[path]?.registration = nil
      self.modems[path]?.operatorCode = ""
    }
    self.forgetBearers()
  }

  private func modem(_ path: String) -> Modem? {
    self.modems[path] ?? (self.modems.count < Self.maxModems ? Modem() : nil)
  }

  private mutating func forgetBearers() {
    let listed = Set(self.listed)
    self.bearers = self.bearers.filter { listed.contains($0.key) }
  }

  /// The bearers that modems list.
  private var listed: ArraySlice<String> {
    self.modems.sorted { $0.key < $1.key }.flatMap(\.value.bearers).prefix(Self.maxBearers)
  }

  /// The bearers that have not been read. ModemManager's list of objects contains only modems.
  var unreadBearers: [String] { self.listed.filter { self.bearers[$0] == nil } }

  /// The links of the bearers, by name.
  var links: [String: ModemLink] { self.carried.mapValues(\.link) }

  /// The signal quality of the modems of these links, in percent.
  var signalQualities: [String: UInt32] { self.carried.compactMapValues(\.signalQuality) }

  private var carried: [String: (link: ModemLink, signalQuality: UInt32?)] {
    var links: [String: (link: ModemLink, signalQuality: UInt32?)] = [:]
    for (_, modem) in self.modems.sorted(by: { $0.key < $1.key }) {
      for bearer in modem.bearers.compactMap({ self.bearers[$0] }) {
        guard let interface = bearer.interface else { continue }
        let link = ModemLink(
          isConnected: bearer.isConnected, isSuspended: bearer.isConnected && bearer.isSuspended,
          generation: MobileGeneration(accessTechnologies: modem.technologies),
          isRoaming: modem.registration.map(Self.roaming.contains) ?? false,
          mobileOperator: modem.operatorCode.isEmpty
            ? nil : MobileOperator(code: modem.operatorCode, name: modem.operatorName))
        // Several bearers may share one link. The bearer with the best state counts.
        if links[interface].map({ link.carriesMore(than: $0.link) }) ?? true {
          links[interface] = (link, modem.signalQuality)
        }
      }
    }
    return links
  }

  /// Values of `MMModem3gppRegistrationState`: roaming, roaming for SMS only, and roaming with CSFB
  /// not preferred.
  private static let roaming: Set<Int64> = [5, 7, 10]
}

extension ModemLink {
  fileprivate func carriesMore(than other: ModemLink) -> Bool {
    (self.isConnected && !self.isSuspended) && (!other.isConnected || other.isSuspended)
      || self.isConnected && !other.isConnected
  }
}

extension MobileGeneration {
  /// Creates the newest generation in a mask of `MMModemAccessTechnology`. 1xRTT counts as the
  /// generation with a similar speed.
  init?(accessTechnologies mask: UInt32) {
    let bits: [(MobileGeneration, ClosedRange<UInt32>)] = [
      (.fifth, 15...15), (.fourth, 14...14), (.fourth, 16...17), (.third, 5...9), (.third, 11...13),
      (.second, 1...4), (.second, 10...10),
    ]
    guard let (newest, _) = bits.first(where: { $1.contains { mask & 1 << $0 != 0 } }) else {
      return nil
    }
    self = newest
  }
}

extension BusValue {
  fileprivate var flag: Bool? { if case .flag(let value) = self { value } else { nil } }
  fileprivate var number: Int64? { if case .number(let value) = self { value } else { nil } }
  /// The signal quality in percent, or `nil` without measurements: ModemManager then reports zero
  /// and "not recent" (mm-iface-modem.c). A signal that is unchanged for long is also "not recent".
  fileprivate var signalQuality: UInt32? {
    guard case .flaggedNumber(let percent, let isRecent) = self, (0...100).contains(percent),
      isRecent || percent > 0
    else { return nil }
    return UInt32(percent)
  }
  fileprivate var texts: [String]? { if case .texts(let values) = self { values } else { nil } }
  /// MCC and MNC, or `nil` for anything else, such as the empty text of a modem without a network.
  fileprivate var operatorCode: String? {
    guard case .text(let text) = self, (5...6).contains(text.utf8.count),
      text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    else { return nil }
    return text
  }

  /// The name, limited to a length that can be shown.
  fileprivate var operatorName: String? {
    if case .text(let text) = self { String(text.prefix(64)) } else { nil }
  }
}

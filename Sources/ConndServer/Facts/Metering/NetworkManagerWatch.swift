import Connectivity
import ConnectivityRules
import Glibc
import Systemd

/// The costs and connectivity checks of NetworkManager's devices, read from the system bus.
///
/// Updating NetworkManager must not end connections. So the last cost of a link remains valid while
/// NetworkManager is absent, and after its restart until it reports the link again. The cost ends
/// with the link.
final class NetworkManagerWatch {
  private struct Device: Hashable {
    var interface = ""
    /// The interface of the device's traffic, if it differs from `interface`, as for a modem.
    var trafficInterface = ""
    var metering = Metering.unknown
    /// The `NMDeviceState`, or `nil` if not reported.
    var state: Int64?
    /// The results of the last connectivity checks.
    var checks = ConnectivityChecks()

    /// The cost of the link, or `nil` if it is unknown. Before there is a lease, a guess of
    /// "unmetered" does not count, because the lease may contradict it.
    var word: Metering? {
      switch self.metering {
      case .unknown: nil
      case .guessNo where self.state ?? Self.activated != Self.activated: nil
      case .yes, .no, .guessYes, .guessNo: self.metering
      }
    }

    private static let activated: Int64 = 100

    var name: String { self.trafficInterface.isEmpty ? self.interface : self.trafficInterface }
  }

  private enum Question: Hashable {
    case manager
    case devices
    case device(String)
  }

  private let service: BusService<Question>
  /// The devices by their D-Bus paths.
  private var devices: [String: Device] = [:]
  /// The costs that an earlier NetworkManager reported, for links that the current NetworkManager
  /// has not reported yet.
  private var inherited: [String: Metering] = [:]
  private let hasLink: (_ name: String) -> Bool
  /// The costs of links by name, as of the last complete answer.
  private(set) var reports: [String: Metering] = [:]
  /// Whether NetworkManager checks connectivity. If it does not, it reports each device with a
  /// default route as fully connected.
  private var isChecking = false
  /// The connectivity checks of links by name, as of the last complete answer.
  private(set) var checks: [String: ConnectivityChecks] = [:]

  private static let name = "org.freedesktop.NetworkManager"
  private static let root = "/org/freedesktop/NetworkManager"
  private static let device = "\(name).Device"
  private static let propertiesInterface = "org.freedesktop.DBus.Properties"
  private static let properties: Set<String> = [
    "Interface", "IpInterface", "Metered", "State", "Ip4Connectivity", "Ip6Connectivity",
  ]
  private static let checking = "ConnectivityCheckEnabled"
  private static let maxDevices = 256

  init(hasLink: @escaping (_ name: String) -> Bool = { if_nametoindex($0) != 0 }) {
    self.hasLink = hasLink
    // Wi-Fi devices report every scan, so connd reads only signals that all devices share.
    self.service = BusService(
      Self.name,
      signals: [
        "interface='\(Self.propertiesInterface)',member='PropertiesChanged',"
          + "path_namespace='\(Self.root)/Devices',arg0='\(Self.device)'",
        "interface='\(Self.name)',path='\(Self.root)'",
        "interface='\(Self.propertiesInterface)',member='PropertiesChanged',path='\(Self.root)',"
          + "arg0='\(Self.name)'",
      ])
  }

  var descriptor: pollfd { self.service.descriptor }
  var timeout: Duration? { self.service.timeout }

  /// Whether all queries have been answered.
  var isSettled: Bool { self.service.isSettled }

  /// Notes that links have changed in the kernel. The bus may have appeared, and a link with an
  /// inherited cost may be gone.
  func noteLinks() {
    self.service.connect()
    for name in self.inherited.keys where !self.hasLink(name) {
      (self.inherited[name], self.reports[name]) = (nil, nil)
    }
  }

  /// Processes messages.
  func process() {
    self.service.process(self.take)
    if !self.service.isThere { self.checks = [:] }
    guard self.service.isThere, self.service.questions.isEmpty else { return }
    self.checks = self.isChecking ? self.checksByName() : [:]
    let stated = self.devices.values.compactMap { device in
      device.name.isEmpty ? nil : device.word.map { (device.name, $0) }
    }
    // If two devices name one link, the metered one counts.
    let reports = Dictionary(stated) { $0 == .yes ? $0 : $1 }
    if !self.inherited.isEmpty {
      self.inherited = self.inherited.filter { reports[$0.key] == nil }
    }
    self.reports = self.inherited.merging(reports) { $1 }
  }

  private func checksByName() -> [String: ConnectivityChecks] {
    let checks = self.devices.values.compactMap { device in
      device.name.isEmpty || device.checks == ConnectivityChecks()
        ? nil : (device.name, device.checks)
    }
    return Dictionary(checks) { first, _ in first }
  }

  private func take(_ event: BusService<Question>.Event) {
    switch event {
    case .came:
      self.begin()
      self.service.ask(
        .manager, Self.root, Self.propertiesInterface, "GetAll", [Self.name])
      self.service.ask(.devices, Self.root, Self.name, "GetDevices")
    case .gone: self.begin()
    case .answer(.manager, let message): self.updateManager(message)
    case .answer(.devices, let message):
      for path in message.readTexts(max: Self.maxDevices) ?? [] { self.ask(of: path) }
    case .answer(.device(let path), let message):
      self.update(path, message.readProperties(Self.properties) ?? [:])
    case .signal(let message): self.takeSignal(message)
    }
  }

  private func begin() {
    (self.devices, self.inherited, self.isChecking) = ([:], self.reports, false)
  }

  private func updateManager(_ message: BusMessage) {
    if case .flag(let isChecking)? = message.readProperties([Self.checking])?[Self.checking] {
      self.isChecking = isChecking
    }
  }

  private func takeSignal(_ message: BusMessage) {
    if message.isSignal(Self.propertiesInterface, "PropertiesChanged") {
      guard let path = message.path, let interface = message.readText() else { return }
      if path == Self.root, interface == Self.name { return self.updateManager(message) }
      guard interface == Self.device else { return }
      self.update(path, message.readProperties(Self.properties) ?? [:])
    } else if message.isSignal(Self.name, "DeviceAdded") {
      if let path = message.readText() { self.ask(of: path) }
    } else if message.isSignal(Self.name, "DeviceRemoved") {
      guard let path = message.readText(), let device = self.devices.removeValue(forKey: path)
      else { return }
      // When NetworkManager stops, it removes all devices (nm_manager_stop). The link may still
      // exist.
      let word = device.word ?? self.reports[device.name]
      self.inherited[device.name] = self.hasLink(device.name) ? word : nil
    }
  }

  private func ask(of path: String) {
    guard self.devices[path] == nil, self.devices.count < Self.maxDevices else { return }
    self.devices[path] = Device()
    self.service.ask(.device(path), path, Self.propertiesInterface, "GetAll", [Self.device])
  }

  private func update(_ path: String, _ values: [String: BusValue]) {
    guard var device = self.devices[path] else { return }
    if let name = values["Interface"] { device.interface = name.linkName ?? "" }
    if let name = values["IpInterface"] { device.trafficInterface = name.linkName ?? "" }
    if let value = values["Metered"] { device.metering = Metering(value) }
    if case .number(let state)? = values["State"] { device.state = state }
    if let value = values["Ip4Connectivity"] {
      device.checks.ipv4 = KernelPath.Validation.State(value)
    }
    if let value = values["Ip6Connectivity"] {
      device.checks.ipv6 = KernelPath.Validation.State(value)
    }
    self.devices[path] = device
  }
}

extension Metering {
  /// Creates the state from `NMMetered`. Any other value counts as unknown.
  fileprivate init(_ value: BusValue) {
    let states: [Metering] = [.unknown, .yes, .no, .guessYes, .guessNo]
    guard case .number(let number) = value, states.indices.contains(Int(clamping: number)) else {
      self = .unknown
      return
    }
    self = states[Int(number)]
  }
}

extension KernelPath.Validation.State {
  /// Creates the state from `NMConnectivityState`, or returns `nil` if it is unknown. Any other
  /// value counts as unknown.
  fileprivate init?(_ value: BusValue) {
    switch value {
    // A device without connectivity (1) reaches the internet no better than a limited one (3).
    case .number(1), .number(3): self = .limited
    case .number(2): self = .portal
    case .number(4): self = .full
    default: return nil
    }
  }
}

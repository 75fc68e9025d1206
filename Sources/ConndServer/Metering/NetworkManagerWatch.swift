import ConnectivityRules
import Glibc
import Systemd

/// What NetworkManager says of its devices' costs, on the system bus.
///
/// What it has said of a link holds on while it is away, and after it was started anew until it says something of that link again, as
/// long as there is such a link: who updates it is not to lose a connection by that.
final class NetworkManagerWatch {
  private struct Device: Hashable {
    var interface = ""
    /// That of its traffic, where it is another: a modem's.
    var trafficInterface = ""
    var metering = Metering.unknown
    /// `NMDeviceState`; `nil` where that is not said.
    var state: Int64?

    /// What it says of the link; `nil` where that is nothing. That it costs nothing is its guess also before there is the lease that says
    /// otherwise.
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
    case devices
    case device(String)
  }

  private let service: BusService<Question>
  /// By their paths.
  private var devices: [String: Device] = [:]
  /// What an earlier NetworkManager has said of links that this one says nothing of yet.
  private var inherited: [String: Metering] = [:]
  private let hasLink: (_ name: String) -> Bool
  /// What is said of links, by name, since everything was told last.
  private(set) var words: [String: Metering] = [:]

  private static let name = "org.freedesktop.NetworkManager"
  private static let root = "/org/freedesktop/NetworkManager"
  private static let device = "\(name).Device"
  private static let propertiesInterface = "org.freedesktop.DBus.Properties"
  private static let properties: Set<String> = ["Interface", "IpInterface", "Metered", "State"]
  private static let mostDevices = 256

  init(hasLink: @escaping (_ name: String) -> Bool = { if_nametoindex($0) != 0 }) {
    self.hasLink = hasLink
    // Of devices only what concerns all kinds of them, for those of Wi-Fi tell of every scan.
    self.service = BusService(
      Self.name,
      signals: [
        "interface='\(Self.propertiesInterface)',member='PropertiesChanged',"
          + "path_namespace='\(Self.root)/Devices',arg0='\(Self.device)'",
        "interface='\(Self.name)',path='\(Self.root)'",
      ])
  }

  var fileDescriptor: CInt { self.service.fileDescriptor }
  var events: Int16 { self.service.events }
  var timeout: Duration? { self.service.timeout }

  /// Whether it has said what it has to say, for now.
  var isSettled: Bool { self.service.isSettled }

  /// The kernel has told of links: the bus, where it was not there, may be, and what was said may be of one that is gone.
  func noteLinks() {
    self.service.connect()
    for name in self.inherited.keys where !self.hasLink(name) {
      (self.inherited[name], self.words[name]) = (nil, nil)
    }
  }

  /// Deals with what was told.
  func process() {
    self.service.process(self.take)
    guard self.service.isThere, self.service.questions.isEmpty else { return }
    let said = self.devices.values.compactMap { device in
      device.name.isEmpty ? nil : device.word.map { (device.name, $0) }
    }
    // Of two that name one link the one that pays.
    let words = Dictionary(said) { $0 == .yes ? $0 : $1 }
    if !self.inherited.isEmpty {
      self.inherited = self.inherited.filter { words[$0.key] == nil }
    }
    self.words = self.inherited.merging(words) { $1 }
  }

  private func take(_ event: BusService<Question>.Event) {
    switch event {
    case .came:
      self.begin()
      self.service.ask(.devices, Self.root, Self.name, "GetDevices")
    case .gone: self.begin()
    case .answer(.devices, let message):
      for path in message.readTexts(most: Self.mostDevices) ?? [] { self.ask(of: path) }
    case .answer(.device(let path), let message):
      self.update(path, message.readProperties(Self.properties) ?? [:])
    case .signal(let message): self.takeSignal(message)
    }
  }

  private func begin() { (self.devices, self.inherited) = ([:], self.words) }

  private func takeSignal(_ message: BusMessage) {
    if message.isSignal(Self.propertiesInterface, "PropertiesChanged") {
      guard let path = message.path, message.readText() == Self.device else { return }
      self.update(path, message.readProperties(Self.properties) ?? [:])
    } else if message.isSignal(Self.name, "DeviceAdded") {
      if let path = message.readText() { self.ask(of: path) }
    } else if message.isSignal(Self.name, "DeviceRemoved") {
      guard let path = message.readText(), let device = self.devices.removeValue(forKey: path)
      else { return }
      // As it ends it removes all that it has (nm_manager_stop): the link may be there still.
      let word = device.word ?? self.words[device.name]
      self.inherited[device.name] = self.hasLink(device.name) ? word : nil
    }
  }

  private func ask(of path: String) {
    guard self.devices[path] == nil, self.devices.count < Self.mostDevices else { return }
    self.devices[path] = Device()
    self.service.ask(.device(path), path, Self.propertiesInterface, "GetAll", [Self.device])
  }

  private func update(_ path: String, _ values: [String: BusValue]) {
    guard var device = self.devices[path] else { return }
    if let name = values["Interface"] { device.interface = name.linkName ?? "" }
    if let name = values["IpInterface"] { device.trafficInterface = name.linkName ?? "" }
    if let value = values["Metered"] { device.metering = Metering(value) }
    if case .number(let state)? = values["State"] { device.state = state }
    self.devices[path] = device
  }
}

extension Metering {
  /// `NMMetered`; what it is not is not known.
  fileprivate init(_ value: BusValue) {
    let states: [Metering] = [.unknown, .yes, .no, .guessYes, .guessNo]
    guard case .number(let number) = value, states.indices.contains(Int(clamping: number)) else {
      self = .unknown
      return
    }
    self = states[Int(number)]
  }
}

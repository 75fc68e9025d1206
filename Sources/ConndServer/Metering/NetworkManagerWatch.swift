import ConnectivityRules
import Systemd

/// What NetworkManager says of its devices' costs, on the system bus. It may be absent, go, hang or lie: nobody waits for an answer.
///
/// What it has said of a link holds on while it is away, and after it was started anew until it says something of that link again: who
/// updates it is not to lose a connection by that.
final class NetworkManagerWatch {
  private struct Device: Hashable {
    var interface = ""
    /// That of its traffic, where it is another: a modem's.
    var trafficInterface = ""
    var metering = Metering.unknown

    var name: String { self.trafficInterface.isEmpty ? self.interface : self.trafficInterface }
  }

  private enum Question: Hashable {
    case owner
    case devices
    case device(String)
  }

  private var bus: MessageBus?
  /// Its unique name: signals are believed from there only, for anybody may send one to whom he likes.
  private var owner: String?
  private var questions: [UInt64: Question] = [:]
  /// By their paths.
  private var devices: [String: Device] = [:]
  /// What an earlier NetworkManager has said of links that this one says nothing of yet.
  private var inherited: [String: Metering] = [:]
  /// What is said of links, by name, since everything was told last.
  private(set) var words: [String: Metering] = [:]

  private static let service = "org.freedesktop.NetworkManager"
  private static let root = "/org/freedesktop/NetworkManager"
  private static let device = "\(service).Device"
  private static let daemon = "org.freedesktop.DBus"
  private static let propertiesInterface = "org.freedesktop.DBus.Properties"
  private static let properties: Set<String> = ["Interface", "IpInterface", "Metered"]

  /// What the bus is to pass on: of devices only what concerns all kinds of them, for those of Wi-Fi tell of every scan.
  private static let rules = [
    "type='signal',sender='\(daemon)',path='/org/freedesktop/DBus',interface='\(daemon)',"
      + "member='NameOwnerChanged',arg0='\(service)'",
    "type='signal',sender='\(service)',interface='\(propertiesInterface)',"
      + "member='PropertiesChanged',path_namespace='\(root)/Devices',arg0='\(device)'",
    "type='signal',sender='\(service)',interface='\(service)',path='\(root)'",
  ]
  /// However much is told, the kernel is heard in between.
  private static let mostSteps = 64
  private static let mostDevices = 256

  init() { self.connect() }

  var fileDescriptor: CInt { self.bus?.fileDescriptor ?? -1 }
  var events: Int16 { self.bus?.events ?? 0 }
  var timeout: Duration? { self.bus?.timeout }

  /// Looks for the bus, where it was not there.
  func connect() {
    guard self.bus == nil else { return }
    do throws(SystemdError) {
      let bus = try MessageBus()
      self.bus = bus
      for rule in Self.rules {
        try bus.call(Self.daemon, "/org/freedesktop/DBus", Self.daemon, "AddMatch", [rule])
      }
      try self.ask(
        .owner, Self.daemon, "/org/freedesktop/DBus", Self.daemon, "GetNameOwner", [Self.service])
    } catch {
      self.lose()
    }
  }

  private func lose() { (self.bus, self.owner, self.questions) = (nil, nil, [:]) }

  private func ask(
    _ question: Question, _ destination: String, _ path: String, _ interface: String,
    _ member: String, _ arguments: [String] = []
  ) throws(SystemdError) {
    guard let bus = self.bus else { return }
    self.questions[try bus.call(destination, path, interface, member, arguments)] = question
  }

  /// Deals with what was told.
  func process() {
    do throws(SystemdError) {
      steps: for _ in 0..<Self.mostSteps {
        guard let bus = self.bus else { break }
        switch try bus.process() {
        case .idle: break steps
        case .worked: continue
        case .message(let message): try self.take(message)
        }
      }
    } catch {
      self.lose()
    }
    guard self.owner != nil, self.questions.isEmpty else { return }
    let said = self.devices.values.filter { !$0.name.isEmpty && $0.metering != .unknown }
    // Of two that name one link the one that pays.
    let words = Dictionary(said.map { ($0.name, $0.metering) }) { $0 == .yes ? $0 : $1 }
    if !self.inherited.isEmpty {
      self.inherited = self.inherited.filter { words[$0.key] == nil }
    }
    self.words = self.inherited.merging(words) { $1 }
  }

  private func take(_ message: BusMessage) throws(SystemdError) {
    if let call = message.answeredCall {
      guard let question = self.questions.removeValue(forKey: call) else { return }
      try self.take(message, answering: question)
    } else if message.isSignal(Self.daemon, "NameOwnerChanged") {
      guard message.sender == Self.daemon, message.readText() == Self.service,
        message.readText() != nil, let owner = message.readText()
      else { return }
      try self.follow(owner)
    } else if message.sender != nil, message.sender == self.owner {
      try self.takeSignal(message)
    }
  }

  private func take(_ message: BusMessage, answering question: Question) throws(SystemdError) {
    switch question {
    case .owner:
      // Without one the bus says so by an error.
      if !message.isError, let owner = message.readText() { try self.follow(owner) }
    case .devices:
      for path in message.readTexts() ?? [] { try self.ask(of: path) }
    case .device(let path):
      self.update(path, message.readProperties(Self.properties) ?? [:])
    }
  }

  private func takeSignal(_ message: BusMessage) throws(SystemdError) {
    if message.isSignal(Self.propertiesInterface, "PropertiesChanged") {
      guard let path = message.path, message.readText() == Self.device else { return }
      self.update(path, message.readProperties(Self.properties) ?? [:])
    } else if message.isSignal(Self.service, "DeviceAdded") {
      if let path = message.readText() { try self.ask(of: path) }
    } else if message.isSignal(Self.service, "DeviceRemoved") {
      guard let path = message.readText(), let device = self.devices.removeValue(forKey: path)
      else { return }
      self.inherited[device.name] = nil
    }
  }

  private func ask(of path: String) throws(SystemdError) {
    guard let owner = self.owner, self.devices[path] == nil, self.devices.count < Self.mostDevices
    else { return }
    self.devices[path] = Device()
    try self.ask(.device(path), owner, path, Self.propertiesInterface, "GetAll", [Self.device])
  }

  /// NetworkManager has this unique name from now on, or, where that is empty, none.
  private func follow(_ owner: String) throws(SystemdError) {
    guard owner != self.owner ?? "" else { return }
    self.owner = owner.isEmpty ? nil : owner
    (self.devices, self.questions, self.inherited) = ([:], [:], self.words)
    guard let owner = self.owner else { return }
    try self.ask(.devices, owner, Self.root, Self.service, "GetDevices")
  }

  private func update(_ path: String, _ values: [String: BusValue]) {
    guard var device = self.devices[path] else { return }
    if case .text(let name)? = values["Interface"] { device.interface = Self.linkName(name) }
    if case .text(let name)? = values["IpInterface"] {
      device.trafficInterface = Self.linkName(name)
    }
    if let value = values["Metered"] { device.metering = Metering(value) }
    self.devices[path] = device
  }

  /// Empty where it can be none.
  private static func linkName(_ text: String) -> String {
    ResolvConf.isLinkName(text) ? text : ""
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

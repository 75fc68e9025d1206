import Connectivity
import Netlink
import Systemd

/// The interface to the source of modem facts. Owned by the monitor thread. Never blocks.
protocol ModemSource {
  /// The descriptor to poll for `events` (poll(2)), or -1 without one.
  var fileDescriptor: CInt { get }
  var events: Int16 { get }
  /// When to continue even if the descriptor is not ready, or `nil` for never.
  var timeout: Duration? { get }

  /// Processes messages, up to the limit for one turn.
  ///
  /// - Returns: The links of modems by name, or `nil` if they have not changed.
  func process() -> [String: ModemLink]?

  /// Notes that links have changed in the kernel. A missing service may be there now, and a modem
  /// may have another link.
  ///
  /// - Returns: As `process()`.
  func noteLinks() -> [String: ModemLink]?

  /// The last known signal quality of modems in percent, by the names of their links. It changes
  /// all the time, so a change is not news.
  var signalQualities: [String: UInt32] { get }
}

/// ModemManager on the system bus.
///
/// If the bus is missing, it is looked for when the kernel reports a new link, because a new modem
/// or its service creates one.
///
/// Implements rule K5.
final class ModemWatch: ModemSource {
  private let service: BusService<Question>
  private var objects = ModemObjects()
  private let serialLines: SerialLines
  /// The links as they were returned last.
  private var told: [String: ModemLink] = [:]
  /// The same links by ModemManager's names for them.
  private var heard: [String: ModemLink] = [:]

  private enum Question: Hashable {
    case objects
    case bearer(String)
  }

  private static let root = "/org/freedesktop/ModemManager1"
  private static let propertiesInterface = "org.freedesktop.DBus.Properties"
  private static let managerInterface = "org.freedesktop.DBus.ObjectManager"

  init(_ serialLines: SerialLines = SerialLines()) {
    self.serialLines = serialLines
    // The rules select by interface (arg0). So the bus does not pass on a modem's position or its
    // cells' signals, which a client may request every second. A bearer's traffic counter arrives
    // every 30 seconds, in the same message as its state.
    let changes = ModemObjects.properties.keys.sorted().map {
      "interface='\(Self.propertiesInterface)',member='PropertiesChanged',path_namespace='\(Self.root)',arg0='\($0)'"
    }
    self.service = BusService(
      "org.freedesktop.ModemManager1",
      signals: changes + ["interface='\(Self.managerInterface)',path='\(Self.root)'"])
  }

  var fileDescriptor: CInt { self.service.fileDescriptor }
  var events: Int16 { self.service.events }
  var timeout: Duration? { self.service.timeout }

  var signalQualities: [String: UInt32] { self.byLink(self.objects.signalQualities) }

  func noteLinks() -> [String: ModemLink]? {
    self.service.connect()
    return self.news()
  }

  /// Returns the current links, or `nil` if they have not changed.
  private func news() -> [String: ModemLink]? {
    self.heard = self.objects.links
    let links = self.byLink(self.heard)
    guard links != self.told else { return nil }
    self.told = links
    return links
  }

  /// Replaces the names of serial lines by the links on them.
  private func byLink<Value>(_ values: [String: Value]) -> [String: Value] {
    var links = values
    for (line, value) in values where SerialLines.isLine(line) {
      links[line] = nil
      if let link = self.serialLines.link(on: line) { links[link] = value }
    }
    return links
  }

  // MARK: - Messages

  func process() -> [String: ModemLink]? {
    self.service.process { event in
      self.take(event)
      self.askOfBearers()
    }
    // Most messages are about signal and traffic.
    return self.objects.links == self.heard ? nil : self.news()
  }

  private func take(_ event: BusService<Question>.Event) {
    switch event {
    case .came:
      self.objects = ModemObjects()
      self.service.ask(.objects, Self.root, Self.managerInterface, "GetManagedObjects")
    case .gone: self.objects = ModemObjects()
    case .answer(.objects, let message):
      for (path, interfaces) in message.readObjects(ModemObjects.properties) ?? [] {
        for properties in interfaces { self.objects.update(path, properties) }
      }
    case .answer(.bearer(let path), let message):
      let wanted = ModemObjects.properties[ModemObjects.bearer] ?? []
      // Also for an error, so that the bearer is not queried again.
      let values = message.readProperties(wanted) ?? [:]
      self.objects.update(path, BusProperties(ModemObjects.bearer, values))
    case .signal(let message): self.takeSignal(message)
    }
  }

  private func takeSignal(_ message: BusMessage) {
    if message.isSignal(Self.propertiesInterface, "PropertiesChanged") {
      guard let path = message.path, let interface = message.readText(),
        let wanted = ModemObjects.properties[interface],
        let values = message.readProperties(wanted), !values.isEmpty
      else { return }
      self.objects.update(path, BusProperties(interface, values))
    } else if message.isSignal(Self.managerInterface, "InterfacesAdded") {
      guard let path = message.readText() else { return }
      for properties in message.readInterfaces(ModemObjects.properties) ?? [] {
        self.objects.update(path, properties)
      }
    } else if message.isSignal(Self.managerInterface, "InterfacesRemoved") {
      guard let path = message.readText() else { return }
      self.objects.remove(path, message.readTexts() ?? [])
    }
  }

  /// Queries bearers without data, each once, because a bearer may never answer.
  private func askOfBearers() {
    let unread = self.objects.unreadBearers
    // Drops queries about bearers that no longer belong to a modem.
    self.service.forget { question in
      if case .bearer(let path) = question { !unread.contains(path) } else { false }
    }
    for path in unread where !self.service.questions.contains(.bearer(path)) {
      self.service.ask(
        .bearer(path), path, Self.propertiesInterface, "GetAll", [ModemObjects.bearer])
    }
  }
}

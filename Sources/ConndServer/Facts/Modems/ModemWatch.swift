import Connectivity
import Glibc
import LinuxSupport
import Netlink
import Systemd

/// ModemManager on the system bus.
///
/// If the bus is missing, connd tries to connect when the kernel reports a new link, because a new
/// modem or its service creates one.
///
/// Implements rule K5.
final class ModemWatch: FactSource {
  private let service: BusService<Question>
  private var objects = ModemObjects()
  private let serialLines: SerialLines
  /// The links as they were returned last.
  private var reported: [String: ModemLink] = [:]
  /// The links that were read last, by ModemManager's names for them.
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
    // The rules select by interface (arg0). So the bus does not forward a modem's position or its
    // cells' signals, which a client may request every second. A bearer's traffic counter arrives
    // every 30 seconds, in the same message as its state.
    let changes = ModemObjects.properties.keys.sorted().map {
      "interface='\(Self.propertiesInterface)',member='PropertiesChanged',path_namespace='\(Self.root)',arg0='\($0)'"
    }
    self.service = BusService(
      "org.freedesktop.ModemManager1",
      signals: changes + ["interface='\(Self.managerInterface)',path='\(Self.root)'"])
  }

  var descriptors: [pollfd] { [self.service.descriptor] }
  var timeout: Duration? { self.service.timeout }

  var signalQualities: [String: UInt32] { self.byLink(self.objects.signalQualities) }

  func noteLinks() -> [FactUpdate] {
    self.service.connect()
    return self.news()
  }

  /// Returns the current links, if they have changed.
  private func news() -> [FactUpdate] {
    self.heard = self.objects.links
    let links = self.byLink(self.heard)
    guard links != self.reported else { return [] }
    self.reported = links
    return [.modems(links)]
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

  func process() -> [FactUpdate] {
    self.service.process { event in
      self.take(event)
      self.askOfBearers()
    }
    // Most messages are about signal and traffic, which do not change the links.
    return self.objects.links == self.heard ? [] : self.news()
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
      // Updates the bearer even after an error, so that it is not queried again.
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

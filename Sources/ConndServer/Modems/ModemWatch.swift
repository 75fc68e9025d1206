import Connectivity
import Systemd

/// The seam to what knows of modems. Owned by the monitor's thread; nothing here waits.
protocol ModemSource {
  /// To be waited for, for `events` of poll(2); -1 where nothing tells.
  var fileDescriptor: CInt { get }
  var events: Int16 { get }
  /// After what time to go on although the descriptor says nothing; `nil`: not at all.
  var timeout: Duration? { get }

  /// Deals with what was told, as much of it as is good for one turn.
  ///
  /// - Returns: the links of modems by name; `nil` where they are what was said last.
  func process() -> [String: ModemLink]?

  /// The kernel has told of links: what is not there may be, and a modem may have another one.
  ///
  /// - Returns: as `process()`.
  func noteLinks() -> [String: ModemLink]?

  /// How well modems hear their networks, in percent, by their links' names, as it was told last. It changes all the time, and that is
  /// no news.
  var signalQualities: [String: UInt32] { get }
}

/// ModemManager on the system bus.
///
/// What is not there is looked for when the kernel tells of a link: who plugs in a modem or starts a service for it makes one.
final class ModemWatch: ModemSource {
  private let service: BusService<Question>
  private var objects = ModemObjects()
  private let serialLines: SerialLines
  /// The links as they were said last.
  private var told: [String: ModemLink] = [:]
  /// The same by the names that ModemManager has for them.
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
    // By interface (arg0): of a modem's position or its cells' signals, which somebody may have ModemManager tell every second, the bus
    // passes on nothing. What a bearer has carried it tells every half a minute, by the same message as that it is connected.
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

  /// What is to be said of links now; `nil` where that was said already.
  private func news() -> [String: ModemLink]? {
    self.heard = self.objects.links
    let links = self.byLink(self.heard)
    guard links != self.told else { return nil }
    self.told = links
    return links
  }

  /// The same by the links that serial lines have become.
  private func byLink<Value>(_ values: [String: Value]) -> [String: Value] {
    var links = values
    for (line, value) in values where SerialLines.isLine(line) {
      links[line] = nil
      if let link = self.serialLines.link(of: line) { links[link] = value }
    }
    return links
  }

  // MARK: - What comes

  func process() -> [String: ModemLink]? {
    self.service.process { event in
      self.take(event)
      self.askOfBearers()
    }
    // Most of what it tells is of the signal and of bytes.
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
      // Also where that is an error: it was asked.
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

  /// Asks of bearers that nothing is known of, each once: who never answers is asked no more.
  private func askOfBearers() {
    let unread = self.objects.unreadBearers
    // What is no modem's any more is not waited for.
    self.service.forget { question in
      if case .bearer(let path) = question { !unread.contains(path) } else { false }
    }
    for path in unread where !self.service.questions.contains(.bearer(path)) {
      self.service.ask(
        .bearer(path), path, Self.propertiesInterface, "GetAll", [ModemObjects.bearer])
    }
  }
}

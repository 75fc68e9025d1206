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
}

/// ModemManager on the system bus.
///
/// The bus may be absent, go, hang, or be ModemManager's that lies: nobody waits for an answer, and there is no timer. What is not
/// there is looked for when the kernel tells of a link: who plugs in a modem or starts a service for it makes one.
final class ModemWatch: ModemSource {
  private var bus: MessageBus?
  /// ModemManager's unique name: signals are believed from there only, for anybody may send one to whom he likes.
  private var owner: String?
  private var objects = ModemObjects()
  private var questions: [UInt64: Question] = [:]
  private let serialLines: SerialLines
  /// The links as they were said last.
  private var told: [String: ModemLink] = [:]

  private enum Question: Hashable {
    case owner
    case objects
    case bearer(String)
  }

  private static let service = "org.freedesktop.ModemManager1"
  private static let root = "/org/freedesktop/ModemManager1"
  private static let daemon = "org.freedesktop.DBus"
  private static let propertiesInterface = "org.freedesktop.DBus.Properties"
  private static let managerInterface = "org.freedesktop.DBus.ObjectManager"

  /// What the bus is to pass on. The signal's strength is among what modems tell of, and is not looked at.
  private static let rules = [
    "type='signal',sender='\(daemon)',path='/org/freedesktop/DBus',interface='\(daemon)',"
      + "member='NameOwnerChanged',arg0='\(service)'",
    "type='signal',sender='\(service)',interface='\(propertiesInterface)',"
      + "member='PropertiesChanged',path_namespace='\(root)'",
    "type='signal',sender='\(service)',interface='\(managerInterface)',path='\(root)'",
  ]

  /// However much is told, the kernel is heard in between.
  private static let mostSteps = 64

  init(_ serialLines: SerialLines = SerialLines()) {
    self.serialLines = serialLines
    self.connect()
  }

  var fileDescriptor: CInt { self.bus?.fileDescriptor ?? -1 }
  var events: Int16 { self.bus?.events ?? 0 }
  var timeout: Duration? { self.bus?.timeout }

  func noteLinks() -> [String: ModemLink]? {
    if self.bus == nil { self.connect() }
    return self.news()
  }

  /// What is to be said of links now, with those that serial lines have become; `nil` where that was said already.
  private func news() -> [String: ModemLink]? {
    var links = self.objects.links
    for (line, modem) in links where SerialLines.isLine(line) {
      links[line] = nil
      if let link = self.serialLines.link(of: line) { links[link] = modem }
    }
    guard links != self.told else { return nil }
    self.told = links
    return links
  }

  private func connect() {
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

  private func lose() {
    (self.bus, self.questions) = (nil, [:])
    self.change(owner: nil)
  }

  private func ask(
    _ question: Question, _ destination: String, _ path: String, _ interface: String,
    _ member: String, _ arguments: [String] = []
  ) throws(SystemdError) {
    guard let bus = self.bus else { return }
    self.questions[try bus.call(destination, path, interface, member, arguments)] = question
  }

  // MARK: - What comes

  func process() -> [String: ModemLink]? {
    do throws(SystemdError) {
      steps: for _ in 0..<Self.mostSteps {
        guard let bus = self.bus else { break }
        switch try bus.process() {
        case .idle: break steps
        case .worked: continue
        case .message(let message): try self.take(message)
        }
      }
      try self.askOfBearers()
    } catch {
      self.lose()
    }
    return self.news()
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
      self.takeSignal(message)
    }
  }

  private func take(_ message: BusMessage, answering question: Question) throws(SystemdError) {
    switch question {
    case .owner:
      // Without one the bus says so by an error.
      if !message.isError, let owner = message.readText() { try self.follow(owner) }
    case .objects:
      for (path, interfaces) in message.readObjects(ModemObjects.properties) ?? [] {
        for properties in interfaces { self.objects.update(path, properties) }
      }
    case .bearer(let path):
      let wanted = ModemObjects.properties[ModemObjects.bearer] ?? []
      // Also where that is an error: it was asked.
      let values = message.readProperties(wanted) ?? [:]
      self.objects.update(path, BusProperties(ModemObjects.bearer, values))
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

  // MARK: - What is asked

  /// ModemManager has this unique name from now on, or, where that is empty, none.
  private func follow(_ owner: String) throws(SystemdError) {
    guard owner != self.owner ?? "" else { return }
    self.change(owner: owner.isEmpty ? nil : owner)
    guard let owner = self.owner else { return }
    try self.ask(.objects, owner, Self.root, Self.managerInterface, "GetManagedObjects")
  }

  private func change(owner: String?) {
    (self.owner, self.objects) = (owner, ModemObjects())
    self.questions = self.questions.filter { $0.value == .owner }
  }

  /// Asks of bearers that nothing is known of, each once: who never answers is asked no more.
  private func askOfBearers() throws(SystemdError) {
    guard let owner = self.owner else { return }
    let unread = self.objects.unreadBearers
    // What is no modem's any more is not waited for.
    self.questions = self.questions.filter { _, question in
      if case .bearer(let path) = question { unread.contains(path) } else { true }
    }
    for path in unread where !self.questions.values.contains(.bearer(path)) {
      try self.ask(
        .bearer(path), owner, path, Self.propertiesInterface, "GetAll", [ModemObjects.bearer])
    }
  }
}

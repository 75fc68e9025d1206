import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// The model kernel behind the seam, with everything that can go wrong: early, late, duplicate or
/// lost messages, stale answers because something happens between two queries, and no answers at
/// all.
final class FaultyKernel: ReopenableKernel {
  private(set) var network: ModelNetwork {
    didSet {
      for port in self.connections.keys {
        self.connections[port]?.follow(self.network, at: self.now)
      }
    }
  }
  /// The clients' connections, by their local ports.
  private(set) var connections: [UInt16: ModelConnection] = [:]
  /// The sockets queried since the last look, by local port, and their reports.
  /// Whether netfilter tracks connections, so that the lookup is not proof (E0).
  var tracksConnections = false
  private var askedSockets: [(port: UInt16, report: SocketReport)] = []
  /// All states of the network since the last look.
  private var versions: [ModelNetwork] = []

  /// The network after a change that the kernel has announced, but not made.
  private var announced: ModelNetwork?

  var now = Instant(sinceStart: .zero) {
    didSet { if self.now != oldValue { self.makeChanges() } }
  }
  /// The maximum number of messages for one reading.
  var batch = Int.max
  /// The number of the query from which on it fails, or `nil` for never.
  var failsAfter: Int?
  /// An event before the query with that number.
  var interference: (question: Int, happen: () -> Void)?
  /// Whether the seed determines the order of the queries, which it does not for elements of a set.
  var isOrdered = true
  private var questions = 0

  init(_ network: ModelNetwork) { self.network = network }

  private var messages: [(due: Instant, event: KernelEvent)] = []
  private(set) var watched = FilterSpec()

  /// Whether messages wait to be read.
  var hasMessages: Bool {
    self.failsAfter == 0 || self.messages.first.map { $0.due <= self.now } ?? false
  }
  var isQuiet: Bool { self.messages.isEmpty }
  var nextMessage: Instant? { self.messages.first?.due }

  /// Changes the network.
  ///
  /// - Parameters:
  ///   - delay: How long after the change its messages come.
  ///   - isAnnounced: Whether the messages come before the change.
  func change(
    delay: Duration = .zero, isAnnounced: Bool = false, isDoubled: Bool = false,
    _ body: (inout ModelNetwork) -> [KernelEvent]
  ) {
    self.makeChanges()
    var network = self.network
    let events = body(&network)
    self.versions.append(network)
    self.announced = network
    if !isAnnounced { self.makeChanges() }
    self.send(events.flatMap { isDoubled ? [$0, $0] : [$0] }, delay)
  }

  private func makeChanges() {
    guard let announced = self.announced else { return }
    self.announced = nil
    self.network = announced
  }

  func takeVersions() -> [ModelNetwork] {
    defer { self.versions = [] }
    return self.versions
  }

  private func send(_ events: [KernelEvent], _ delay: Duration) {
    // Messages never overtake each other.
    let due = max(self.messages.last?.due ?? self.now, self.now.advanced(by: delay))
    for event in events where self.passes(event) { self.messages.append((due, event)) }
  }

  /// Whether the filter of the listening socket passes an event.
  private func passes(_ event: KernelEvent) -> Bool {
    switch event {
    case .route(let change, _), .routeRemoved(let change):
      let prefix = change.route.prefix
      return prefix.length <= 1 || self.watched.destinations.contains(where: prefix.contains)
    case .neighbour(let neighbour):
      return self.watched.gateways.contains { gateway in
        gateway.link == neighbour.link && gateway.address == neighbour.address
          && (gateway.hardwareAddress != neighbour.hardwareAddress
            || gateway.isFailed != neighbour.isFailed)
      }
    case .link(let link), .linkRemoved(let link):
      return self.hears(link.index)
        || link.master.map { self.watched.unheard?.masters.contains($0) ?? true } ?? false
    case .address(let address), .addressRemoved(let address):
      let isOthers = address.address.family == .ipv4 || !address.address.isLinkLocal
      return isOthers || self.hears(address.link)
    case .bridgeEntry(let entry): return self.watched.bridged.contains(entry.hardwareAddress)
    default: return true
    }
  }

  private func hears(_ link: UInt32) -> Bool {
    guard let unheard = self.watched.unheard else { return true }
    return link <= unheard.above || unheard.except.contains(link)
  }

  /// The buffer overflows: some waiting messages are lost, and the next reading begins with an
  /// overrun.
  func overrun(keeping count: Int) {
    self.messages = [(self.now, .overrun)] + self.messages.prefix(count)
  }

  /// Reopens the sockets: messages in the old ones are lost.
  func reopen(_ watched: FilterSpec) {
    self.messages = []
    self.failsAfter = nil
    self.watched = watched
  }

  func expectQuestions() { self.questions = 0 }

  private func count() throws(KernelUnavailable) {
    if self.isOrdered { self.questions += 1 }
    if self.isOrdered, let interference = self.interference, self.questions >= interference.question
    {
      self.interference = nil
      interference.happen()
    }
    if let limit = self.failsAfter, self.questions > limit {
      throw KernelUnavailable(description: "gone")
    }
  }

  // MARK: - Connections

  func connect(_ question: Destination, _ kind: ModelConnection.Kind) {
    guard let port = question.transport?.localPort else { return }
    self.connections[port] = ModelConnection(question, kind, in: self.network, at: self.now)
  }

  func close(_ port: UInt16) { self.connections[port] = nil }

  /// The owner of a connection asks its peer.
  func ask(_ port: UInt16) { self.connections[port]?.ask(at: self.now) }

  func takeAskedSockets() -> [(port: UInt16, report: SocketReport)] {
    defer { self.askedSockets = [] }
    return self.askedSockets
  }

  // MARK: - Kernel

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    if self.failsAfter == 0 { throw KernelUnavailable(description: "gone") }
    let due = self.messages.prefix { $0.due <= self.now }.prefix(self.batch)
    self.messages.removeFirst(due.count)
    events += due.map(\.event)
    return self.messages.first.map { $0.due <= self.now } ?? false
  }

  func waitForChanges() throws(KernelUnavailable) {
    if self.failsAfter == 0 { throw KernelUnavailable(description: "gone") }
    self.makeChanges()
  }

  func takeExpiry() -> Duration? { nil }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.count()
    self.watched = watched
  }

  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply {
    switch question {
    case .sockets, .translation, .rules, .wirelessLink, .wirelessSignal: break
    default: try self.count()
    }
    let reply = self.reply(to: question)
    // The links of the answers are queried later, when they may be gone.
    if case .routes = question, !self.isOrdered, let interference = self.interference {
      self.interference = nil
      interference.happen()
    }
    return reply
  }

  private func reply(to question: KernelQuestion) -> KernelReply {
    switch question {
    case .routes(let destinations): .routes(destinations.map { self.network.route(to: $0) })
    case .entry(let destination): .entry(self.network.tableEntry(for: destination))
    case .refusesReplies: .flag(false)
    case .link(let index): .link(self.facts(index))
    case .linkNamed(let name): .link(self.links.first { $0.link.name == name })
    case .links: .links(self.links)
    case .addresses(let address, let link):
      .addresses(
        (self.network[link]?.addresses ?? []).filter {
          $0.address == address || address.family == .ipv4 && $0.address.family == .ipv4
        })
    case .allAddresses: .addresses(self.network.links.flatMap(\.addresses))
    case .neighbour(let address, let link):
      .neighbour(
        self.network[link]?.neighbours[address].map {
          Neighbour(address, link: link, hardwareAddress: $0)
        })
    case .bridgePort(let hardwareAddress, let bridge):
      .bridgePort(self.network[bridge]?.learnt[hardwareAddress])
    case .wirelessLink: .wirelessLink(.notWireless)
    case .wirelessSignal: .wirelessSignal(nil)
    case .sockets(let connections): .sockets(connections.map(self.report))
    case .translation: .flag(self.tracksConnections)
    case .rules: .rules([])
    case .discardingRoutes: .discardingRoutes([])
    }
  }

  private func facts(_ index: UInt32) -> LinkFacts? {
    self.network.link(index).map { LinkFacts($0, device: self.network.device(index)) }
  }

  private var links: [LinkFacts] { self.network.links.compactMap { self.facts($0.index) } }

  private func report(of question: Destination) -> SocketReport? {
    guard let port = question.transport?.localPort, let connection = self.connections[port],
      connection.question.source == question.source,
      connection.question.address == question.address
    else { return nil }
    let report = connection.report(at: self.now)
    self.askedSockets.append((port, report))
    return report
  }
}

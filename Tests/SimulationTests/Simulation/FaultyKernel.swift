import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// The model kernel behind the seam, with all that can go wrong there: messages late, doubled or lost, answers that are
/// stale because something happens between two questions, and no answers at all.
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
  /// Which sockets were asked since the simulation looked, by their local ports, and what they said.
  private var askedSockets: [(port: UInt16, report: SocketReport)] = []
  /// All that the network was since somebody looked.
  private var versions: [ModelNetwork] = []

  var now = Instant(sinceStart: .zero)
  /// How many messages one reading gets at most.
  var batch = Int.max
  /// Fails from this question on; `nil`: never.
  var failsAfter: Int?
  /// What happens before the question of that number.
  var interference: (question: Int, happen: () -> Void)?
  /// Whether the seed decides the order of the questions: that of a set's elements it does not.
  var isOrdered = true
  private var questions = 0

  init(_ network: ModelNetwork) { self.network = network }

  private var messages: [(due: Instant, event: KernelEvent)] = []
  private(set) var watched = Watched()

  var fileDescriptor: CInt { -1 }
  /// Whether something waits to be read.
  var hasMessages: Bool {
    self.failsAfter == 0 || self.messages.first.map { $0.due <= self.now } ?? false
  }
  var isQuiet: Bool { self.messages.isEmpty }
  var nextMessage: Instant? { self.messages.first?.due }

  /// Does something to the network, of which the messages come later.
  func change(
    delay: Duration = .zero, isDoubled: Bool = false,
    _ body: (inout ModelNetwork) -> [KernelEvent]
  ) {
    let events = body(&self.network)
    self.versions.append(self.network)
    self.send(events.flatMap { isDoubled ? [$0, $0] : [$0] }, delay)
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

  /// What the filter of the listening socket lets pass.
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

  /// The buffer is full: some of what waits is lost, and the next reading begins by saying so.
  func overrun(keeping count: Int) {
    self.messages = [(self.now, .overrun)] + self.messages.prefix(count)
  }

  /// Sockets that were opened anew: what waited is gone with the old ones.
  func reopen(_ watched: Watched) {
    self.messages = []
    self.failsAfter = nil
    self.watched = watched
  }

  func expectQuestions() { self.questions = 0 }

  private func ask() throws(KernelUnavailable) {
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

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.ask()
    let answers = destinations.map { self.network.route(to: $0) }
    // What the answers lead to is asked for later, when it may have gone.
    if !self.isOrdered, let interference = self.interference {
      self.interference = nil
      interference.happen()
    }
    return answers
  }

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.ask()
    return false
  }

  func takeExpiry() -> Duration? { nil }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try self.ask()
    return self.network.tableEntry(for: destination)
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask()
    return self.network.link(index).map { LinkFacts($0, device: self.network.device(index)) }
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try self.ask()
    let all = self.network[link]?.addresses ?? []
    return all.filter {
      $0.address == address || address.family == .ipv4 && $0.address.family == .ipv4
    }
  }

  /// There is no nl80211: nobody is asked.
  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer { .notWireless }

  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal? { nil }

  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    connections.map { question in
      guard let port = question.transport?.localPort, let connection = self.connections[port],
        connection.question.source == question.source,
        connection.question.address == question.address
      else { return nil }
      let report = connection.report(at: self.now)
      self.askedSockets.append((port, report))
      return report
    }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.ask()
    return self.network[bridge]?.learnt[hardwareAddress]
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.ask()
    return self.network[link]?.neighbours[address].map {
      Neighbour(address, link: link, hardwareAddress: $0)
    }
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try self.ask()
    return self.network.links.compactMap { link in
      self.network.link(link.index).map { LinkFacts($0, device: self.network.device(link.index)) }
    }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try self.ask()
    return self.network.links.flatMap(\.addresses)
  }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] { [] }

  func watch(_ watched: Watched) throws(KernelUnavailable) {
    try self.ask()
    self.watched = watched
  }
}

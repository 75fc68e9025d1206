import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink

@testable import ConndServer

/// A kernel that a test writes.
final class ModelKernel: Kernel {
  var fileDescriptor: CInt { -1 }
  var hasMessages: Bool { self.isNeverSilent || !self.untold.isEmpty }
  /// Whether the next message has always just arrived when the others have been read.
  var isNeverSilent = false
  /// The entries of the routing tables. Unlike Linux, addresses add none.
  var routes: [ModelRoute] = []
  var rules: [ModelRule] = []
  /// Ways for traffic bound to a link. If a link has none, the routes over it are used.
  var bound: [UInt32: RouteAnswer] = [:]
  var wirelessLinks: [UInt32: WirelessLink] = [:]
  /// The answers that nl80211 still gives for a link while its full dump fails, or `nil` if it
  /// works.
  var incompleteWireless: ((UInt32) -> WirelessLink?)?
  var wirelessSignals: [UInt32: WirelessSignal] = [:]
  var linkTable: [UInt32: LinkFacts] = [:]
  var addressTable: [Address] = []
  /// Whether the leg of the source's link is chosen, as Linux has done since version 6.15.
  var choosesLegBySource = true
  /// The source addresses that routes set (`src`); the kernel chooses any other.
  var setSources: Set<IPAddress> = []
  /// Addresses that a link no longer has, but the local table still does.
  var leaving: [IPAddress: UInt32] = [:]
  /// Whole blocks that are local (AnyIP).
  var localBlocks: [IPPrefix] = []
  /// Addresses that are missing from the local table because they are in a VRF's.
  var inVRF: Set<IPAddress> = []
  var neighbours: [IPAddress: Neighbour] = [:]
  /// The ports behind which bridges have learnt MAC addresses.
  var learnt: [[UInt8]: UInt32] = [:]
  /// The reports of sockets, by local port.
  var sockets: [UInt16: SocketReport] = [:]
  private(set) var socketQuestions = 0
  /// Whether netfilter tracks connections, and how often connd has asked that.
  var tracksConnections = false
  private(set) var trackingQuestions = 0
  /// How long the next answers are valid.
  var expiry: Duration?
  /// Called before each answer about a neighbour.
  var onNeighbour: (IPAddress) -> Void = { _ in }
  var isGone: Bool {
    get { self.failure != nil }
    set { self.failure = newValue ? KernelUnavailable(description: "gone") : nil }
  }
  /// Why no query is answered. If it only refuses queries, it still sends its messages.
  var failure: KernelUnavailable?
  /// Whether a query, written as in `asked`, is answered with an error.
  var refuses: (String) -> Bool = { _ in false }
  /// Messages still to be read, one entry for each read. An entry's changes happen when it is read.
  var untold: [() -> [KernelEvent]] = []
  private var happening: [Int: () -> Void] = [:]
  /// The number of queries so far.
  var questions: Int { self.asked.count }
  /// The queries so far, in order.
  private(set) var asked: [String] = []
  private(set) var watched = FilterSpec()

  /// Runs the closure before the next query, after this many more have been answered.
  func happens(after questions: Int, _ happen: @escaping () -> Void) {
    self.happening[self.questions + questions + 1] = happen
  }

  private func ask(_ question: String) throws(KernelUnavailable) {
    self.asked.append(question)
    self.happening.removeValue(forKey: self.questions)?()
    if let failure = self.failure { throw failure }
    if self.refuses(question) {
      throw KernelUnavailable(description: "\(question): refused", isOfOneQuestion: true)
    }
  }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    if let failure = self.failure, !failure.isOfOneQuestion { throw failure }
    guard !self.untold.isEmpty else { return false }
    events += self.untold.removeFirst()()
    return !self.untold.isEmpty
  }

  /// The changes that the kernel has announced and not made yet.
  var announced: [() -> Void] = []

  func waitForChanges() throws(KernelUnavailable) {
    if let failure = self.failure, !failure.isOfOneQuestion { throw failure }
    for change in self.announced { change() }
    self.announced = []
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.ask("watch")
    self.watched = watched
  }

  // MARK: - Routes

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    var answers: [RouteAnswer] = []
    for destination in destinations {
      do throws(KernelUnavailable) {
        try self.ask("route \(destination.address)")
        answers.append(self.answer(to: destination))
      } catch {
        guard error.isOfOneQuestion else { throw error }
        answers.append(.unanswered(error.description))
      }
    }
    return answers
  }

  /// The links on which replies to a connection would be dropped (rp_filter).
  var refusingReplies: Set<UInt32> = []

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.ask("reply \(destination.address) \(link)")
    return self.refusingReplies.contains(link)
  }

  func takeExpiry() -> Duration? {
    defer { self.expiry = nil }
    return self.expiry
  }

  private func answer(to destination: Destination) -> RouteAnswer {
    if self.isLocal(destination.address) {
      return .route(Route(kind: .local, outLink: 1, source: destination.address, table: 255))
    }
    if let source = destination.source, !self.isLocal(source) { return .noRoute(.noRoute) }
    if let link = destination.outLink, case .route(var route) = self.bound[link] {
      route.source = destination.source ?? route.source
      return .route(route)
    }
    let owner = self.choosesLegBySource ? destination.source.flatMap(self.owner) : nil
    return self.decidingRoute(to: destination)?
      .answer(to: destination, owner: owner, source: \.source) ?? .noRoute(.noRoute)
  }

  private func decidingRoute(to destination: Destination) -> ModelRoute? {
    self.rules.entry(for: destination) { self.routes.best(in: $0, for: destination) }
  }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try self.ask("entry \(destination.address)")
    let address = destination.address
    if !self.inVRF.contains(address), let owner = self.owner(of: address) ?? self.leaving[address],
      let host = IPPrefix(address, length: address.family.bitWidth)
    {
      return RouteEntry(
        MatchedRoute(prefix: host, table: 255, priority: 0), kind: .local, outLink: owner,
        isKernels: true)
    }
    if let block = self.localBlocks.first(where: { $0.contains(address) }) {
      return RouteEntry(
        MatchedRoute(prefix: block, table: 255, priority: 0), kind: .local, outLink: 1)
    }
    let route = self.decidingRoute(to: destination)
    var entry = route?.entry
    entry?.source = route?.legs.compactMap(\.source).first { self.setSources.contains($0) }
    return entry
  }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    try self.ask("rules")
    return self.rules.filter { $0.family == family }.map { rule in
      let selection: Rule.Selection =
        switch rule.selector {
        case .all: .all
        case .exceptMark(let mark): .mark(mark, isInverted: true)
        case .source, .port, .localPorts: .other
        }
      return Rule(family: family, priority: 32765, selection: selection, table: rule.table)
    }
  }

  // MARK: - Links and addresses

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask("link \(index)")
    return self.linkTable[index]
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try self.ask("links")
    return self.linkTable.values.sorted { $0.link.index < $1.link.index }
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try self.ask("address \(address) \(link)")
    return self.addressTable.filter {
      $0.link == link
        && ($0.address == address || address.family == .ipv4 && $0.address.family == .ipv4)
    }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try self.ask("addresses")
    return self.addressTable
  }

  func owner(of address: IPAddress) -> UInt32? {
    self.addressTable.first { $0.address == address }?.link
  }

  private func isLocal(_ address: IPAddress) -> Bool {
    self.owner(of: address) != nil || self.leaving[address] != nil
      || self.localBlocks.contains { $0.contains(address) }
  }

  // MARK: - Neighbours

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.ask("neighbour \(address) \(link)")
    self.onNeighbour(address)
    return self.neighbours[address]
  }

  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer {
    try self.ask("wireless \(index)")
    if let incomplete = self.incompleteWireless { return .incomplete(incomplete(index)) }
    return self.wirelessLinks[index].map { .link($0) } ?? .notWireless
  }

  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal? {
    try self.ask("signal \(index)")
    return self.wirelessSignals[index]
  }

  func translatesConnections() -> Bool {
    self.trackingQuestions += 1
    return self.tracksConnections
  }

  /// Happens after the sockets' reports, before their reader goes on.
  var onSocketReports: () -> Void = {}

  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    self.socketQuestions += connections.count
    defer { self.onSocketReports() }
    return connections.map { self.sockets[$0.transport?.localPort ?? 0] }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.ask("port \(hardwareAddress) \(bridge)")
    return self.learnt[hardwareAddress]
  }
}

extension KernelView {
  /// Creates a view for a turn of which only the answers matter.
  convenience init(_ kernel: ModelKernel) { self.init(kernel, ReadingContext()) }
}

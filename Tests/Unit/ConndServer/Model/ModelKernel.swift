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

  private func note(_ question: String) throws(KernelUnavailable) {
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
    try self.note("watch")
    self.watched = watched
  }

  /// The links on which replies to a connection would be dropped (rp_filter).
  var refusingReplies: Set<UInt32> = []
  /// Happens after the sockets' reports, before their reader goes on.
  var onSocketReports: () -> Void = {}

  func takeExpiry() -> Duration? {
    defer { self.expiry = nil }
    return self.expiry
  }

  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply {
    switch question {
    case .routes(let destinations):
      return .routes(
        try destinations.map { (destination) throws(KernelUnavailable) in
          do throws(KernelUnavailable) {
            try self.note("route \(destination.address)")
            return self.answer(to: destination)
          } catch {
            guard error.isOfOneQuestion else { throw error }
            return .unanswered(error.description)
          }
        })
    case .entry(let destination):
      try self.note("entry \(destination.address)")
      return .entry(self.tableEntry(for: destination))
    case .refusesReplies(let destination, let link):
      try self.note("reply \(destination.address) \(link)")
      return .flag(self.refusingReplies.contains(link))
    case .link(let index):
      try self.note("link \(index)")
      return .link(self.linkTable[index])
    case .linkNamed(let name):
      try self.note("links")
      return .link(
        self.allLinks.first { $0.link.name == name || $0.link.alternativeNames.contains(name) })
    case .links:
      try self.note("links")
      return .links(self.allLinks)
    case .addresses(let address, let link):
      try self.note("address \(address) \(link)")
      return .addresses(
        self.addressTable.filter {
          $0.link == link
            && ($0.address == address || address.family == .ipv4 && $0.address.family == .ipv4)
        })
    case .allAddresses:
      try self.note("addresses")
      return .addresses(self.addressTable)
    case .neighbour(let address, let link):
      try self.note("neighbour \(address) \(link)")
      self.onNeighbour(address)
      return .neighbour(self.neighbours[address])
    case .bridgePort(let hardwareAddress, let bridge):
      try self.note("port \(hardwareAddress) \(bridge)")
      return .bridgePort(self.learnt[hardwareAddress])
    case .wirelessLink(let index):
      try self.note("wireless \(index)")
      if let incomplete = self.incompleteWireless {
        return .wirelessLink(.incomplete(incomplete(index)))
      }
      return .wirelessLink(self.wirelessLinks[index].map { .link($0) } ?? .notWireless)
    case .wirelessSignal(let index):
      try self.note("signal \(index)")
      return .wirelessSignal(self.wirelessSignals[index])
    case .sockets(let connections):
      self.socketQuestions += connections.count
      defer { self.onSocketReports() }
      return .sockets(connections.map { self.sockets[$0.transport?.localPort ?? 0] })
    case .translation:
      self.trackingQuestions += 1
      return .flag(self.tracksConnections)
    case .rules(let family):
      try self.note("rules")
      return .rules(self.policy(family))
    case .discardingRoutes:
      try self.note("discarding routes")
      return .discardingRoutes([])
    }
  }

  private var allLinks: [LinkFacts] {
    self.linkTable.values.sorted { $0.link.index < $1.link.index }
  }

  // MARK: - Routes

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

  private func tableEntry(for destination: Destination) -> RouteEntry? {
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

  private func policy(_ family: AddressFamily) -> [Rule] {
    self.rules.filter { $0.family == family }.map { rule in
      let selection: Rule.Selection =
        switch rule.selector {
        case .all: .all
        case .exceptMark(let mark): .mark(mark, isInverted: true)
        case .source, .port, .localPorts: .other
        }
      return Rule(family: family, priority: 32765, selection: selection, table: rule.table)
    }
  }

  // MARK: - Addresses

  func owner(of address: IPAddress) -> UInt32? {
    self.addressTable.first { $0.address == address }?.link
  }

  private func isLocal(_ address: IPAddress) -> Bool {
    self.owner(of: address) != nil || self.leaving[address] != nil
      || self.localBlocks.contains { $0.contains(address) }
  }
}

extension KernelView {
  /// Creates a view for a turn of which only the answers matter.
  convenience init(_ kernel: ModelKernel) { self.init(kernel, ReadingContext()) }
}

import Connectivity
import ConnectivityRules
import Netlink
import OrderedCollections

/// The kernel's state during one turn of the loop. Each answer is remembered until the turn ends.
///
/// The view is not a snapshot of one instant. A change during the turn causes a message, and the
/// message causes another turn.
///
/// Implements rule K2.
final class KernelView {
  private let kernel: any Kernel
  // The reading context, with the additions of this turn. It is split into properties, because an
  // update of the subscriptions may query links, which also updates the caches.
  var subscriptions: KernelSubscriptions
  private var modems: ModemCache
  private(set) var wireless: WirelessCache
  private var refusal: KernelUnavailable?
  // A small ordered dictionary compares its keys, which costs less than hashing them.
  private var answers = OrderedDictionary<Destination, RouteAnswer>()
  private var entries = OrderedDictionary<Destination, RouteEntry?>()
  private var facts = OrderedDictionary<UInt32, LinkFacts?>()
  private var onLinks = OrderedDictionary<OnLink, Address?>()
  /// The prefix lengths of an address on a link, if there are several.
  private var prefixLengths: [OnLink: Set<Int>] = [:]
  /// The links of which all IPv4 addresses are known.
  private var listed: Set<UInt32> = []
  private var owners = OrderedDictionary<IPAddress, UInt32?>()
  private var neighbours = OrderedDictionary<OnLink, Neighbour?>()
  private var isProof: Bool?
  private var allLinks: [LinkFacts]?
  private var allAddresses: [Address]?

  private struct OnLink: Hashable {
    var address: IPAddress
    var link: UInt32
  }

  init(_ kernel: any Kernel, _ context: ReadingContext = ReadingContext()) {
    self.kernel = kernel
    (self.subscriptions, self.modems) = (context.subscriptions, context.modems)
    (self.wireless, self.refusal) = (context.wireless, context.refusal)
  }

  /// The context with the additions of this turn.
  var used: ReadingContext {
    ReadingContext(
      subscriptions: self.subscriptions, modems: self.modems, wireless: self.wireless,
      refusal: self.refusal)
  }

  /// Runs the queries that a single path or flow depends on.
  ///
  /// - Returns: The answer, or `nil` if the kernel refuses one of the queries. Then only this path
  ///   or flow is unknown (K8).
  func unlessRefused<Answer>(
    _ questions: () throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer? {
    do {
      return try questions()
    } catch {
      guard error.isOfOneQuestion else { throw error }
      self.refusal = error
      return nil
    }
  }

  /// Notes that something is unknown because the kernel refused a query.
  func note(refusal: KernelUnavailable) { self.refusal = refusal }

  /// Whether the kernel has sent messages that have not been read.
  var hasMessages: Bool { self.kernel.hasMessages }

  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    if let known = self.answers[destination] { return known }
    let answer = try self.kernel.routes(to: [destination]).first ?? .noRoute(.noRoute)
    // The answer's source address may have been added after the links' addresses were listed.
    if destination.source == nil { self.listed = [] }
    return try self.remember(answer, to: destination)
  }

  /// Returns the route that decides about a flow.
  ///
  /// - Throws: If the kernel refuses the query.
  func certainRoute(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    let answer = try self.route(to: destination)
    if case .unanswered(let reason) = answer {
      throw KernelUnavailable(description: reason, isOfOneQuestion: true)
    }
    return answer
  }

  /// Returns the current route to a destination, regardless of earlier answers in this turn.
  func routeAnew(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    self.answers[destination] = nil
    return try self.route(to: destination)
  }

  /// Looks up the current routes to several destinations in one batch.
  func askAnew(_ destinations: [Destination]) throws(KernelUnavailable) {
    for (destination, answer) in zip(destinations, try self.kernel.routes(to: destinations)) {
      _ = try self.remember(answer, to: destination)
    }
  }

  private func remember(
    _ answer: RouteAnswer, to destination: Destination
  ) throws(KernelUnavailable) -> RouteAnswer {
    var answer = answer
    if answer == .noRoute(.noRoute), destination.address.family == .ipv6, destination.source == nil
    {
      let specific = try self.unlessRefused { () throws(KernelUnavailable) in
        try self.sourceSpecificRoute(to: destination)
      }
      answer =
        specific.map { $0 ?? answer } ?? .unanswered("the machine's addresses cannot be listed")
    }
    self.noteRefusals(CollectionOfOne(answer))
    self.answers[destination] = answer
    return answer
  }

  /// Returns the routes to many destinations without remembering them.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    let answers = try self.kernel.routes(to: destinations)
    self.noteRefusals(answers)
    return answers
  }

  private func noteRefusals(_ answers: some Sequence<RouteAnswer>) {
    for case .unanswered(let reason) in answers {
      self.refusal = KernelUnavailable(description: reason, isOfOneQuestion: true)
    }
  }

  /// Returns the current state of the connections' sockets without remembering it.
  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    connections.isEmpty ? [] : self.kernel.socketReports(on: connections)
  }

  /// Whether a lookup proves where packets go, because nothing on this machine can divert them
  /// afterwards (E0). If the kernel cannot list its rules, connd assumes an empty list.
  func isLookupProof() -> Bool {
    if let known = self.isProof { return known }
    let isProof = self.diversions().isEmpty
    self.isProof = isProof
    return isProof
  }

  /// Returns readable reasons why packets may take another route than a lookup returns (E0).
  func diversions() -> [String] {
    var diversions: [String] = []
    if self.kernel.translatesConnections() {
      diversions.append("netfilter or IPVS may translate addresses")
    }
    let mayDivert = AddressFamily.allCases.contains { family in
      (try? self.kernel.rules(family)).map(Rule.mayDivert) ?? false
    }
    if mayDivert { diversions.append("a rule matches a mark, which netfilter may set") }
    return diversions
  }

  /// Returns a route that exists only for certain sources, or `nil`. If no other route exists,
  /// connect(2) picks one of the machine's addresses and looks up its route (ip6_dst_lookup_tail).
  private func sourceSpecificRoute(
    to destination: Destination
  ) throws(KernelUnavailable) -> RouteAnswer? {
    guard !destination.address.isLinkLocal, !destination.address.isLoopback else { return nil }
    for source in try self.globalSources() {
      var question = destination
      question.source = source
      let answer = try self.kernel.routes(to: [question]).first
      if case .route = answer { return answer }
    }
    return nil
  }

  private func globalSources() throws(KernelUnavailable) -> [IPAddress] {
    if let known = self.subscriptions.globalSources { return known }
    var (sources, subnets): ([IPAddress], Set<IPPrefix?>) = ([], [])
    for candidate in try self.addresses()
    where candidate.isGlobalSource && sources.count < Self.maxSources
      && subnets.insert(IPPrefix(candidate.address, length: 64)).inserted
    {
      sources.append(candidate.address)
    }
    self.subscriptions.globalSources = sources
    return sources
  }

  private static let maxSources = 8

  /// Returns the routing table entry that decides about a destination.
  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    if let known = self.entries[destination] { return known }
    let entry = try self.kernel.entry(for: destination)
    self.entries[destination] = .some(entry)
    return entry
  }

  /// Whether the kernel drops a connection's replies that arrive on a link.
  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.kernel.refusesReplies(to: destination, by: link)
  }

  /// Returns the marks that keep traffic out of a table, by the rules of an address family.
  func marks(
    keptOutOf table: UInt32, _ family: AddressFamily
  ) throws(KernelUnavailable) -> [UInt32] {
    let key = KernelSubscriptions.RuledTable(family: family, table: table)
    if let known = self.subscriptions.marks[key] { return known }
    let marks = Rule.marks(keptOutOf: table, by: try self.kernel.rules(family))
    self.subscriptions.marks[key] = marks
    return marks
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    if let known = self.facts[index] { return known }
    return try self.linkAnew(index)
  }

  /// Returns the current state of a link, regardless of earlier answers in this turn.
  func linkAnew(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    let link = try self.kernel.link(index).map(self.describe)
    self.facts[index] = .some(link)
    return link
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    if let all = self.allLinks { return all }
    let all = try self.kernel.links().map(self.describe)
    self.allLinks = all
    return all
  }

  func describe(_ facts: LinkFacts) throws(KernelUnavailable) -> LinkFacts {
    self.modems.describe(try self.wireless.describe(facts, self.kernel))
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    let key = OnLink(address: address, link: link)
    if let known = self.onLinks[key] { return known }
    if address.family == .ipv4, self.listed.contains(link) { return nil }
    self.onLinks[key] = .some(nil)
    let entries = Dictionary(grouping: try self.kernel.addresses(with: address, on: link)) {
      OnLink(address: $0.address, link: link)
    }
    for (key, entries) in entries {
      // The widest subnet decides which addresses are neighbours.
      self.onLinks[key] = .some(entries.min { $0.prefixLength < $1.prefixLength })
      self.prefixLengths[key] = entries.count > 1 ? Set(entries.map(\.prefixLength)) : nil
    }
    if address.family == .ipv4 { self.listed.insert(link) }
    return self.onLinks[key] ?? nil
  }

  /// Returns the prefix lengths that an address has on a link. Each has its own kernel entry.
  func prefixLengths(
    of address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Set<Int> {
    guard let found = try self.address(address, on: link) else { return [] }
    return self.prefixLengths[OnLink(address: address, link: link)] ?? [found.prefixLength]
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    if let all = self.allAddresses { return all }
    let all = try self.kernel.addresses()
    self.allAddresses = all
    return all
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    let key = OnLink(address: address, link: link)
    if let known = self.neighbours[key] { return known }
    let found = try self.neighbourNow(address, on: link)
    self.neighbours[key] = .some(found)
    return found
  }

  /// Returns the current neighbour entry without remembering it.
  func neighbourNow(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.kernel.neighbour(address, on: link)
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.kernel.bridgePort(of: hardwareAddress, on: bridge)
  }

  /// Returns the link that has an address of this machine, or `lo` if a whole block is local
  /// (AnyIP). Returns `nil` if the local table has no such address (I0).
  func owner(of address: IPAddress) throws(KernelUnavailable) -> UInt32? {
    if let known = self.owners[address] { return known }
    let owner = try self.findOwner(of: address)
    self.owners[address] = .some(owner)
    return owner
  }

  private func findOwner(of address: IPAddress) throws(KernelUnavailable) -> UInt32? {
    // Usually the address is remembered, because a path with this source was just read.
    var seen: UInt32?
    for (place, found) in self.onLinks where place.address == address && found != nil {
      seen = min(seen ?? place.link, place.link)
    }
    if let seen { return seen }
    if let entry = try self.entry(for: Destination(address)), entry.kind == .local,
      let link = entry.outLink
    {
      // The kernel removes an address from its link and sends the message before it removes the
      // local route (__inet_del_ifa, ipv6_del_addr).
      guard entry.isKernels, entry.route?.prefix.length == address.family.bitWidth else {
        return link
      }
      if try self.address(address, on: link) != nil { return link }
    }
    // A VRF keeps its local addresses in a separate table.
    return try self.addresses().first { $0.address == address }?.link
  }
}

extension Address {
  /// Whether the address can be the source of connections to other networks. Applies only the parts
  /// of RFC 6724 that decide whether any source exists.
  fileprivate var isGlobalSource: Bool {
    self.address.family == .ipv6 && !self.address.isLinkLocal && !self.address.isLoopback
      && self.flags.isDisjoint(with: [.duplicate, .tentative, .deprecated])
  }
}

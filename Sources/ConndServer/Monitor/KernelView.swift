import Connectivity
import ConnectivityRules
import Netlink
import OrderedCollections

/// The kernel as it is during one turn of the loop: each thing is asked once, and remembered until the turn ends.
///
/// What it shows is not of one instant. What changes meanwhile has a message, and a message makes another turn.
final class KernelView {
  private let kernel: any Kernel
  /// What mattered before this turn, and what has been found to matter in it.
  var interests: Interests
  /// The links that are a modem's, with those that were found to be in this turn.
  private(set) var modems: KnownModems
  private(set) var wireless: KnownWireless
  // Ordered dictionaries compare the few keys that there are mostly, which costs less than to hash them.
  private var answers = OrderedDictionary<Destination, RouteAnswer>()
  private var entries = OrderedDictionary<Destination, RouteEntry?>()
  private var facts = OrderedDictionary<UInt32, LinkFacts?>()
  private var onLinks = OrderedDictionary<OnLink, Address?>()
  /// Links whose IPv4 addresses are all known.
  private var listed: Set<UInt32> = []
  private var owners = OrderedDictionary<IPAddress, UInt32?>()
  private var neighbours = OrderedDictionary<OnLink, Neighbour?>()
  private var allLinks: [LinkFacts]?
  private var allAddresses: [Address]?

  private struct OnLink: Hashable {
    var address: IPAddress
    var link: UInt32
  }

  init(
    _ kernel: any Kernel, _ interests: Interests, _ modems: KnownModems = KnownModems(),
    _ wireless: KnownWireless = KnownWireless()
  ) {
    self.kernel = kernel
    self.interests = interests
    self.modems = modems
    self.wireless = wireless
  }

  /// The last question in this turn that the kernel refused to answer.
  private(set) var refusal: KernelUnavailable?

  /// Asks for what a single path or flow depends on.
  ///
  /// - Returns: `nil` if the kernel refuses one of the questions: then nothing is known of that path or flow, and all others
  ///   are as they were (K8).
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

  /// Whether the kernel has told something that no reading explains yet.
  var hasMessages: Bool { self.kernel.hasMessages }

  /// The way to a destination.
  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    if let known = self.answers[destination] { return known }
    let answer = try self.kernel.routes(to: [destination]).first ?? .noRoute(.noRoute)
    // The answer may name an address that was not there before.
    if destination.source == nil { self.listed = [] }
    return try self.remember(answer, to: destination)
  }

  /// The way to a destination, on which the fate of a flow depends.
  ///
  /// - Throws: if the kernel refuses the question.
  func certainRoute(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    let answer = try self.route(to: destination)
    if case .unanswered(let words) = answer {
      throw KernelUnavailable(description: words, isOfOneQuestion: true)
    }
    return answer
  }

  /// The way to a destination as it is by now, whatever it was earlier in this turn.
  func routeAnew(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    self.answers[destination] = nil
    return try self.route(to: destination)
  }

  /// Asks for the ways to some destinations at once, as they are by now.
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
      answer = specific.map { $0 ?? answer } ?? .unanswered("no list of the machine's addresses")
    }
    self.noteRefusals([answer])
    self.answers[destination] = answer
    return answer
  }

  /// The ways to many destinations, which are not remembered.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    let answers = try self.kernel.routes(to: destinations)
    self.noteRefusals(answers)
    return answers
  }

  private func noteRefusals(_ answers: [RouteAnswer]) {
    for case .unanswered(let words) in answers {
      self.refusal = KernelUnavailable(description: words, isOfOneQuestion: true)
    }
  }

  /// What the sockets of connections say now, which is not remembered.
  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    connections.isEmpty ? [] : self.kernel.socketReports(on: connections)
  }

  /// Where only routes from certain sources lead to a destination, connect(2) picks one of the machine's addresses and asks
  /// with that (ip6_dst_lookup_tail).
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
    if let known = self.interests.globalSources { return known }
    var (sources, subnets): ([IPAddress], Set<IPPrefix?>) = ([], [])
    for candidate in try self.addresses()
    where candidate.isGlobalSource && sources.count < Self.mostSources
      && subnets.insert(IPPrefix(candidate.address, length: 64)).inserted
    {
      sources.append(candidate.address)
    }
    self.interests.globalSources = sources
    return sources
  }

  private static let mostSources = 8

  /// The entry of the routing tables that decides about a destination.
  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    if let known = self.entries[destination] { return known }
    let entry = try self.kernel.entry(for: destination)
    self.entries[destination] = .some(entry)
    return entry
  }

  /// Whether the kernel drops what answers a connection when it comes in by a link.
  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.kernel.refusesReplies(to: destination, by: link)
  }

  /// The marks that keep traffic out of a table, by the rules of a family.
  func marks(
    keptOutOf table: UInt32, _ family: AddressFamily
  ) throws(KernelUnavailable) -> [UInt32] {
    let key = Interests.RuledTable(family: family, table: table)
    if let known = self.interests.marks[key] { return known }
    let marks = Rule.marks(keptOutOf: table, by: try self.kernel.rules(family))
    self.interests.marks[key] = marks
    return marks
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    if let known = self.facts[index] { return known }
    return try self.linkAnew(index)
  }

  /// A link as it is by now, whatever it was earlier in this turn.
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

  private func describe(_ facts: LinkFacts) throws(KernelUnavailable) -> LinkFacts {
    self.modems.describe(try self.wireless.describe(facts, self.kernel))
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    let key = OnLink(address: address, link: link)
    if let known = self.onLinks[key] { return known }
    if address.family == .ipv4, self.listed.contains(link) { return nil }
    var wanted: Address?
    for found in try self.kernel.addresses(with: address, on: link) {
      self.onLinks[OnLink(address: found.address, link: link)] = .some(found)
      if found.address == address { wanted = found }
    }
    self.onLinks[key] = .some(wanted)
    if address.family == .ipv4 { self.listed.insert(link) }
    return wanted
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

  /// A neighbour as it is by now, and not remembered: whether it is still the same is to be asked after the links below were.
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

  /// The link that has an address of this machine's, or `lo` where a whole block is local (AnyIP); `nil` where the address is
  /// none of this machine's: local is what the local table says (I0).
  func owner(of address: IPAddress) throws(KernelUnavailable) -> UInt32? {
    if let known = self.owners[address] { return known }
    let owner = try self.findOwner(of: address)
    self.owners[address] = .some(owner)
    return owner
  }

  private func findOwner(of address: IPAddress) throws(KernelUnavailable) -> UInt32? {
    // Mostly it is one that a path was just seen to have.
    var seen: UInt32?
    for (place, found) in self.onLinks where place.address == address && found != nil {
      seen = min(seen ?? place.link, place.link)
    }
    if let seen { return seen }
    if let entry = try self.entry(for: Destination(address)), entry.kind == .local,
      let link = entry.outLink
    {
      // The kernel takes an address off its link, tells so, and only then removes the local route (__inet_del_ifa,
      // ipv6_del_addr).
      guard entry.isKernels, entry.route?.prefix.length == address.family.bitWidth else {
        return link
      }
      if try self.address(address, on: link) != nil { return link }
    }
    // In a VRF local addresses are in a table of its own.
    return try self.addresses().first { $0.address == address }?.link
  }
}

extension Address {
  /// Whether connections to other networks may be made from it (RFC 6724, as far as it matters for whether there is one).
  fileprivate var isGlobalSource: Bool {
    self.address.family == .ipv6 && !self.address.isLinkLocal && !self.address.isLoopback
      && self.flags.isDisjoint(with: [.duplicate, .tentative, .deprecated])
  }
}

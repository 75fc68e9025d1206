import Connectivity
import ConnectivityRules
import OrderedCollections

/// The way that a flow's own question leads, shared by all whose answer is alike: one object, for ten thousand flows hold it
/// at once.
final class FlowPath: Sendable {
  let answer: RouteAnswer
  let facts: PathFacts
  /// What a client is told.
  let shown: Path
  /// What flows on it are judged by: those inside a tunnel depend on no more than the way into it.
  let judged: Path
  let network: NetworkIdentity
  let guesses: FlowReading.Guesses
  /// A VPN has given the address of those on it.
  let isSourceGiven: Bool

  init(
    _ answer: RouteAnswer, _ facts: PathFacts, shown: Path, judged: Path, network: NetworkIdentity,
    guesses: FlowReading.Guesses, isSourceGiven: Bool
  ) {
    self.answer = answer
    self.facts = facts
    self.shown = shown
    self.judged = judged
    self.network = network
    self.guesses = guesses
    self.isSourceGiven = isSourceGiven
  }
}

extension FlowPath {
  /// The kernel refuses a question about the way to this destination.
  convenience init(unknownTo destination: Destination) {
    let answer = RouteAnswer.unanswered("")
    self.init(
      answer, PathFacts(destination: destination.address, answer: answer), shown: .unknown,
      judged: .unknown, network: NetworkIdentity(), guesses: FlowReading.Guesses(),
      isSourceGiven: false)
  }
}

/// Reads what the kernel shows of flows (I0) during one turn: each is asked about with all that is its own, and what is the
/// same for many is asked and judged once.
final class FlowReader {
  let reader: PathReader
  let view: KernelView
  /// What the kernel has removed since the flows were looked at.
  let removals: Removals
  private var ways = OrderedDictionary<WayKey, FlowPath>()
  /// The way of the flow before: that of most, which is found without a hash.
  private var last: (key: WayKey, way: FlowPath)?
  /// The ways on which new connections are, too, as one flow of each has shown.
  var usual: Set<WayKey> = []
  var lastUsual: WayKey?

  struct WayKey: Hashable {
    var answer: RouteAnswer
    /// A source address is good for some destinations only.
    var isLinkLocal: Bool
    /// For destinations on a link that has others below it: neighbours may be behind different ones of these.
    var neighbour: IPAddress?
  }

  init(_ reader: PathReader, _ view: KernelView, removals: Removals = Removals()) {
    self.reader = reader
    self.view = view
    self.removals = removals
  }

  // MARK: - Ways

  func way(
    to question: Destination, _ answer: RouteAnswer? = nil
  ) throws(KernelUnavailable) -> FlowPath {
    let answer = if let answer { answer } else { try self.view.route(to: question) }
    var key = try self.key(answer, question)
    if let last = self.last, last.key == key { return last.way }
    if let way = self.ways[key] {
      self.last = (key, way)
      return way
    }
    let facts = try self.reader.facts(about: question, answer: answer, self.view)
    // An answer that was no longer true is that of this destination only.
    key.answer = facts.answer
    return try self.add(question, facts, self.reader.path(facts, self.view), key)
  }

  /// The default way, of which all is known.
  func way(
    to question: Destination, _ facts: PathFacts, _ path: Path
  ) throws(KernelUnavailable) -> FlowPath {
    try self.add(question, facts, path, try self.key(facts.answer, question), isDefault: true)
  }

  private func add(
    _ question: Destination, _ facts: PathFacts, _ shown: Path, _ key: WayKey,
    isDefault: Bool = false
  ) throws(KernelUnavailable) -> FlowPath {
    self.view.interests.use(facts)
    let judged = self.judged(shown, facts)
    let way = FlowPath(
      facts.answer, facts, shown: shown, judged: judged,
      network: try self.view.interests.networks.identity(
        of: judged, facts, isDefault: isDefault, self.view),
      guesses: try self.guesses(shown, facts),
      isSourceGiven: try self.isSourceGiven(question, judged))
    self.ways[key] = way
    return way
  }

  /// Whether it is as IPsec's key exchange (strongSwan's charon, for one) installs what the other end has given: an address of no
  /// subnet, which a route in a table of its own sets, for all that is bound to nothing else.
  private func isSourceGiven(
    _ question: Destination, _ path: Path
  ) throws(KernelUnavailable) -> Bool {
    guard question.outLink == nil, try self.mayBeGiven(path),
      try self.view.entry(for: question)?.source == path.source
    else { return false }
    // One for which a rule holds is somebody's own.
    guard case .route(let route) = try self.view.route(to: question.ofNew) else { return false }
    return route.source == path.source && route.table == path.table
  }

  /// Whether a VPN may have given the address of those on a path, as far as that tells.
  func mayBeGiven(_ path: Path) throws(KernelUnavailable) -> Bool {
    guard let table = path.table, !Self.systemTables.contains(table), let source = path.source,
      let owner = try self.view.owner(of: source)
    else { return false }
    return try self.view.address(source, on: owner)?.prefixLength == source.family.bitWidth
  }

  /// None, `default`, `main` and `local` (rtnetlink(7)).
  private static let systemTables: Set<UInt32> = [0, 253, 254, 255]

  private func guesses(
    _ shown: Path, _ facts: PathFacts
  ) throws(KernelUnavailable) -> FlowReading.Guesses {
    guard shown.guessedLinks > 0 else { return FlowReading.Guesses() }
    var certain = facts
    certain.guess = nil
    let path = try self.reader.path(certain, self.view)
    return FlowReading.Guesses(
      isExpensive: path.isExpensive != shown.isExpensive,
      isConstrained: path.isConstrained != shown.isConstrained)
  }

  func key(
    _ answer: RouteAnswer, _ question: Destination
  ) throws(KernelUnavailable) -> WayKey {
    var key = WayKey(answer: answer, isLinkLocal: question.address.isLinkLocal)
    if case .route(let route) = answer, route.gateway == nil, route.kind == .unicast,
      let link = try self.view.link(route.outLink), link.isStacked, !link.hidesItsEnd
    {
      key.neighbour = question.address
    }
    return key
  }

  /// The path; what fails below a tunnel is a route that is missing to those inside it: it may come back another way.
  private func judged(_ shown: Path, _ facts: PathFacts) -> Path {
    var path = shown
    guard path.status == .requiresConnection, facts.links.contains(where: \.isTunnel),
      self.reader.classifier.path(facts.upToTunnel).status == .satisfied
    else { return path }
    path.reason = facts.brokenBelow ?? .noRoute
    return path
  }
}

extension Destination {
  /// What a new connection asks.
  var ofNew: Destination {
    var new = self
    new.source = nil
    new.transport?.localPort = 0
    return new
  }
}

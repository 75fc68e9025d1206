import Connectivity
import ConnectivityRules
import OrderedCollections

/// The path that a flow's own lookup returned, shared by all flows with the same answer. It is an
/// object because ten thousand flows may share it.
final class FlowPath: Sendable {
  let answer: RouteAnswer
  let facts: PathFacts
  /// The path that clients see.
  let shown: KernelPath
  /// The path that decides about the flows on it. Flows inside a tunnel depend only on the path
  /// into the tunnel.
  let judged: KernelPath
  let network: NetworkIdentity
  let guesses: FlowReading.Guesses
  /// Whether a VPN has assigned the source address.
  let isSourceAssignedByVPN: Bool

  var isTunnelled: Bool { self.facts.firstTunnel != nil }

  init(
    _ answer: RouteAnswer, _ facts: PathFacts, shown: KernelPath, judged: KernelPath,
    network: NetworkIdentity,
    guesses: FlowReading.Guesses, isSourceAssignedByVPN: Bool
  ) {
    self.answer = answer
    self.facts = facts
    self.shown = shown
    self.judged = judged
    self.network = network
    self.guesses = guesses
    self.isSourceAssignedByVPN = isSourceAssignedByVPN
  }
}

extension FlowPath {
  /// Creates the path to a destination about which the kernel refused a query.
  convenience init(unknownTo destination: Destination) {
    let answer = RouteAnswer.unanswered("")
    self.init(
      answer, PathFacts(destination: destination.address, answer: answer), shown: .unknown,
      judged: .unknown, network: NetworkIdentity(), guesses: FlowReading.Guesses(),
      isSourceAssignedByVPN: false)
  }
}

/// Reads what the kernel shows about flows during one turn (I0). It looks up each flow with all
/// properties of that flow. An answer that many flows share is evaluated only once.
///
/// Implements rules I1, I2 and I3.
final class FlowReader {
  let reader: PathReader
  let view: KernelView
  /// The routes that the kernel has removed since the flows were evaluated last.
  let removals: Removals
  /// Whether removed links may be recreated (I1). Only the evaluation of guarded flows waits for
  /// it.
  let awaitsRemadeLinks: Bool
  private var flowPaths = OrderedDictionary<FlowPathKey, FlowPath>()
  /// The path of the previous flow. Most flows share it, and it is found without hashing.
  private var last: (key: FlowPathKey, flowPath: FlowPath)?
  /// The paths that new connections also take, each checked for one of its flows.
  var usual: Set<FlowPathKey> = []
  var lastUsual: FlowPathKey?

  struct FlowPathKey: Hashable {
    var answer: RouteAnswer
    /// Part of the key because a link-local source address works for some destinations only.
    var isLinkLocal: Bool
    /// Set for on-link destinations of a link with lower links: neighbours may be behind different
    /// lower links.
    var neighbour: IPAddress?
  }

  init(
    _ reader: PathReader, _ view: KernelView, removals: Removals = Removals(),
    awaitsRemadeLinks: Bool = false
  ) {
    self.awaitsRemadeLinks = awaitsRemadeLinks
    self.reader = reader
    self.view = view
    self.removals = removals
  }

  // MARK: - Paths

  func flowPath(
    to question: Destination, _ answer: RouteAnswer? = nil
  ) throws(KernelUnavailable) -> FlowPath {
    let answer = if let answer { answer } else { try self.view.route(to: question) }
    var key = try self.key(answer, question)
    if let last = self.last, last.key == key { return last.flowPath }
    if let flowPath = self.flowPaths[key] {
      self.last = (key, flowPath)
      return flowPath
    }
    let facts = try self.reader.facts(about: question, answer: answer, self.view)
    // The facts may have a newer answer. It applies to this destination only.
    key.answer = facts.answer
    return try self.add(question, facts, self.reader.path(facts, self.view), key)
  }

  /// Returns the default path from facts that are already known.
  func flowPath(
    to question: Destination, _ facts: PathFacts, _ path: KernelPath
  ) throws(KernelUnavailable) -> FlowPath {
    try self.add(question, facts, path, try self.key(facts.answer, question), isDefault: true)
  }

  private func add(
    _ question: Destination, _ facts: PathFacts, _ shown: KernelPath, _ key: FlowPathKey,
    isDefault: Bool = false
  ) throws(KernelUnavailable) -> FlowPath {
    self.view.subscriptions.use(facts)
    let judged = self.judged(shown, facts)
    let flowPath = FlowPath(
      facts.answer, facts, shown: shown, judged: judged,
      network: try self.view.identity(of: judged, facts, isDefault: isDefault),
      guesses: try self.guesses(shown, facts),
      isSourceAssignedByVPN: try self.isSourceAssignedByVPN(question, judged))
    self.flowPaths[key] = flowPath
    return flowPath
  }

  /// Whether the path's source address looks as if an IPsec daemon (strongSwan's charon) had
  /// assigned it. Such an address has no subnet, and a route in a separate table sets it for all
  /// unbound traffic.
  private func isSourceAssignedByVPN(
    _ question: Destination, _ path: KernelPath
  ) throws(KernelUnavailable) -> Bool {
    guard question.outLink == nil, try self.mayBeGiven(path),
      try self.view.entry(for: question)?.source == path.source
    else { return false }
    // A VPN's route also applies to new connections. If a route applies only to connections from
    // the address, a user has made a policy rule for it.
    guard case .route(let route) = try self.view.route(to: question.ofNew) else { return false }
    return route.source == path.source && route.table == path.table
  }

  /// Whether a VPN may have assigned the source address of a path, as far as the path alone shows.
  func mayBeGiven(_ path: KernelPath) throws(KernelUnavailable) -> Bool {
    guard let table = path.table, !Self.systemTables.contains(table), let source = path.source,
      let owner = try self.view.owner(of: source)
    else { return false }
    return try self.view.address(source, on: owner)?.prefixLength == source.family.bitWidth
  }

  /// The tables unspecified, `default`, `main` and `local` (rtnetlink(7)).
  private static let systemTables: Set<UInt32> = [0, 253, 254, 255]

  private func guesses(
    _ shown: KernelPath, _ facts: PathFacts
  ) throws(KernelUnavailable) -> FlowReading.Guesses {
    guard shown.guessedLinks > 0 else {
      let facts = self.reader.droppingUnusableGuess(facts)
      guard self.view.subscriptions.tunnelCosts.last(facts)?.isGuess == true else {
        return FlowReading.Guesses()
      }
      let path = try self.reader.pathByItself(facts, self.view)
      return FlowReading.Guesses(
        isExpensive: path.isCostUnknown && shown.isMetered,
        isConstrained: path.isConstrained != shown.isConstrained)
    }
    var certain = facts
    certain.guess = nil
    let path = try self.reader.pathByItself(certain, self.view)
    return FlowReading.Guesses(
      isExpensive: path.isMetered != shown.isMetered,
      isConstrained: path.isConstrained != shown.isConstrained)
  }

  func key(
    _ answer: RouteAnswer, _ question: Destination
  ) throws(KernelUnavailable) -> FlowPathKey {
    var key = FlowPathKey(answer: answer, isLinkLocal: question.address.isLinkLocal)
    if case .route(let route) = answer, route.gateway == nil, route.kind == .unicast,
      let link = try self.view.link(route.outLink), link.isStacked || link.peer != nil,
      !link.hidesItsEnd
    {
      key.neighbour = question.address
    }
    return key
  }

  /// Returns the path that decides about flows. A failure below a tunnel counts as a missing route,
  /// because the tunnel may come back over another link.
  private func judged(_ shown: KernelPath, _ facts: PathFacts) -> KernelPath {
    var path = shown
    guard path.status == .requiresConnection, facts.firstTunnel != nil,
      self.reader.classifier.path(facts.upToTunnel).status == .satisfied
    else { return path }
    switch facts.brokenBelow {
    // The flows inside the tunnel do not depend on the failed link alone.
    case .noCarrier, .dormant, .linkDown, nil: path.reason = .noRoute
    case let reason?: path.reason = reason
    }
    return path
  }
}

extension Destination {
  /// The lookup of a new connection to the same destination.
  var ofNew: Destination {
    var new = self
    new.source = nil
    new.transport?.localPort = 0
    return new
  }
}

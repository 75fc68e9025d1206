package import Connectivity

/// Follows one flow from its registration to its end, and says when it is no longer viable.
///
/// A value without a clock: instants are passed in, and a deadline is handed back. What is said follows from the state and
/// the reading by `FlowTracker.rules`, an ordered list.
package struct FlowTracker: Hashable, Sendable {
  package let flow: Flow
  private var state: State
  /// What was told and still holds, so that it is told once.
  private var told: [Invalidation.Reason: Told] = [:]
  /// It was made on another way or from another subnet than the kernel prefers, and wants that.
  private var hasChosen = false

  fileprivate indirect enum State: Hashable, Sendable {
    /// It has no address yet, and there was no path for it to be on.
    case awaitingPath(Path)
    case alive(Standing)
    /// Its path is not there now, and may come back (I10).
    case inDoubt(Standing, Doubt)
    /// The kernel cannot be asked (K8): a grace that ends meanwhile has to wait.
    case blind(State)
  }

  /// What a flow was made on, as it was seen last.
  struct Standing: Hashable, Sendable {
    var path: Path
    var network: NetworkIdentity
    /// A VPN has given it its address.
    var isSourceGiven = false
    /// The first router that it was seen to go by, on its link.
    var firstGateway: IPAddress?
    /// Its answers were refused, as far as the kernel tells, when it was made: then what the kernel tells is not so.
    var worksDespiteRefusal = false
  }

  /// The time that a path that is lost has to come back in (I10).
  struct Doubt: Hashable, Sendable {
    /// No link has failed: only the route is missing.
    var isRouteOnly: Bool
    /// `drain` from when another path took over on.
    var severity: Invalidation.Severity
    var until: Instant
    /// It has the time that a modem may carry nothing.
    var isSuspension = false
  }

  /// Why a flow is not viable, and what is to be done.
  package struct Verdict: Hashable, Sendable {
    package var reason: Invalidation.Reason
    package var severity: Invalidation.Severity
    /// No link has failed: only the route is missing.
    package var isRouteOnly = false
    /// Whether the flow is to be destroyed for another reason, too, that no socket refutes.
    package var isCertain = false
    /// What the flow's socket said, or `nil` if it was not asked.
    package var evidence: SocketEvidence?

    package init(
      _ reason: Invalidation.Reason, _ severity: Invalidation.Severity,
      by evidence: SocketEvidence? = nil
    ) {
      self.reason = reason
      self.severity = severity
      self.evidence = evidence
    }
  }

  private struct Told: Hashable, Sendable {
    var severity: Invalidation.Severity
    /// For a better path: which one.
    var alternative: FlowReading.Alternative?
  }

  /// Follows a flow from now on.
  ///
  /// - Parameters:
  ///   - path: what the flow was made on; of a flow that is new, its own way as the kernel says.
  ///   - network: the network behind its link, as far as it is known.
  ///   - isSourceGiven: a VPN has given it its address.
  package init(
    _ flow: Flow, on path: Path, network: NetworkIdentity = NetworkIdentity(),
    isSourceGiven: Bool = false
  ) {
    self.flow = flow
    // A connection, which has its own address, has something to lose also while there is no path.
    let hasBegun = path.status == .satisfied || flow.local != nil && path.status != .unknown
    let standing = Standing(
      path: path, network: network, isSourceGiven: isSourceGiven, firstGateway: path.gateway)
    self.state = hasBegun ? .alive(standing) : .awaitingPath(path)
  }

  /// What the flow was made on.
  package var path: Path { self.state.path }

  /// The first router that it was seen to go by, on the link that it is on.
  package var firstGateway: IPAddress? { self.state.standing?.firstGateway }

  /// The network that it was made on; `nil` before it has begun.
  var network: NetworkIdentity? { self.state.standing?.network }

  /// The flow's own address, or what it is taken for; `nil` before it has one.
  package var source: IPAddress? {
    if let local = self.flow.local { return local }
    return self.hasBegun ? self.path.source : nil
  }

  /// Whether there is anything to lose yet: a path that carries traffic, or a connection.
  package var hasBegun: Bool { self.state.hasBegun }

  /// The question whose answer is the flow's own way.
  package var question: Destination {
    var question = self.flow.destination
    question.source = self.source
    return question
  }

  /// When it must be looked at again although the kernel says nothing.
  ///
  /// A grace period that ended without the flow's end, because its socket spared it, needs no look.
  package var deadline: Instant? {
    guard case .inDoubt(_, let doubt) = self.state, !self.holds(.interfaceLost),
      !self.holds(.sourceAddressLost)
    else { return nil }
    return doubt.until
  }

  /// Whether the lookup has said that the flow is to be destroyed for a reason, and still says so.
  package func holds(_ reason: Invalidation.Reason) -> Bool {
    self.told[reason]?.severity == .destroy
  }

  /// Whether the client was told of a reason in any way, and it still holds.
  package func isTold(of reason: Invalidation.Reason) -> Bool { self.told[reason] != nil }

  /// Whether its path is not there now, and may come back.
  package var isInDoubt: Bool { if case .inDoubt = self.state.seeing { true } else { false } }

  /// Whether new connections get a better way, of which whoever registered the flow knows.
  package var hasBetterPath: Bool { self.told[.betterPath] != nil }

  /// Begins to guard the flow.
  ///
  /// A connection that has just been made is evidence itself (I0): only that its address is none of this machine's refutes
  /// it, and that the kernel prefers another way for new connections is no news. One that was guarded before is compared
  /// with the path that was told of it.
  ///
  /// - Parameter since: what was published of it while nobody guarded it.
  /// - Returns: what is to be told; after a `destroy` there is nothing to guard.
  package mutating func register(
    on reading: FlowReading, since: Invalidation?, policy: InvalidationPolicy, at now: Instant
  ) -> Verdict? {
    self.hasChosen = reading.alternative != nil
    if reading.areRepliesRefused, case .alive(var standing) = self.state {
      standing.worksDespiteRefusal = true
      self.state = .alive(standing)
    }
    self.told[.betterPath] = reading.alternative.map { Told(severity: .advise, alternative: $0) }
    let verdict = self.update(to: reading, policy: policy, at: now)
    guard let since, verdict.map({ $0.severity < since.severity }) ?? true else { return verdict }
    return Verdict(since.reason, since.severity)
  }

  /// Looks at a reading.
  ///
  /// - Parameter slept: how long the machine slept before it (I6).
  /// - Returns: what is to be told; after a `destroy` the tracker is of no more use.
  package mutating func update(
    to reading: FlowReading, slept: Duration? = nil, policy: InvalidationPolicy, at now: Instant
  ) -> Verdict? {
    guard reading.path.status != .unknown else {
      self.state = .blind(self.state.seeing)
      return Self.resumed(slept, reading, policy)
    }
    let (standing, doubt): (Standing, Doubt?)
    switch self.state.seeing {
    case .awaitingPath(let path):
      self.state = .awaitingPath(path)
      guard reading.path.status == .satisfied else { return nil }
      // It begins with the first path: what made that is no change for it.
      standing = Standing(
        path: reading.path, network: reading.network, firstGateway: reading.path.gateway)
      doubt = nil
    case .alive(let seen): (standing, doubt) = (seen, nil)
    case .inDoubt(let seen, let known): (standing, doubt) = (seen, known)
    case .blind: return nil
    }

    let sight = Sight(
      flow: self.flow, standing: standing, doubt: doubt, reading: reading, policy: policy,
      hasChosen: self.hasChosen,
      isBetterPathTold: self.told[.betterPath].map { $0.severity > .advise } ?? false,
      slept: slept, now: now)
    self.state =
      sight.nextDoubt.map { .inDoubt(standing, $0) } ?? .alive(standing.settled(on: reading))
    return self.news(Self.rules.compactMap { $0(sight) }, reading.alternative)
  }

  /// Of what holds now that which was not told yet; of that the first of the gravest (I9).
  private mutating func news(
    _ verdicts: [Verdict], _ alternative: FlowReading.Alternative?
  ) -> Verdict? {
    var holding: [Invalidation.Reason: Told] = [:]
    for verdict in verdicts where verdict.reason != .resumed {
      let isBetter = verdict.reason == .betterPath
      holding[verdict.reason] = Told(
        severity: verdict.severity, alternative: isBetter ? alternative : nil)
    }
    let news = verdicts.filter {
      $0.isEvent || holding[$0.reason] != self.told[$0.reason]
    }
    self.told = holding
    let gravest = news.map(\.severity).max()
    guard var first = news.first(where: { $0.severity == gravest }) else { return nil }
    first.isCertain = news.contains { $0.severity == .destroy && !$0.isRefutable }
    return first
  }
}

extension FlowTracker.Verdict {
  /// Whether it is about a moment: later readings are compared with what it has led to.
  package var isEvent: Bool { self.reason == .resumed || self.reason == .networkChanged }

  /// Whether the flow's own socket can refute it (E1). What the path costs, and that the machine
  /// slept, is not a matter of what the socket has heard.
  package var isRefutable: Bool {
    guard self.severity == .destroy, !self.isCertain else { return false }
    return switch self.reason {
    case .sourceAddressLost, .interfaceLost, .networkChanged, .betterPath: true
    case .categoryChanged, .policy, .resumed, .silent: false
    }
  }
}

extension FlowTracker.State {
  /// The same, where the kernel can be asked.
  fileprivate var seeing: Self { if case .blind(let state) = self { state } else { self } }

  fileprivate var path: Path {
    switch self {
    case .awaitingPath(let path): path
    case .alive(let standing), .inDoubt(let standing, _): standing.path
    case .blind(let state): state.path
    }
  }

  fileprivate var standing: FlowTracker.Standing? {
    switch self {
    case .awaitingPath: nil
    case .alive(let standing), .inDoubt(let standing, _): standing
    case .blind(let state): state.standing
    }
  }

  fileprivate var hasBegun: Bool {
    if case .awaitingPath = self.seeing { false } else { true }
  }
}

extension FlowTracker.Standing {
  /// What is remembered of a path that is there: as long as it leads the flow's way, as it is now.
  fileprivate func settled(on reading: FlowReading) -> Self {
    guard reading.path.status == .satisfied, !reading.isSourceGone else { return self }
    switch reading.formerLink {
    case nil:
      // What is remembered of a flow whose answers are lost is how it was before.
      return Self(
        path: reading.path, network: reading.network.completed(by: self.network),
        isSourceGiven: reading.isSourceGiven,
        firstGateway: self.firstGateway ?? reading.path.gateway,
        worksDespiteRefusal: self.worksDespiteRefusal && reading.areRepliesRefused)
    case .untied:
      return Self(
        path: reading.path, network: reading.network, isSourceGiven: reading.isSourceGiven,
        firstGateway: reading.path.gateway)
    case .failed, .withoutRoute, .withWorseRoute, .withRoute, .leg: return self
    }
  }
}

package import Connectivity

/// The tracker of one flow from registration to end. It decides when the flow is no longer viable.
///
/// A value without a clock: callers pass instants in, and read ``deadline``. The ordered list
/// ``rules`` derives each verdict from the state and the reading.
///
/// Implements rules I1, I2 and I8.
package struct FlowTracker: Hashable, Sendable {
  package let flow: Flow
  private var state: State
  /// The reasons that were reported and still apply, so that each is reported once.
  private var reported: [Invalidation.Reason: LastReported] = [:]
  /// Whether the kernel already preferred another path or subnet when the flow was registered, so
  /// that the flow chose its path deliberately.
  private var hasChosen = false

  fileprivate indirect enum State: Hashable, Sendable {
    /// The flow has no address yet, because it had no path.
    case awaitingPath(KernelPath)
    case alive(Baseline)
    /// The flow's path is gone and may come back (I10).
    case inGrace(Baseline, GracePeriod)
    /// The kernel is unavailable (K8), so a grace period cannot end.
    case kernelUnavailable(State)
  }

  /// The path and network with which readings are compared: those on which the flow was made, with
  /// the changes that it has survived.
  struct Baseline: Hashable, Sendable {
    var path: KernelPath
    var network: NetworkIdentity
    /// Whether a VPN has assigned the flow's address.
    var isSourceAssignedByVPN = false
    /// The first gateway that the flow was seen to use on its link.
    var firstGateway: IPAddress?
    /// Whether the kernel seemed to refuse replies when the flow was made. Replies evidently
    /// arrive, so that refusal is ignored while it lasts.
    var worksDespiteRefusal = false
  }

  /// The grace period in which a lost path may come back (I10).
  struct GracePeriod: Hashable, Sendable {
    /// Whether only the route is missing, and no link has failed.
    var isRouteOnly: Bool
    /// `drain` once another path has taken over.
    var severity: Invalidation.Severity
    var until: Instant
    /// Whether this is the longer period for a suspended modem.
    var isSuspension = false
  }

  /// The reason why a flow is not viable, and the severity.
  package struct Verdict: Hashable, Sendable {
    package var reason: Invalidation.Reason
    package var severity: Invalidation.Severity
    /// Whether only the route is missing, and no link has failed.
    package var isRouteOnly = false
    /// Whether the flow must also be destroyed for a reason that no socket can refute.
    package var isCertain = false
    /// The socket's evidence, or `nil` if the socket was not queried.
    package var evidence: SocketEvidence?
    /// Whether the client must ask its peer (E4).
    package var asksPeer = false

    package init(
      _ reason: Invalidation.Reason, _ severity: Invalidation.Severity,
      by evidence: SocketEvidence? = nil
    ) {
      self.reason = reason
      self.severity = severity
      self.evidence = evidence
    }
  }

  private struct LastReported: Hashable, Sendable {
    var severity: Invalidation.Severity
    /// The preferred path, if the reason is a better path.
    var alternative: FlowReading.Alternative?
  }

  /// Begins to track a flow.
  ///
  /// - Parameters:
  ///   - path: The path on which the flow was made. For a new flow, its current path.
  ///   - network: The network behind the path's link, as far as known.
  ///   - isSourceAssignedByVPN: Whether a VPN has assigned the flow's address.
  package init(
    _ flow: Flow, on path: KernelPath, network: NetworkIdentity = NetworkIdentity(),
    isSourceAssignedByVPN: Bool = false
  ) {
    self.flow = flow
    // A connection that has an address can be lost even without a path.
    let hasBegun = path.status == .satisfied || flow.local != nil && path.status != .unknown
    let baseline = Baseline(
      path: path, network: network, isSourceAssignedByVPN: isSourceAssignedByVPN,
      firstGateway: path.gateway)
    self.state = hasBegun ? .alive(baseline) : .awaitingPath(path)
  }

  /// The path on which the flow was made, with the changes that the flow has survived.
  package var path: KernelPath { self.state.path }

  /// The first gateway that the flow was seen to use on its current link.
  package var firstGateway: IPAddress? { self.state.baseline?.firstGateway }

  /// The network of ``path``, or `nil` before the flow has begun.
  package var network: NetworkIdentity? { self.state.baseline?.network }

  /// The flow's own address or the kernel's choice, or `nil` before it has one.
  package var source: IPAddress? {
    if let local = self.flow.local { return local }
    return self.hasBegun ? self.path.source : nil
  }

  /// Whether there is anything to lose: a working path or a connection.
  package var hasBegun: Bool { self.state.hasBegun }

  /// The lookup that returns the flow's own path.
  package var question: Destination {
    var question = self.flow.destination
    question.source = self.source
    return question
  }

  /// When the flow must be evaluated again even without a kernel message.
  ///
  /// If the socket spared the flow at the end of a grace period, no further evaluation is needed.
  package var deadline: Instant? {
    guard case .inGrace(_, let grace) = self.state, !self.holds(.interfaceLost),
      !self.holds(.sourceAddressLost)
    else { return nil }
    return grace.until
  }

  /// Whether the lookup has declared the flow dead for a reason, and still does.
  package func holds(_ reason: Invalidation.Reason) -> Bool {
    self.reported[reason]?.severity == .destroy
  }

  /// Whether a reason was reported to the client, and still applies.
  package func isReported(of reason: Invalidation.Reason) -> Bool { self.reported[reason] != nil }

  /// Whether the flow's path is gone and may come back.
  package var isInDoubt: Bool { if case .inGrace = self.state.knownState { true } else { false } }

  /// The gravest verdict that was reported and still applies, or `nil` without one. A better path
  /// that existed before the flow does not count.
  var unresolved: Verdict? {
    let unresolved = self.reported.filter { $0.key != .betterPath || $0.value.severity > .advise }
    let gravest = unresolved.values.map(\.severity).max()
    return Self.order.lazy.compactMap { reason in
      unresolved[reason].flatMap { $0.severity == gravest ? Verdict(reason, $0.severity) : nil }
    }.first
  }

  /// The reasons in the order of I9.
  private static let order: [Invalidation.Reason] = [
    .sourceAddressLost, .interfaceLost, .networkChanged, .betterPath, .policy,
  ]

  /// Whether the kernel cannot be queried (K8).
  var isKernelUnavailable: Bool {
    if case .kernelUnavailable = self.state { true } else { false }
  }

  /// Whether new connections get a better path, and the client was notified.
  package var hasBetterPath: Bool { self.reported[.betterPath] != nil }

  /// Begins to guard the flow.
  ///
  /// A connection that has just been made is evidence itself (I0). Only an address that this
  /// machine does not have refutes it. A path that the kernel prefers for new connections is not
  /// news. A flow that was guarded before is compared with its reported path.
  ///
  /// - Parameter since: The invalidation of the flow that was published while it was not guarded,
  ///   if any.
  /// - Returns: The verdict to report, if any. After a `destroy` there is nothing to guard.
  package mutating func register(
    on reading: FlowReading, since: Invalidation?, policy: InvalidationPolicy, at now: Instant
  ) -> Verdict? {
    self.hasChosen = reading.alternative != nil
    if reading.areRepliesRefused, case .alive(var baseline) = self.state {
      baseline.worksDespiteRefusal = true
      self.state = .alive(baseline)
    }
    self.reported[.betterPath] = reading.alternative.map {
      LastReported(severity: .advise, alternative: $0)
    }
    let verdict = self.update(to: reading, policy: policy, at: now)
    guard let since, verdict.map({ $0.severity < since.severity }) ?? true else { return verdict }
    // If no path is left, a path that was once better is irrelevant.
    let isPresent = since.reason == .betterPath && reading.path.status != .satisfied
    return Verdict(isPresent ? verdict?.reason ?? since.reason : since.reason, since.severity)
  }

  /// Evaluates a reading.
  ///
  /// - Parameter slept: How long the machine slept before the reading (I6).
  /// - Returns: The verdict to report, if any. After a `destroy` the tracker must not be used any
  ///   more.
  package mutating func update(
    to reading: FlowReading, slept: Duration? = nil, policy: InvalidationPolicy, at now: Instant
  ) -> Verdict? {
    guard reading.path.status != .unknown else {
      self.state = .kernelUnavailable(self.state.knownState)
      return Self.resumed(slept, reading, policy)
    }
    let (baseline, grace): (Baseline, GracePeriod?)
    switch self.state.knownState {
    case .awaitingPath(let path):
      self.state = .awaitingPath(path)
      guard reading.path.status == .satisfied else { return nil }
      // The flow begins with its first path, which is therefore not a change for the flow.
      baseline = Baseline(
        path: reading.path, network: reading.network, firstGateway: reading.path.gateway)
      grace = nil
    case .alive(let seen): (baseline, grace) = (seen, nil)
    case .inGrace(let seen, let known): (baseline, grace) = (seen, known)
    case .kernelUnavailable: return nil
    }

    let reading = reading.losingPrefixes(of: baseline.network)
    let input = RuleInput(
      flow: self.flow, baseline: baseline, grace: grace, reading: reading, policy: policy,
      hasChosen: self.hasChosen,
      isBetterPathReported: self.reported[.betterPath].map { $0.severity > .advise } ?? false,
      slept: slept, now: now)
    self.state =
      input.nextGrace.map { .inGrace(baseline, $0) } ?? .alive(baseline.settled(on: reading))
    return self.news(Self.rules.compactMap { $0(input) }, reading.alternative)
  }

  /// Returns the first of the most severe verdicts that have not been reported, or `nil` without
  /// one (I9).
  private mutating func news(
    _ verdicts: [Verdict], _ alternative: FlowReading.Alternative?
  ) -> Verdict? {
    var holding: [Invalidation.Reason: LastReported] = [:]
    for verdict in verdicts where verdict.reason != .resumed {
      let isBetter = verdict.reason == .betterPath
      holding[verdict.reason] = LastReported(
        severity: verdict.severity, alternative: isBetter ? alternative : nil)
    }
    let news = verdicts.filter {
      $0.isEvent || holding[$0.reason] != self.reported[$0.reason]
    }
    self.reported = holding
    let gravest = news.map(\.severity).max()
    guard var first = news.first(where: { $0.severity == gravest }) else { return nil }
    first.isCertain = news.contains { $0.severity == .destroy && !$0.isRefutable }
    return first
  }
}

extension FlowTracker.Verdict {
  /// Whether the verdict is about an event. Later readings are compared with the state after it.
  package var isEvent: Bool { self.reason == .resumed || self.reason == .networkChanged }

  /// Whether a connection that can move to another path moves instead of ending (I12).
  package var isMigration: Bool { self.isRefutable }

  /// Whether the flow's own socket can refute the verdict (E1). Neither the cost of a path nor a
  /// sleep can be refuted by what the socket received.
  package var isRefutable: Bool {
    guard self.severity == .destroy, !self.isCertain else { return false }
    return switch self.reason {
    case .sourceAddressLost, .interfaceLost, .networkChanged, .betterPath: true
    case .categoryChanged, .policy, .resumed, .silent: false
    }
  }
}

extension FlowTracker.State {
  /// The state when the kernel was last available.
  fileprivate var knownState: Self {
    if case .kernelUnavailable(let state) = self { state } else { self }
  }

  fileprivate var path: KernelPath {
    switch self {
    case .awaitingPath(let path): path
    case .alive(let baseline), .inGrace(let baseline, _): baseline.path
    case .kernelUnavailable(let state): state.path
    }
  }

  fileprivate var baseline: FlowTracker.Baseline? {
    switch self {
    case .awaitingPath: nil
    case .alive(let baseline), .inGrace(let baseline, _): baseline
    case .kernelUnavailable(let state): state.baseline
    }
  }

  fileprivate var hasBegun: Bool {
    if case .awaitingPath = self.knownState { false } else { true }
  }
}

extension FlowTracker.Baseline {
  /// Returns the state to remember after a reading with a working path of the flow.
  fileprivate func settled(on reading: FlowReading) -> Self {
    guard reading.path.status == .satisfied, !reading.isSourceGone else { return self }
    switch reading.formerLink {
    case nil:
      // While replies are lost, the grace period keeps the state before the loss.
      return Self(
        path: reading.path, network: reading.network.completed(by: self.network),
        isSourceAssignedByVPN: reading.isSourceAssignedByVPN,
        firstGateway: self.firstGateway ?? reading.path.gateway,
        worksDespiteRefusal: self.worksDespiteRefusal && reading.areRepliesRefused)
    case .untied:
      return Self(
        path: reading.path, network: reading.network,
        isSourceAssignedByVPN: reading.isSourceAssignedByVPN,
        firstGateway: reading.path.gateway)
    case .failed, .withoutRoute, .withWorseRoute, .withRoute, .leg: return self
    }
  }
}

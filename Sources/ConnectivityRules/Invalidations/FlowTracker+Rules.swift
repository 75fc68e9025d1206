import Connectivity

extension FlowTracker {
  /// The input of the rules: a flow, the state in which it was made, and the current reading.
  struct RuleInput {
    var flow: Flow
    var baseline: Baseline
    /// The grace period that it was in, if any.
    var grace: GracePeriod?
    var reading: FlowReading
    var policy: InvalidationPolicy
    var hasChosen: Bool
    /// Whether the client was notified of a preferred path and should leave, but the flow
    /// continues.
    var isBetterPathReported: Bool
    var slept: Duration?
    var now: Instant
  }

  /// The rules in the order of I9. Each returns whether its reason applies, even if that has been
  /// reported before.
  static let rules: [@Sendable (RuleInput) -> Verdict?] = [
    sourceAddressLost, interfaceLost, networkChanged, betterPath, forbiddenPath,
    { resumed($0.slept, $0.reading, $0.policy) },
  ]

  /// Rule I1.
  private static func sourceAddressLost(_ input: RuleInput) -> Verdict? {
    guard input.reading.isSourceGone else { return nil }
    let mayReturn = input.isSourceAway && input.nextGrace.map { $0.until > input.now } ?? false
    return Verdict(.sourceAddressLost, mayReturn ? .advise : .destroy)
  }

  /// Rules I2 and I10.
  private static func interfaceLost(_ input: RuleInput) -> Verdict? {
    if input.reading.formerLink == .failed, !input.baseline.isSourceAssignedByVPN {
      return Verdict(.interfaceLost, .destroy)
    }
    guard !input.reading.isSourceGone, let grace = input.nextGrace else { return nil }
    var verdict = Verdict(.interfaceLost, grace.until <= input.now ? .destroy : grace.severity)
    verdict.isRouteOnly = grace.isRouteOnly
    return verdict
  }

  /// Rule I4.
  private static func networkChanged(_ input: RuleInput) -> Verdict? {
    let (reading, before) = (input.reading, input.baseline.network)
    // While its address is away, the flow is on no network.
    guard reading.path.status == .satisfied, reading.formerLink == nil, !reading.isSourceGone else {
      return nil
    }
    if reading.network.isOther(than: before) {
      return Verdict(.networkChanged, input.baseline.isSourceAssignedByVPN ? .advise : .destroy)
    }
    return reading.network.isFailover(after: before) ? Verdict(.networkChanged, .advise) : nil
  }

  /// Rule I3.
  private static func betterPath(_ input: RuleInput) -> Verdict? {
    let reading = input.reading
    guard reading.path.status == .satisfied, !reading.isLocal else { return nil }
    switch reading.formerLink {
    case .withRoute, .withWorseRoute:
      return input.nextGrace == nil ? Verdict(.betterPath, input.policy.betterPath) : nil
    case .failed, .withoutRoute, .untied, .leg: return nil
    case nil:
      return reading.alternative.map {
        Verdict(.betterPath, $0.isKept || input.hasChosen ? .advise : input.policy.betterPath)
      }
    }
  }

  /// Rule I8. For a guess, connections in progress continue, but no new ones begin.
  private static func forbiddenPath(_ input: RuleInput) -> Verdict? {
    let (path, guesses) = (input.reading.path, input.reading.guesses)
    guard path.status == .satisfied else { return nil }
    var isGuess: [Bool] = []
    if input.flow.forbidsExpensive, path.isExpensive { isGuess.append(guesses.isExpensive) }
    if input.flow.forbidsConstrained, path.isConstrained { isGuess.append(guesses.isConstrained) }
    guard !isGuess.isEmpty else { return nil }
    return Verdict(.policy, isGuess.contains(false) ? .destroy : .drain)
  }

  /// Rule I6. Traffic within the machine slept at both ends.
  static func resumed(
    _ slept: Duration?, _ reading: FlowReading, _ policy: InvalidationPolicy
  ) -> Verdict? {
    reading.isLocal ? nil : slept.map { Verdict(.resumed, policy.severity(ofSleep: $0)) }
  }
}

extension FlowTracker.RuleInput {
  /// Whether the original link carries traffic but has no route for the flow. Neither a worse route
  /// over that link, nor one that is added meanwhile, shows that another link is preferred.
  private var isRouteMissing: Bool {
    switch self.reading.formerLink {
    case .withoutRoute: true
    case .withWorseRoute: !self.isBetterPathReported
    case .withRoute:
      self.isDraining || self.baseline.isSourceAssignedByVPN && !self.isBetterPathReported
    case .failed: self.baseline.isSourceAssignedByVPN
    case nil: self.isSourceAway || self.areRepliesLost
    case .untied, .leg: false
    }
  }

  /// Whether its replies arrive by a link from which the kernel no longer accepts them. If the
  /// kernel already refused replies when the connection was made, they evidently arrive (I0).
  private var areRepliesLost: Bool {
    self.reading.areRepliesRefused && !self.baseline.worksDespiteRefusal
  }

  /// Whether its route was missing before, and another link had taken over.
  private var isDraining: Bool {
    self.grace.map { $0.isRouteOnly && $0.severity == .drain } ?? false
  }

  /// Whether a route over its link exists but another route is preferred.
  private var hasWorseRoute: Bool {
    self.reading.formerLink == .withRoute || self.reading.formerLink == .withWorseRoute
  }

  /// Whether its address is gone and may come back, on this link or another one.
  fileprivate var isSourceAway: Bool {
    self.reading.sourceLoss == .mayReturn
      || self.baseline.isSourceAssignedByVPN && self.reading.isSourceGone
  }

  /// Whether there is a path to which its VPN may move the tunnel.
  private var isMovedByVPN: Bool {
    self.baseline.isSourceAssignedByVPN && !self.isSourceAway
      && self.reading.path.status == .satisfied
  }

  private var graceDuration: Duration {
    if self.isMovedByVPN { return InvalidationPolicy.tunnelGrace }
    if self.isSourceAway { return self.policy.routeGrace }
    let own = self.policy.grace(for: self.reading.path, after: self.baseline.path)
    let isOfRoute = self.baseline.isSourceAssignedByVPN || self.reading.isSourceElsewhere
    return isOfRoute ? max(own, self.policy.routeGrace) : own
  }

  /// The flow's grace period after this reading, or `nil` if its path works.
  var nextGrace: FlowTracker.GracePeriod? {
    let isTakenOver = self.reading.path.status == .satisfied
    if isTakenOver, !self.isRouteMissing { return nil }
    let isTied = !self.reading.isSourceElsewhere && !self.baseline.isSourceAssignedByVPN
    let hasFailed =
      !isTakenOver && isTied && self.reading.path.hasFailedLink(of: self.baseline.path)
    let end = self.now.advanced(by: self.graceDuration)
    var grace =
      self.grace
      ?? FlowTracker.GracePeriod(isRouteOnly: !hasFailed, severity: .advise, until: end)
    let isSuspended = self.reading.path.reason == .suspended
    // A link that fails while its route is missing gets no more than its own grace period. The same
    // applies to a path that is missing after a phone call.
    if hasFailed || self.isSourceAway || grace.isSuspension && !isSuspended {
      grace.until = min(grace.until, end)
    }
    if self.isMovedByVPN, grace.severity != .drain { grace.until = end }
    if hasFailed { grace.isRouteOnly = false }
    grace.isSuspension = isSuspended
    // New connections use the path that has taken over.
    if isTakenOver, !self.isSourceAway { grace.severity = .drain }
    // After the grace period, a preferred route is considered permanent (I3).
    return self.hasWorseRoute && isTakenOver && grace.until <= self.now ? nil : grace
  }
}

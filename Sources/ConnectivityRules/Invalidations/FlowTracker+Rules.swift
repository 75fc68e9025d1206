import Connectivity

extension FlowTracker {
  /// The input of the rules: a flow, the state in which it was made, and the current reading.
  struct Sight {
    var flow: Flow
    var standing: Standing
    /// The grace period that it was in, if any.
    var doubt: Doubt?
    var reading: FlowReading
    var policy: InvalidationPolicy
    var hasChosen: Bool
    /// Whether the client was notified of a preferred path and should leave, but the flow
    /// continues.
    var isBetterPathTold: Bool
    var slept: Duration?
    var now: Instant
  }

  /// The rules in the order of I9. Each returns whether its reason applies, even if that has been
  /// reported before.
  static let rules: [@Sendable (Sight) -> Verdict?] = [
    sourceAddressLost, interfaceLost, networkChanged, betterPath, forbiddenPath,
    { resumed($0.slept, $0.reading, $0.policy) },
  ]

  /// Rule I1.
  private static func sourceAddressLost(_ sight: Sight) -> Verdict? {
    guard sight.reading.isSourceGone else { return nil }
    let mayReturn = sight.isSourceAway && sight.nextDoubt.map { $0.until > sight.now } ?? false
    return Verdict(.sourceAddressLost, mayReturn ? .advise : .destroy)
  }

  /// Rules I2 and I10.
  private static func interfaceLost(_ sight: Sight) -> Verdict? {
    if sight.reading.formerLink == .failed, !sight.standing.isSourceGiven {
      return Verdict(.interfaceLost, .destroy)
    }
    guard !sight.reading.isSourceGone, let doubt = sight.nextDoubt else { return nil }
    var verdict = Verdict(.interfaceLost, doubt.until <= sight.now ? .destroy : doubt.severity)
    verdict.isRouteOnly = doubt.isRouteOnly
    return verdict
  }

  /// Rule I4.
  private static func networkChanged(_ sight: Sight) -> Verdict? {
    let (reading, before) = (sight.reading, sight.standing.network)
    // While its address is away, the flow is on no network.
    guard reading.path.status == .satisfied, reading.formerLink == nil, !reading.isSourceGone else {
      return nil
    }
    if reading.network.isOther(than: before) {
      return Verdict(.networkChanged, sight.standing.isSourceGiven ? .advise : .destroy)
    }
    return reading.network.isFailover(after: before) ? Verdict(.networkChanged, .advise) : nil
  }

  /// Rule I3.
  private static func betterPath(_ sight: Sight) -> Verdict? {
    let reading = sight.reading
    guard reading.path.status == .satisfied, !reading.isLocal else { return nil }
    switch reading.formerLink {
    case .withRoute, .withWorseRoute:
      return sight.nextDoubt == nil ? Verdict(.betterPath, sight.policy.betterPath) : nil
    case .failed, .withoutRoute, .untied, .leg: return nil
    case nil:
      return reading.alternative.map {
        Verdict(.betterPath, $0.isKept || sight.hasChosen ? .advise : sight.policy.betterPath)
      }
    }
  }

  /// Rule I8. For a guess, connections in progress continue, but no new ones begin.
  private static func forbiddenPath(_ sight: Sight) -> Verdict? {
    let (path, guesses) = (sight.reading.path, sight.reading.guesses)
    guard path.status == .satisfied else { return nil }
    var isGuess: [Bool] = []
    if sight.flow.forbidsExpensive, path.isExpensive { isGuess.append(guesses.isExpensive) }
    if sight.flow.forbidsConstrained, path.isConstrained { isGuess.append(guesses.isConstrained) }
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

extension FlowTracker.Sight {
  /// Whether the original link carries traffic but has no route for the flow. Neither a worse route
  /// over that link, nor one that is added meanwhile, shows that another link is preferred.
  private var isRouteMissing: Bool {
    switch self.reading.formerLink {
    case .withoutRoute: true
    case .withWorseRoute: !self.isBetterPathTold
    case .withRoute:
      self.isDraining || self.standing.isSourceGiven && !self.isBetterPathTold
    case .failed: self.standing.isSourceGiven
    case nil: self.isSourceAway || self.areRepliesLost
    case .untied, .leg: false
    }
  }

  /// Whether its replies arrive by a link from which the kernel no longer accepts them. If the
  /// kernel already refused replies when the connection was made, they evidently arrive (I0).
  private var areRepliesLost: Bool {
    self.reading.areRepliesRefused && !self.standing.worksDespiteRefusal
  }

  /// Whether its route was missing before, and another link had taken over.
  private var isDraining: Bool {
    self.doubt.map { $0.isRouteOnly && $0.severity == .drain } ?? false
  }

  /// Whether a route over its link exists but another route is preferred.
  private var hasWorseRoute: Bool {
    self.reading.formerLink == .withRoute || self.reading.formerLink == .withWorseRoute
  }

  /// Whether its address is gone and may come back, on this link or another one.
  fileprivate var isSourceAway: Bool {
    self.reading.sourceLoss == .mayReturn
      || self.standing.isSourceGiven && self.reading.isSourceGone
  }

  /// Whether there is a path to which its VPN may move the tunnel.
  private var isMovedByVPN: Bool {
    self.standing.isSourceGiven && !self.isSourceAway && self.reading.path.status == .satisfied
  }

  private var grace: Duration {
    if self.isMovedByVPN { return InvalidationPolicy.tunnelGrace }
    if self.isSourceAway { return self.policy.routeGrace }
    let own = self.policy.grace(for: self.reading.path, after: self.standing.path)
    let isOfRoute = self.standing.isSourceGiven || self.reading.isSourceElsewhere
    return isOfRoute ? max(own, self.policy.routeGrace) : own
  }

  /// The flow's grace period after this reading, or `nil` if its path works.
  var nextDoubt: FlowTracker.Doubt? {
    let isTakenOver = self.reading.path.status == .satisfied
    if isTakenOver, !self.isRouteMissing { return nil }
    let isTied = !self.reading.isSourceElsewhere && !self.standing.isSourceGiven
    let hasFailed =
      !isTakenOver && isTied && self.reading.path.hasFailedLink(of: self.standing.path)
    let end = self.now.advanced(by: self.grace)
    var doubt =
      self.doubt
      ?? FlowTracker.Doubt(isRouteOnly: !hasFailed, severity: .advise, until: end)
    let isSuspended = self.reading.path.reason == .suspended
    // A link that fails while its route is missing gets no more than its own grace period. The same
    // applies to a path that is missing after a phone call.
    if hasFailed || self.isSourceAway || doubt.isSuspension && !isSuspended {
      doubt.until = min(doubt.until, end)
    }
    if self.isMovedByVPN, doubt.severity != .drain { doubt.until = end }
    if hasFailed { doubt.isRouteOnly = false }
    doubt.isSuspension = isSuspended
    // New connections use the path that has taken over.
    if isTakenOver, !self.isSourceAway { doubt.severity = .drain }
    // After the grace period, a preferred route is considered permanent (I3).
    return self.hasWorseRoute && isTakenOver && doubt.until <= self.now ? nil : doubt
  }
}

import Connectivity

extension FlowTracker {
  /// What the rules look at: a flow, what it was made on, and what there is now.
  struct Sight {
    var flow: Flow
    var standing: Standing
    /// The doubt that it was in.
    var doubt: Doubt?
    var reading: FlowReading
    var policy: InvalidationPolicy
    var hasChosen: Bool
    /// It was told to leave for another way that is preferred, and goes on.
    var isBetterPathTold: Bool
    var slept: Duration?
    var now: Instant
  }

  /// The rules, in the order of I9. Each says what holds of its reason, whether or not that was told before.
  static let rules: [@Sendable (Sight) -> Verdict?] = [
    sourceAddressLost, interfaceLost, networkChanged, betterPath, forbiddenPath,
    { resumed($0.slept, $0.reading, $0.policy) },
  ]

  /// I1
  private static func sourceAddressLost(_ sight: Sight) -> Verdict? {
    guard sight.reading.isSourceGone else { return nil }
    let mayReturn = sight.isSourceAway && sight.nextDoubt.map { $0.until > sight.now } ?? false
    return Verdict(.sourceAddressLost, mayReturn ? .advise : .destroy)
  }

  /// I2 and I10
  private static func interfaceLost(_ sight: Sight) -> Verdict? {
    if sight.reading.formerLink == .failed, !sight.standing.isSourceGiven {
      return Verdict(.interfaceLost, .destroy)
    }
    guard !sight.reading.isSourceGone, let doubt = sight.nextDoubt else { return nil }
    var verdict = Verdict(.interfaceLost, doubt.until <= sight.now ? .destroy : doubt.severity)
    verdict.isRouteOnly = doubt.isRouteOnly
    return verdict
  }

  /// I4
  private static func networkChanged(_ sight: Sight) -> Verdict? {
    let (reading, before) = (sight.reading, sight.standing.network)
    // While its address is away the flow is on no network.
    guard reading.path.status == .satisfied, reading.formerLink == nil, !reading.isSourceGone else {
      return nil
    }
    if reading.network.isOther(than: before) {
      return Verdict(.networkChanged, sight.standing.isSourceGiven ? .advise : .destroy)
    }
    return reading.network.isFailover(after: before) ? Verdict(.networkChanged, .advise) : nil
  }

  /// I3
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

  /// I8: for a guess nothing that is under way ends, and nothing new begins.
  private static func forbiddenPath(_ sight: Sight) -> Verdict? {
    let (path, guesses) = (sight.reading.path, sight.reading.guesses)
    guard path.status == .satisfied else { return nil }
    var isGuess: [Bool] = []
    if sight.flow.forbidsExpensive, path.isExpensive { isGuess.append(guesses.isExpensive) }
    if sight.flow.forbidsConstrained, path.isConstrained { isGuess.append(guesses.isConstrained) }
    guard !isGuess.isEmpty else { return nil }
    return Verdict(.policy, isGuess.contains(false) ? .destroy : .drain)
  }

  /// I6: what never leaves the machine slept at both ends.
  static func resumed(
    _ slept: Duration?, _ reading: FlowReading, _ policy: InvalidationPolicy
  ) -> Verdict? {
    reading.isLocal ? nil : slept.map { Verdict(.resumed, policy.severity(ofSleep: $0)) }
  }
}

extension FlowTracker.Sight {
  /// Whether the link that the flow was made on carries traffic, and its route is missing. A worse route over that link does not show
  /// that another link is preferred, nor does one that is made in the meantime.
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

  /// Whether its answers come in by a link that the kernel no longer takes them from. A connection that was made although the
  /// kernel refuses them shows that they arrive (I0).
  private var areRepliesLost: Bool {
    self.reading.areRepliesRefused && !self.standing.worksDespiteRefusal
  }

  /// Whether its route was missing before, and another link had taken over.
  private var isDraining: Bool {
    self.doubt.map { $0.isRouteOnly && $0.severity == .drain } ?? false
  }

  /// Whether a route leads over its link that another is preferred to.
  private var hasWorseRoute: Bool {
    self.reading.formerLink == .withRoute || self.reading.formerLink == .withWorseRoute
  }

  /// Whether its address is gone and may come back, on this link or on another one.
  fileprivate var isSourceAway: Bool {
    self.reading.sourceLoss == .mayReturn
      || self.standing.isSourceGiven && self.reading.isSourceGone
  }

  /// Whether there is a way that its VPN may move the tunnel to.
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

  /// The doubt that the flow is in from this reading on; `nil` where its path is there.
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
    // A link that fails while its route was missing has no longer grace than its own; nor has what is missing after a call.
    if hasFailed || self.isSourceAway || doubt.isSuspension && !isSuspended {
      doubt.until = min(doubt.until, end)
    }
    if self.isMovedByVPN, doubt.severity != .drain { doubt.until = end }
    if hasFailed { doubt.isRouteOnly = false }
    doubt.isSuspension = isSuspended
    // New connections have a way, and take that.
    if isTakenOver, !self.isSourceAway { doubt.severity = .drain }
    // What is preferred for longer than that is preferred (I3).
    return self.hasWorseRoute && isTakenOver && doubt.until <= self.now ? nil : doubt
  }
}

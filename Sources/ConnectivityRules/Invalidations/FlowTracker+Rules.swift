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
    sight.reading.isSourceGone ? Verdict(.sourceAddressLost, .destroy) : nil
  }

  /// I2 and I10
  private static func interfaceLost(_ sight: Sight) -> Verdict? {
    if sight.reading.formerLink == .failed { return Verdict(.interfaceLost, .destroy) }
    guard let doubt = sight.nextDoubt else { return nil }
    var verdict = Verdict(.interfaceLost, doubt.until <= sight.now ? .destroy : doubt.severity)
    verdict.isRouteOnly = doubt.isRouteOnly
    return verdict
  }

  /// I4
  private static func networkChanged(_ sight: Sight) -> Verdict? {
    let (reading, before) = (sight.reading, sight.standing.network)
    guard reading.path.status == .satisfied, reading.formerLink == nil else { return nil }
    if reading.network.isOther(than: before) { return Verdict(.networkChanged, .destroy) }
    return reading.network.isFailover(after: before) ? Verdict(.networkChanged, .advise) : nil
  }

  /// I3
  private static func betterPath(_ sight: Sight) -> Verdict? {
    let reading = sight.reading
    guard reading.path.status == .satisfied, !reading.isLocal else { return nil }
    switch reading.formerLink {
    case .withRoute:
      return sight.nextDoubt == nil ? Verdict(.betterPath, sight.policy.betterPath) : nil
    case .failed, .withoutRoute, .withWorseRoute, .untied, .leg: return nil
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
  /// Whether the link that the flow was made on carries traffic, and its route is not there. That a worse one is, which was there
  /// before, is no sign that another way is preferred.
  private var isRouteMissing: Bool {
    switch self.reading.formerLink {
    case .withoutRoute, .withWorseRoute: true
    case .withRoute: self.doubt?.hasWorseRoute ?? false
    case .failed, .untied, .leg, nil: false
    }
  }

  /// The doubt that the flow is in from this reading on; `nil` where its path is there.
  var nextDoubt: FlowTracker.Doubt? {
    let lost = self.standing.path
    let isTakenOver = self.reading.path.status == .satisfied
    if isTakenOver, !self.isRouteMissing { return nil }
    let hasFailed =
      !isTakenOver && !self.reading.isSourceElsewhere && self.reading.path.hasFailedLink(of: lost)
    let grace =
      self.reading.isSourceElsewhere
      ? self.policy.routeGrace : self.policy.grace(for: self.reading.path, after: lost)
    let end = self.now.advanced(by: grace)
    var doubt =
      self.doubt
      ?? FlowTracker.Doubt(isRouteOnly: !hasFailed, severity: .advise, until: end)
    let isSuspended = self.reading.path.reason == .suspended
    // A link that fails while its route was missing has no longer grace than its own; nor has what is missing after a call.
    if hasFailed || doubt.isSuspension && !isSuspended { doubt.until = min(doubt.until, end) }
    if hasFailed { doubt.isRouteOnly = false }
    doubt.isSuspension = isSuspended
    if self.reading.formerLink == .withWorseRoute { doubt.hasWorseRoute = true }
    // New connections have a way, and take that.
    if isTakenOver { doubt.severity = .drain }
    return doubt
  }
}

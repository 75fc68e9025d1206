import Connectivity

extension FlowTracker {
  /// The input of the rules: a flow, the state in which it was made, and the current reading.
  struct RuleInput {
    var flow: Flow
    var baseline: Baseline
    /// The flow's grace period before the reading, if any.
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

  /// The rules in the order of I9. Each returns a verdict if its reason applies, even if the
  /// verdict was reported before.
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
    // While the flow's address is missing, the flow does not use any network.
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

  /// Rule I8. If the cost is a guess, connections in progress continue, but no new ones begin.
  private static func forbiddenPath(_ input: RuleInput) -> Verdict? {
    let (path, guesses) = (input.reading.path, input.reading.guesses)
    guard path.status == .satisfied else { return nil }
    var isGuess: [Bool] = []
    if input.flow.forbidsExpensive, path.isMetered { isGuess.append(guesses.isExpensive) }
    if input.flow.forbidsConstrained, path.isConstrained { isGuess.append(guesses.isConstrained) }
    guard !isGuess.isEmpty else { return nil }
    return Verdict(.policy, isGuess.contains(false) ? .destroy : .drain)
  }

  /// Rule I6. Local traffic is exempt, because both of its ends slept.
  static func resumed(
    _ slept: Duration?, _ reading: FlowReading, _ policy: InvalidationPolicy
  ) -> Verdict? {
    reading.isLocal ? nil : slept.map { Verdict(.resumed, policy.severity(ofSleep: $0)) }
  }
}

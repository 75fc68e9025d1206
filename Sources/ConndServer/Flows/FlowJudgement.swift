import Connectivity
import ConnectivityRules

/// The verdict on a connection that is not guarded yet: when a client registers it, and when a
/// client lists it.
struct FlowJudgement {
  let tracker: FlowTracker
  let examination: FlowExamination
  let outcome: FlowOutcome

  /// - Parameters:
  ///   - tracker: The flow's new tracker.
  ///   - since: The invalidation of the flow since its client knew it, if any.
  ///   - isCertain: Whether its address and link are gone, which no socket can refute.
  ///   - isProof: Returns whether the lookup is proof (E0).
  ///   - report: Returns the report of its socket, or `nil` if that cannot be queried.
  init(
    _ tracker: FlowTracker, _ reading: FlowReading, _ way: FlowPath, since: Invalidation?,
    isCertain: Bool, policy: InvalidationPolicy, at now: Instant, isProof: () -> Bool,
    report: () -> SocketReport?
  ) {
    var (tracker, examination) = (tracker, FlowExamination())
    let verdict =
      tracker.register(on: reading, since: since, policy: policy, at: now)
      ?? examination.begin(
        reading, isTunnelled: way.facts.links.contains(where: \.isTunnel), report: report, at: now)
    let report = verdict?.isRefutable == true ? report() : nil
    self.outcome = examination.conclude(
      FlowExamination.Look(
        verdict, isCertain: isCertain,
        isProof: report == nil || reading.path.isDropped || isProof(),
        // The answer to a registration contains no question, so the next evaluation asks.
        earliestQuestion: tracker.flow.canBeAsked(on: reading.path)
          ? now.advanced(by: .milliseconds(1)) : nil,
        change: now,
        report: report, at: now))
    (self.tracker, self.examination) = (tracker, examination)
  }
}

extension FlowExamination {
  /// Asks the socket of a flow that sends from the address of a failed link (I2).
  fileprivate mutating func begin(
    _ reading: FlowReading, isTunnelled: Bool, report: () -> SocketReport?, at now: Instant
  ) -> FlowTracker.Verdict? {
    guard reading.isSourceStranded else { return nil }
    let evidence = report().map { SocketEvidence($0, on: now, at: now) }
    if let evidence, evidence.isSuspect { self.suspect(evidence, at: now) }
    guard
      let severity = SocketEvidence.severityOfStranded(evidence, at: now, isTunnelled: isTunnelled)
    else { return nil }
    var verdict = FlowTracker.Verdict(.interfaceLost, severity, by: evidence)
    verdict.isCertain = severity == .destroy
    return verdict
  }
}

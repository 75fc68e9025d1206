import Connectivity

/// The state of a flow's socket queries and their results (E1 and E2). It complements
/// ``FlowTracker``, which only knows lookups.
struct FlowExamination: Hashable, Sendable {
  /// Set if the lookup declares the flow dead, and the socket may refute or has refuted that (E1).
  var dispute: Dispute?
  /// Set if the lookup succeeds, but the socket has been silent since a change (E2).
  var suspicion: Suspicion?
  /// How often the socket has proved the lookup wrong.
  var timesSpared = 0
  /// When the client last received a request to ask its peer (E4).
  var lastQuestion: Instant?

  /// The minimum time between two questions (E4).
  static let pause = Duration.seconds(2)

  init() {}

  /// When the socket must be queried again even without a kernel message.
  var deadline: Instant? {
    let suspicion = self.suspicion.flatMap { $0.pause == nil ? $0.next : nil }
    return switch (self.dispute?.next, suspicion) {
    case (let first?, let second?): min(first, second)
    case (let next, nil), (nil, let next): next
    }
  }

  /// The verdict that the socket may refute, or has refuted.
  var disputed: FlowTracker.Verdict? { self.dispute?.verdict }

  /// Whether the flow continues although the lookup declares it dead: its socket has proved the
  /// lookup wrong, or its peer could not be asked.
  var isSpared: Bool { self.dispute?.state == .spared || self.dispute?.state == .drained }

  /// Whether the socket must be queried before ``conclude(_:)``.
  ///
  /// - Parameters:
  ///   - verdict: The news from the lookup, if any.
  ///   - isCertain: Whether nothing can refute that verdict.
  ///   - isSound: Whether the flow's path carries traffic according to the lookup.
  func needsReport(
    on verdict: FlowTracker.Verdict?, isCertain: Bool, isSound: Bool, at now: Instant
  ) -> Bool {
    if let verdict, verdict.isRefutable, !isCertain { return true }
    if let suspicion = self.suspicion, self.isTrusted(isSound) != (suspicion.pause == nil) {
      return true
    }
    return self.deadline.map { $0 <= now } ?? false
  }

  /// Whether another connection to the same host would be useful evidence (E2).
  func needsContrast(at now: Instant) -> Bool {
    guard let suspicion, suspicion.isAdvised, suspicion.pause == nil, suspicion.questions == nil
    else { return false }
    return suspicion.next <= now
  }

  /// Whether the lookup succeeds, or the socket has proved a failed lookup wrong.
  func isTrusted(_ isSound: Bool) -> Bool { isSound || self.isSpared }
}

extension FlowExamination {
  /// Returns the outcome of one evaluation of the flow, for the client. After a verdict of
  /// `destroy`, the examination must not be used again.
  mutating func conclude(_ facts: Facts) -> FlowOutcome {
    var facts = facts
    // A lookup may report an event again while the event is being judged.
    if let verdict = facts.verdict, self.isJudging(verdict, facts) { facts.verdict = nil }
    if let verdict = facts.verdict, verdict.severity == .destroy {
      if facts.drainsFirst, verdict.reason == .betterPath, !verdict.isCertain {
        return self.drain(verdict, facts)
      }
      guard verdict.isRefutable, !facts.isCertain, let evidence = facts.evidence(on: facts.change)
      else { return .verdict(verdict) }
      // Packets from an address that this machine has lost never arrive, wherever they are sent.
      let isProof = facts.isProof || verdict.reason == .sourceAddressLost
      return self.judge(
        Dispute(verdict, evidence, change: facts.change, isProof: isProof), evidence, facts,
        isKnown: facts.isAdvised)
    }
    if let dispute = self.dispute {
      guard facts.isDisputed else {
        self.dispute = nil
        return facts.verdict.map(FlowOutcome.verdict) ?? .recovered
      }
      // A spared flow that is idle and cannot be asked gives no new evidence, and stays spared.
      if facts.isLookupNew, let evidence = facts.evidence(on: facts.change),
        evidence.isActive || facts.isProof || facts.earliestQuestion != nil
      {
        let again = Dispute(
          dispute.verdict, evidence, change: facts.change,
          isProof: facts.isProof || dispute.verdict.reason == .sourceAddressLost)
        let outcome = self.judge(again, evidence, facts, isKnown: true)
        if outcome != .none { return outcome.joined(with: facts.verdict) }
      } else if let next = dispute.next, next <= facts.now {
        guard let evidence = facts.evidence(on: dispute.change, beyond: dispute.known)
        else {
          return .verdict(dispute.verdict)
        }
        let outcome = self.judge(dispute, evidence, facts, isKnown: true)
        if outcome != .none { return outcome.joined(with: facts.verdict) }
      }
    }
    let found = self.conclude(on: facts)
    return facts.verdict.map(FlowOutcome.verdict) ?? found
  }
}

import Connectivity

// The judgement of a flow that is dead according to its lookup (E1).
extension FlowExamination {
  /// A dispute: the lookup declares the flow dead, and the flow's socket may refute that.
  struct Dispute: Hashable, Sendable {
    var verdict: FlowTracker.Verdict
    var change: Instant
    /// The socket's counters at the first query. The acknowledgement of data that was sent before
    /// proves nothing.
    var known: SocketEvidence.Known
    /// Whether the lookup is proof (E0).
    var isProof: Bool
    /// When the client received a request to ask its peer, or `nil` if it received none (E4).
    var reported: Instant?
    /// When connd found that something had been sent since the change, or `nil` if it has not.
    var asked: Instant?
    var state = State.open

    enum State: Hashable, Sendable {
      case open
      /// Query the socket again at the given instant.
      case waiting(until: Instant)
      /// The socket has proved the lookup wrong.
      case spared
      /// The flow's peer cannot be asked. The client should leave the flow.
      case drained
    }

    init(
      _ verdict: FlowTracker.Verdict, _ evidence: SocketEvidence?, change: Instant, isProof: Bool
    ) {
      (self.verdict, self.isProof) = (verdict, isProof)
      self.change = change
      self.known = evidence.map { $0.known ?? .init(progress: $0.sent, $0) } ?? .nothing
    }

    /// When to query the socket again, or `nil` if the dispute is decided.
    var next: Instant? { if case .waiting(let end) = self.state { end } else { nil } }
  }

  /// Whether the event of a verdict is already being judged. Later lookups may report it again.
  func isJudging(_ verdict: FlowTracker.Verdict, _ facts: Facts) -> Bool {
    guard let dispute, dispute.next != nil, !facts.isLookupNew, !facts.isCertain else {
      return false
    }
    return verdict.isEvent && dispute.verdict.reason == verdict.reason
  }

  /// How long a flow drains before a better path may end it. Meanwhile the old path works.
  private static let drain = Duration.seconds(1)

  /// Drains a flow for which another path is preferred. Its socket is judged afterwards.
  mutating func drain(_ verdict: FlowTracker.Verdict, _ facts: Facts) -> FlowOutcome {
    // Another better path does not prolong the drain.
    if let dispute, dispute.verdict.reason == .betterPath, dispute.next != nil { return .none }
    let evidence = facts.evidence(on: facts.change)
    var dispute = Dispute(verdict, evidence, change: facts.change, isProof: facts.isProof)
    dispute.state = .waiting(until: facts.now.advanced(by: Self.drain))
    var reported = verdict
    (reported.severity, reported.evidence) = (.drain, evidence)
    if self.nextQuestion(in: dispute, evidence, facts) == facts.now {
      (reported.asksPeer, dispute.reported, self.lastQuestion) = (true, facts.now, facts.now)
    }
    self.dispute = dispute
    return .verdict(reported)
  }

  /// Judges a disputed verdict (E1).
  mutating func judge(
    _ dispute: Dispute, _ evidence: SocketEvidence, _ facts: Facts, isKnown: Bool
  ) -> FlowOutcome {
    let now = facts.now
    var (dispute, reported) = (dispute, dispute.verdict)
    reported.evidence = evidence
    if evidence.hasSent || dispute.reported != nil && evidence.isProbeUnanswered {
      dispute.asked = dispute.asked ?? now
    }
    let question = self.nextQuestion(in: dispute, evidence, facts)
    let ruling =
      dispute.isProof
      ? evidence.ruling(
        at: now, isUrgent: reported.reason != .betterPath, wasSpared: self.timesSpared > 0)
      : evidence.ruling(
        asked: dispute.asked, reported: dispute.reported, nextQuestion: question, at: now)
    if question == now {
      (reported.asksPeer, dispute.reported, self.lastQuestion) = (true, now, now)
      dispute.known = .init(progress: evidence.sent, evidence)
    }
    // New calls avoid the flow immediately, as in I10, and calls in progress continue.
    reported.severity = .advise
    switch ruling {
    case .destroy:
      reported.severity = .destroy
      return .verdict(reported)
    case .spare:
      self.timesSpared += 1
      dispute.state = .spared
      // A refuted verdict about an event is not kept, because an event happens only once.
      self.dispute = reported.isEvent ? nil : dispute
    case .drain:
      dispute.state = .drained
      self.dispute = reported.isEvent ? nil : dispute
      reported.severity = .drain
      return .verdict(reported)
    case .wait(let end):
      dispute.state = .waiting(until: end)
      self.dispute = dispute
    }
    return !isKnown ? .verdict(reported) : reported.asksPeer ? .question : .none
  }

  /// Returns when the client must ask its peer, or `nil` if the client cannot or need not ask. It
  /// need not ask if it already has a request, or if unacknowledged data already asks.
  private func nextQuestion(
    in dispute: Dispute, _ evidence: SocketEvidence?, _ facts: Facts
  ) -> Instant? {
    guard let earliest = facts.earliestQuestion, !dispute.isProof, dispute.reported == nil,
      dispute.asked == nil, evidence?.hasUnacknowledgedData == false
    else { return nil }
    return max(earliest, self.lastQuestion?.advanced(by: Self.pause) ?? earliest)
  }
}

import Connectivity

// The search for a flow that is dead although its lookup succeeds (E2).
extension FlowExamination {
  /// A suspicion: the flow's lookup succeeds, but its socket has been silent since a change.
  struct Suspicion: Hashable, Sendable {
    var change: Instant
    /// The socket's progress at the first query.
    var known: SocketEvidence.Known
    /// The number of timeouts that were already counted at the first query; 0 for an idle flow.
    var assumedTimeouts: Int
    /// Whether the client knows about the silence.
    var isAdvised = false
    var next: Instant
    /// The current failure of the lookup, or `nil` while it succeeds.
    var pause: Pause?
    /// The number of timeouts during earlier pauses, which prove nothing.
    var timeoutsInPauses = 0
    /// The questions to an idle flow's peer, or `nil` if unacknowledged data already asks.
    var questions: Questions?
  }

  /// The questions to the peer of an idle flow (E4). Each unanswered question counts as a timeout.
  struct Questions: Hashable, Sendable {
    var first: Instant
    var unanswered = 0
  }

  /// A period in which the lookup fails, so that the rules for lookups decide.
  struct Pause: Hashable, Sendable {
    var start: Instant
    /// The number of consecutive timeouts when the lookup began to fail.
    var timeouts: Int
  }

  /// Notes that the flow is suspect after a change (E2). If the flow is already suspect, the
  /// earlier change remains: endless changes must not save a dead flow. Returns the advice if
  /// enough timeouts have occurred and the client was not advised yet.
  @discardableResult
  mutating func suspect(_ evidence: SocketEvidence, at now: Instant) -> FlowTracker.Verdict? {
    if var suspicion = self.suspicion {
      var earlier = evidence
      (earlier.change, earlier.known) = (suspicion.change, suspicion.known)
      if earlier.isSuspect, suspicion.resume(earlier, at: now) {
        self.suspicion = suspicion
        return nil
      }
    }
    let wasAdvised = self.suspicion?.isAdvised ?? false
    let isAdvised = evidence.isSilent && evidence.countedTimeouts >= 2
    self.suspicion = Suspicion(
      change: evidence.change,
      known: .init(progress: evidence.progress, evidence),
      assumedTimeouts: evidence.countedTimeouts,
      isAdvised: wasAdvised || isAdvised,
      next: evidence.nextQuestion(after: now))
    return isAdvised && !wasAdvised ? FlowTracker.Verdict(.silent, .advise, by: evidence) : nil
  }

  /// Notes that an idle flow's peer must be asked after a change (E2). Returns `false` if the peer
  /// was heard since the change, is being asked, or was asked in the last two seconds.
  mutating func question(_ evidence: SocketEvidence, at now: Instant) -> Bool {
    guard self.suspicion == nil, self.dispute == nil || self.isSpared,
      !evidence.hasUnacknowledgedData,
      !evidence.isHeardLate, self.lastQuestion.map({ $0.advanced(by: Self.pause) <= now }) ?? true
    else { return false }
    self.suspicion = Suspicion(
      change: evidence.change, known: .init(progress: evidence.progress, evidence),
      assumedTimeouts: 0, next: now.advanced(by: Self.pause), questions: Questions(first: now))
    self.lastQuestion = now
    return true
  }

  /// Judges a suspicion of silence (E2).
  mutating func conclude(on facts: Facts) -> FlowOutcome {
    guard var suspicion = self.suspicion else { return .none }
    let evidence = facts.evidence(on: suspicion.change, beyond: suspicion.known)
    let isKept =
      self.isTrusted(facts.isSound)
      ? suspicion.resume(evidence, at: facts.now) : suspicion.pause(evidence, at: facts.now)
    self.suspicion = isKept ? suspicion : nil
    guard isKept, suspicion.pause == nil, suspicion.next <= facts.now, facts.verdict == nil else {
      return .none
    }
    if suspicion.questions != nil, let evidence, !evidence.hasUnacknowledgedData {
      return self.conclude(on: suspicion, evidence, facts)
    }
    suspicion.questions = nil
    guard let evidence, evidence.isSuspect else {
      self.suspicion = nil
      return suspicion.isAdvised && !self.isSpared ? .recovered : .none
    }
    let severity = evidence.severityOfSilence(
      at: facts.now, isTunnelled: facts.isTunnelled, without: suspicion.timeoutsInPauses,
      assumed: suspicion.assumedTimeouts, contrast: facts.contrast)
    let isNews = severity == .destroy || !suspicion.isAdvised
    suspicion.isAdvised = suspicion.isAdvised || severity != nil
    suspicion.next = evidence.nextQuestion(
      after: facts.now, orAt: evidence.endOfWait(isTunnelled: facts.isTunnelled))
    self.suspicion = suspicion
    guard let severity, isNews else { return .none }
    return .verdict(FlowTracker.Verdict(.silent, severity, by: evidence))
  }

  /// Judges a question to the peer of an idle flow (E2).
  private mutating func conclude(
    on suspicion: Suspicion, _ evidence: SocketEvidence, _ facts: Facts
  ) -> FlowOutcome {
    var suspicion = suspicion
    guard var questions = suspicion.questions, evidence.isProbeUnanswered, !evidence.isQueued,
      !evidence.isHeardLate, facts.earliestQuestion != nil
    else {
      // The question was answered, the owner could not ask, or the packet waits for a MAC address.
      self.suspicion = nil
      return suspicion.isAdvised && !self.isSpared ? .recovered : .none
    }
    questions.unanswered += 1
    let maxWait =
      facts.isTunnelled ? InvalidationPolicy.tunnelGrace : SocketEvidence.maxSilence
    let isOver = questions.first.advanced(by: maxWait) <= facts.now
    if questions.unanswered > 1, isOver {
      return .verdict(FlowTracker.Verdict(.silent, .destroy, by: evidence))
    }
    suspicion.questions = questions
    suspicion.known = .init(progress: evidence.progress, evidence)
    // With this interval, the peer is asked at most four times. After more probes without an
    // answer, the kernel would end the connection (`TCP_KEEPCNT`).
    suspicion.next = facts.now.advanced(by: maxWait / 3)
    self.lastQuestion = facts.now
    let isNews = questions.unanswered > 1 && !suspicion.isAdvised
    suspicion.isAdvised = suspicion.isAdvised || isNews
    self.suspicion = suspicion
    guard isNews else { return .question }
    var verdict = FlowTracker.Verdict(.silent, .advise, by: evidence)
    verdict.asksPeer = true
    return .verdict(verdict)
  }
}

extension FlowExamination.Suspicion {
  /// The maximum failure of the lookup that a suspicion survives. After a longer failure, the
  /// socket's timer may expire so late that its data says nothing about the path.
  private static let maxPause = Duration.seconds(1)

  /// Notes that the lookup fails. Returns whether the suspicion is kept.
  fileprivate mutating func pause(_ evidence: SocketEvidence?, at now: Instant) -> Bool {
    guard self.pause == nil else { return true }
    if self.questions != nil { return false }
    self.pause = evidence.map { .init(start: now, timeouts: $0.timeouts) }
    return self.pause != nil
  }

  /// Notes that the lookup succeeds. Returns whether the suspicion is kept. A lookup that fails
  /// many times a second must not save a dead flow.
  fileprivate mutating func resume(_ evidence: SocketEvidence?, at now: Instant) -> Bool {
    guard let pause = self.pause else { return true }
    guard let evidence, pause.start.duration(to: now) < Self.maxPause else { return false }
    self.timeoutsInPauses += max(0, evidence.timeouts - pause.timeouts)
    // The client has learnt meanwhile that the path was lost and came back.
    (self.pause, self.isAdvised) = (nil, false)
    return true
  }
}

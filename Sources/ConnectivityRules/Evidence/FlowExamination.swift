package import Connectivity

/// The state of a flow's socket queries and their results (E1 and E2). It complements
/// ``FlowTracker``, which only knows lookups.
package struct FlowExamination: Hashable, Sendable {
  /// The lookup declares the flow dead, and the socket may refute that or has refuted it (E1).
  private var dispute: Dispute?
  /// The lookup succeeds, but the socket has been silent since a change (E2).
  private var suspicion: Suspicion?
  /// How often the socket has proved the lookup wrong.
  package private(set) var timesSpared = 0

  private struct Dispute: Hashable, Sendable {
    var verdict: FlowTracker.Verdict
    var change: Instant
    /// The data that was sent before the first query since the change.
    var known: SocketEvidence.Known
    /// Whether the lookup is proof (E0).
    var isProof: Bool
    /// When something was seen to have been sent since the change.
    var asked: Instant?
    /// Whether the client knows that it should leave.
    var isDraining = false
    /// When to query the socket again, or `nil` if it has proved the lookup wrong.
    var next: Instant?

    init(
      _ verdict: FlowTracker.Verdict, _ evidence: SocketEvidence?, change: Instant, isProof: Bool
    ) {
      (self.verdict, self.isProof) = (verdict, isProof)
      self.change = change
      self.known =
        evidence.map { $0.known ?? .init(progress: $0.sent, resent: $0.resent) }
        ?? .init(progress: .max, resent: .max)
    }
  }

  fileprivate struct Suspicion: Hashable, Sendable {
    var change: Instant
    /// The socket's progress at the first query.
    var known: SocketEvidence.Known
    /// The number of counted timeouts before it.
    var assumedTimeouts: Int
    /// Whether the client knows about it.
    var isAdvised = false
    var next: Instant
    /// The interruption of the lookup's success, or `nil` while it succeeds.
    var pause: Pause?
    /// The number of timeouts during earlier pauses, which prove nothing.
    var timeoutsInPauses = 0
  }

  /// A time in which the lookup fails, so that its own rules decide.
  fileprivate struct Pause: Hashable, Sendable {
    var start: Instant
    /// The number of consecutive timeouts at its start.
    var timeouts: Int
  }

  package init() {}

  /// When the socket must be queried again even without a kernel message.
  package var deadline: Instant? {
    let suspicion = self.suspicion.flatMap { $0.pause == nil ? $0.next : nil }
    return switch (self.dispute?.next, suspicion) {
    case (let first?, let second?): min(first, second)
    case (let next, nil), (nil, let next): next
    }
  }

  /// The verdict that the socket may refute, or has refuted.
  package var disputed: FlowTracker.Verdict? { self.dispute?.verdict }

  /// Whether the socket has proved that the lookup does not describe the flow.
  package var isSpared: Bool { self.dispute.map { $0.next == nil } ?? false }

  /// Whether the socket must be queried before ``conclude(_:)``.
  ///
  /// - Parameters:
  ///   - verdict: The news from the lookup, if any.
  ///   - isCertain: Whether nothing can refute that verdict.
  ///   - isSound: Whether the flow's path carries traffic according to the lookup.
  package func needsReport(
    on verdict: FlowTracker.Verdict?, isCertain: Bool, isSound: Bool, at now: Instant
  ) -> Bool {
    if let verdict, verdict.isRefutable, !isCertain { return true }
    if let suspicion = self.suspicion, self.isTrusted(isSound) != (suspicion.pause == nil) {
      return true
    }
    return self.deadline.map { $0 <= now } ?? false
  }

  /// Whether the lookup succeeds, or the socket has proved a failed one wrong.
  private func isTrusted(_ isSound: Bool) -> Bool { isSound || self.isSpared }

  /// Notes that the flow is suspect after a change (E2). If it has been so since an earlier change,
  /// that one remains: endless changes must not save a dead flow.
  package mutating func suspect(_ evidence: SocketEvidence, at now: Instant) {
    if var suspicion = self.suspicion {
      var earlier = evidence
      (earlier.change, earlier.known) = (suspicion.change, suspicion.known)
      if earlier.isSuspect, suspicion.resume(earlier, at: now) {
        self.suspicion = suspicion
        return
      }
    }
    self.suspicion = Suspicion(
      change: evidence.change,
      known: .init(progress: evidence.progress, resent: evidence.resent),
      assumedTimeouts: evidence.countedTimeouts,
      isAdvised: self.suspicion?.isAdvised ?? false,
      next: evidence.nextQuestion(after: now))
  }
}

extension FlowExamination {
  /// Returns what the client must learn from one evaluation of the flow. After a verdict of
  /// `destroy`, the examination must not be used again.
  package mutating func conclude(_ look: Look) -> FlowOutcome {
    if let verdict = look.verdict, verdict.severity == .destroy {
      if look.drainsFirst, verdict.reason == .betterPath, !verdict.isCertain {
        return self.drain(verdict, look)
      }
      guard verdict.isRefutable, !look.isCertain, let evidence = look.evidence(on: look.change)
      else { return .verdict(verdict) }
      // Packets from an address that this machine has lost never arrive, wherever they are sent.
      let isProof = look.isProof || verdict.reason == .sourceAddressLost
      return self.judge(
        Dispute(verdict, evidence, change: look.change, isProof: isProof), evidence,
        isKnown: look.isAdvised,
        at: look.now)
    }
    if let dispute = self.dispute {
      guard look.isDisputeStanding else {
        self.dispute = nil
        return look.verdict.map(FlowOutcome.verdict) ?? .recovered
      }
      // A spared flow that is idle gives no new evidence and stays spared.
      if look.isLookupNew, let evidence = look.evidence(on: look.change), evidence.isActive {
        let again = Dispute(
          dispute.verdict, evidence, change: look.change, isProof: dispute.isProof)
        let outcome = self.judge(again, evidence, isKnown: true, at: look.now)
        if outcome != .none { return outcome }
      } else if let next = dispute.next, next <= look.now {
        guard let evidence = look.evidence(on: dispute.change, beyond: dispute.known)
        else {
          return .verdict(dispute.verdict)
        }
        let outcome = self.judge(dispute, evidence, isKnown: true, at: look.now)
        if outcome != .none { return outcome }
      }
    }
    let found = self.conclude(on: look)
    return look.verdict.map(FlowOutcome.verdict) ?? found
  }

  /// How long a better path drains before it destroys. The old path works for as long.
  private static let drain = Duration.seconds(1)

  /// Drains a flow for which another path is preferred. Its socket is judged afterwards.
  private mutating func drain(_ verdict: FlowTracker.Verdict, _ look: Look) -> FlowOutcome {
    // Another better path does not prolong it.
    if let dispute, dispute.verdict.reason == .betterPath, dispute.next != nil { return .none }
    let evidence = look.evidence(on: look.change)
    var dispute = Dispute(verdict, evidence, change: look.change, isProof: look.isProof)
    (dispute.isDraining, dispute.next) = (true, look.now.advanced(by: Self.drain))
    self.dispute = dispute
    var told = verdict
    (told.severity, told.evidence) = (.drain, evidence)
    return .verdict(told)
  }

  /// Judges a disputed verdict (E1).
  private mutating func judge(
    _ dispute: Dispute, _ evidence: SocketEvidence, isKnown: Bool, at now: Instant
  ) -> FlowOutcome {
    var (dispute, told) = (dispute, dispute.verdict)
    told.evidence = evidence
    if evidence.hasSent { dispute.asked = dispute.asked ?? now }
    let ruling =
      dispute.isProof
      ? evidence.ruling(
        at: now, isUrgent: told.reason != .betterPath, wasSpared: self.timesSpared > 0)
      : evidence.ruling(asked: dispute.asked, at: now)
    // New calls avoid the flow immediately, as in I10, and calls in progress continue.
    told.severity = .advise
    switch ruling {
    case .destroy:
      told.severity = .destroy
      return .verdict(told)
    case .spare:
      self.timesSpared += 1
      dispute.next = nil
      // A refuted verdict about an event is not kept, because an event happens only once.
      self.dispute = told.isEvent ? nil : dispute
    case .wait(let end):
      dispute.next = end
      self.dispute = dispute
    }
    return isKnown ? .none : .verdict(told)
  }

  /// Judges a suspicion of silence (E2).
  private mutating func conclude(on look: Look) -> FlowOutcome {
    guard var suspicion = self.suspicion else { return .none }
    let evidence = look.evidence(on: suspicion.change, beyond: suspicion.known)
    let isKept =
      self.isTrusted(look.isSound)
      ? suspicion.resume(evidence, at: look.now) : suspicion.pause(evidence, at: look.now)
    self.suspicion = isKept ? suspicion : nil
    guard isKept, suspicion.pause == nil, suspicion.next <= look.now, look.verdict == nil else {
      return .none
    }
    guard let evidence, evidence.isSuspect else {
      self.suspicion = nil
      return suspicion.isAdvised && !self.isSpared ? .recovered : .none
    }
    let severity = evidence.severityOfSilence(
      at: look.now, isTunnelled: look.isTunnelled, without: suspicion.timeoutsInPauses,
      assumed: suspicion.assumedTimeouts)
    let isNews = severity == .destroy || !suspicion.isAdvised
    suspicion.isAdvised = suspicion.isAdvised || severity != nil
    suspicion.next = evidence.nextQuestion(
      after: look.now, orAt: evidence.endOfPatience(isTunnelled: look.isTunnelled))
    self.suspicion = suspicion
    guard let severity, isNews else { return .none }
    return .verdict(FlowTracker.Verdict(.silent, severity, by: evidence))
  }
}

extension FlowExamination.Suspicion {
  /// The longest interruption that a suspicion survives. After a longer one, the socket's timer may
  /// expire so late that its data says nothing about the path.
  private static let maxPause = Duration.seconds(1)

  /// Notes that the lookup fails. Returns whether the suspicion is kept.
  fileprivate mutating func pause(_ evidence: SocketEvidence?, at now: Instant) -> Bool {
    guard self.pause == nil else { return true }
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

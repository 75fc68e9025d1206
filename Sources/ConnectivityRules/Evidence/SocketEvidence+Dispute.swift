package import Connectivity

// The decision about a flow that is dead according to its lookup (E1).
extension SocketEvidence {
  /// The decision about a flow that is dead according to its lookup.
  package enum Ruling: Hashable, Sendable {
    case destroy
    /// The flow's peer cannot be asked, so the flow may still work.
    case drain
    /// The lookup does not describe this flow.
    case spare
    /// The evidence is not sufficient yet. Query the socket again at the given instant.
    case wait(until: Instant)
  }

  /// The maximum silence before the change for a flow that still gives evidence.
  private static let activity = Duration.seconds(1)
  /// The maximum silence after the change.
  private static let maxWait = Duration.milliseconds(100)
  /// The maximum silence after the change for a flow that has lost packets on a link that works.
  private static let maxPatienceWithLoss = Duration.seconds(1)

  /// Returns how long the flow may be silent after the change. A flow that has lost packets may
  /// lose more, so it gets the time of two timeouts. The second takes twice as long as the first.
  private func maxWait(isUrgent: Bool, wasSpared: Bool) -> Duration {
    if self.hasLost, !isUrgent { return min(self.timeout * 3, Self.maxPatienceWithLoss) }
    return wasSpared
      ? Self.maxWait : min(self.roundTrip * 2 + .milliseconds(20), Self.maxWait)
  }

  /// Whether the peer was heard shortly before the change, or since. If the flow's own data has
  /// timed out twice, the flow was already dead, even if its peer sends retransmissions.
  package var isActive: Bool {
    guard !self.hasUnacknowledgedData || self.timeouts < 2 else { return false }
    return self.lastHeardAfterChange >= .zero - Self.activity
  }

  /// Whether something has arrived that only a living peer sends. That is an acknowledgement of
  /// data sent after the first query, however soon, or new data while all sent data is
  /// acknowledged.
  private var isAlive: Bool {
    self.known.map { $0.progress < self.progress } ?? false || self.isAnsweredSince
  }

  /// Decides about a flow that is dead according to its lookup, if the lookup is proof (E1).
  ///
  /// - Parameters:
  ///   - isUrgent: Whether the flow's link may have failed. If not, waiting costs nothing.
  ///   - wasSpared: Whether the lookup was wrong about this flow before, so that it gets more time.
  package func ruling(
    at now: Instant, isUrgent: Bool = true, wasSpared: Bool = false
  ) -> Ruling {
    if self.isAlive { return .spare }
    let timeoutsByLoss = self.hasLost && !isUrgent ? 1 : 0
    if self.isHeardLate, self.hasUnacknowledgedData, self.timeouts <= timeoutsByLoss {
      // The peer may be answering data that was sent before the change. The flow is spared if the
      // peer acknowledges the rest of that data before it times out.
      return .wait(until: self.nextQuestion(after: now))
    }
    if !isUrgent, self.hasUnacknowledgedData, self.timeouts - self.timeoutsAfterChange >= 2 {
      // The flow was already silent, for a reason other than the better path, and may recover (E2).
      let end = min(self.timesOutSince, self.change).advanced(by: Self.maxSilence)
      if end > now { return .wait(until: min(end, self.nextQuestion(after: now))) }
    }
    guard self.isActive else { return .destroy }
    let silence = self.maxWait(isUrgent: isUrgent, wasSpared: wasSpared)
    if self.isHeardLate {
      // If nothing was acknowledged meanwhile, only retransmissions or replies to earlier data
      // arrived.
      return self.known == nil ? .wait(until: now.advanced(by: silence)) : .destroy
    }
    let end = max(self.change, self.lastHeard).advanced(by: silence)
    return end <= now ? .destroy : .wait(until: end)
  }
}

// MARK: - If the lookup is not proof (E0)

extension SocketEvidence {
  /// Whether something was sent after the first query: new data, or data that was sent again.
  package var hasSent: Bool {
    self.known.map { $0.progress < self.sent || $0.resent < self.resent } ?? false
  }

  /// How long after the change the socket is first queried, to see whether something was sent.
  private static let firstExamination = Duration.milliseconds(200)
  /// How long after the request to the owner the socket is first queried. By then, a PING or the
  /// probe of an idle socket has been sent.
  private static let firstLookAtQuestion = Duration.milliseconds(20)
  /// The bounds of the time that a peer has to answer.
  private static let minAnswerTime = Duration.milliseconds(200)
  private static let maxAnswerTime = Duration.seconds(3)
  /// The minimum for a peer beyond the local network, and the minimum round trip to such a peer. A
  /// queue in a router, or an interruption of the path, takes some tenths of a second.
  private static let minAnswerTimeFarAway = Duration.seconds(1)
  private static let farAway = Duration.milliseconds(2)

  /// How long the peer has to answer a question.
  private var answerTime: Duration {
    let least = self.roundTrip < Self.farAway ? Self.minAnswerTime : Self.minAnswerTimeFarAway
    return min(max(self.firstTimeout, least), Self.maxAnswerTime)
  }

  /// Decides about a flow that is dead according to a lookup that is not proof.
  ///
  /// Only data that is sent after the change asks the peer, so the time for an answer begins when
  /// that data is sent. Without a question, a flow is not destroyed.
  ///
  /// - Parameters:
  ///   - asked: When something is known to have been sent after the change, or `nil` if nothing
  ///     was.
  ///   - reported: When the owner received the request to ask, or `nil` without one.
  ///   - question: When the owner receives the next request, or `nil` if never.
  package func ruling(
    asked: Instant?, reported: Instant? = nil, nextQuestion question: Instant? = nil,
    at now: Instant
  ) -> Ruling {
    if self.isAlive || reported != nil && self.isProbeAnswered { return .spare }
    if question == now { return .wait(until: now.advanced(by: Self.firstLookAtQuestion)) }
    guard self.hasUnacknowledgedData else {
      // Everything that was sent is acknowledged.
      if self.hasSent, self.isHeardLate { return .spare }
      if let asked, self.isProbeUnanswered {
        let end = asked.advanced(by: self.answerTime)
        return end > now ? .wait(until: end) : .destroy
      }
      if let question, question > now { return .wait(until: question) }
      if let next = Self.nextExamination(atQuestionOf: reported, after: now) {
        return .wait(until: next)
      }
      return self.isExpectedToSpeak(at: now)
        ? .wait(until: self.nextExamination(after: now)) : .drain
    }
    // Data that waits in a queue of this machine does not ask the peer.
    guard let asked else { return .wait(until: self.nextExamination(after: now)) }
    var end = asked.advanced(by: self.answerTime)
    if reported == nil { end = max(end, self.change.advanced(by: Self.activity)) }
    if end > now { return .wait(until: end) }
    // The peer sends but does not acknowledge the question: the limit of six seconds applies (E2).
    if self.isHeardLate, self.severityOfSilence(at: now) != .destroy {
      return .wait(until: self.nextQuestion(after: now, orAt: self.endOfWait()))
    }
    return .destroy
  }

  /// Whether the flow was active at the change, and has not been silent for a second since.
  private func isExpectedToSpeak(at now: Instant) -> Bool {
    self.lastHeardAfterChange >= .zero - Self.activity
      && max(self.change, self.lastHeard).duration(to: now) < Self.activity
  }

  /// Returns when to query a flow that has sent nothing since the change.
  private func nextExamination(after now: Instant) -> Instant {
    let first = self.change.advanced(by: Self.firstExamination)
    if now < first { return first }
    guard self.hasUnacknowledgedData else {
      return max(self.change, self.lastHeard).advanced(by: Self.activity)
    }
    return self.nextQuestion(after: now)
  }

  /// Returns when to check whether the owner has asked, or `nil` if it cannot ask or its time is
  /// over. The intervals double, so that a stopped owner costs little.
  private static func nextExamination(atQuestionOf reported: Instant?, after now: Instant)
    -> Instant?
  {
    guard let reported, reported.advanced(by: PeerQuestion.time) > now else { return nil }
    return min(
      now.advanced(by: max(Self.firstLookAtQuestion, reported.duration(to: now))),
      reported.advanced(by: PeerQuestion.time))
  }
}

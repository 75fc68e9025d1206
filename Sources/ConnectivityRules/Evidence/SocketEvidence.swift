package import Connectivity

/// What a flow's own socket testifies about a change of the network.
///
/// A route lookup says what the kernel would do with a packet. Netfilter, a proxy or a switch may
/// do something else with it. The socket says what became of the packets that were sent.
package struct SocketEvidence: Hashable, Sendable {
  /// When the change happened, as far as connd knows.
  package var change: Instant
  /// When the socket last heard from its peer, in whatever way.
  package var lastHeard: Instant
  /// When data came last that was new.
  package var lastData: Instant
  /// How much the peer has acknowledged, and how much when the socket was asked before.
  package var progress: UInt64
  package var progressBefore: UInt64?
  package var roundTrip: Duration
  /// How many timeouts have passed in a row.
  package var timeouts: Int
  package var hasUnacknowledgedData: Bool
  /// When the running retransmission timer expires, or `nil` if none runs.
  package var nextTimeout: Instant?

  /// - Parameters:
  ///   - progress: What the socket said of its progress before, or `nil` if it was not asked.
  ///   - now: When the kernel gave the report.
  package init(
    _ report: SocketReport, on change: Instant, after progress: UInt64? = nil, at now: Instant
  ) {
    self.change = change
    self.lastHeard = now.advanced(by: .zero - report.silence)
    self.lastData = now.advanced(by: .zero - report.dataSilence)
    self.progress = report.progress
    self.progressBefore = progress
    self.roundTrip = report.roundTrip
    self.timeouts = report.timeouts
    self.hasUnacknowledgedData = report.hasUnacknowledgedData
    self.nextTimeout = report.nextTimeout.map { now.advanced(by: $0) }
  }

  /// When the socket last heard from its peer, counted from the change: negative before it.
  package var lastHeardAfterChange: Duration { self.change.duration(to: self.lastHeard) }

  /// The kernel counts times in ticks of up to 10 ms.
  private static let tick = Duration.milliseconds(10)

  /// Whether something came later than packets that were in flight at the change can explain.
  private func isLate(_ time: Instant) -> Bool {
    self.change.duration(to: time) > self.roundTrip + Self.tick
  }

  /// Whether the peer was heard late. That alone proves nothing: a peer that hears nothing any more
  /// sends copies.
  private var isHeardLate: Bool { self.isLate(self.lastHeard) }

  /// Whether something new came late.
  package var provesAlive: Bool { self.isLate(self.lastData) || self.isAcknowledgedLate }

  private var isAcknowledgedLate: Bool {
    self.isHeardLate && self.progressBefore.map { $0 < self.progress } ?? false
  }

  /// Whether data may still come from the peer while nothing reaches it: an answer to what was sent
  /// before the change proves nothing about the way to the peer.
  private var isUnanswered: Bool {
    self.hasUnacknowledgedData && self.timeouts > 0 && !self.isAcknowledgedLate
  }
}

// MARK: - E1: spare what is alive

extension SocketEvidence {
  /// What becomes of a flow that the lookup says is dead.
  package enum Ruling: Hashable, Sendable {
    case destroy
    /// The lookup does not describe this flow.
    case spare
    /// Nothing is proved yet: ask the socket again then.
    case wait(until: Instant)
  }

  /// A flow that was silent for longer than this before the change gives no evidence.
  private static let activity = Duration.seconds(1)
  /// How long a flow may be silent after the change, at most.
  private static let patience = Duration.milliseconds(100)

  /// Whether the flow was heard shortly before the change, or since. If its own data has timed out
  /// twice, it was not alive before, although its peer repeats itself.
  package var isActive: Bool {
    guard !self.hasUnacknowledgedData || self.timeouts < 2 else { return false }
    return self.lastHeardAfterChange >= .zero - Self.activity
  }

  /// Decides about a flow that the lookup says is dead (E1).
  ///
  /// - Parameter wasSpared: The lookup was wrong about this flow before, so it is heard for longer.
  package func ruling(at now: Instant, wasSpared: Bool = false) -> Ruling {
    if self.provesAlive, !self.isUnanswered { return .spare }
    guard self.isActive else { return .destroy }
    let silence =
      wasSpared ? Self.patience : min(self.roundTrip * 2 + .milliseconds(20), Self.patience)
    if self.isHeardLate {
      // Only copies, or answers to what was sent before, if nothing was acknowledged meanwhile.
      return self.progressBefore == nil ? .wait(until: now.advanced(by: silence)) : .destroy
    }
    let end = max(self.change, self.lastHeard).advanced(by: silence)
    return end <= now ? .destroy : .wait(until: end)
  }
}

// MARK: - E2: find what is dead

extension SocketEvidence {
  /// Whether a flow may be dead although its lookup stands (E2): the peer has not acknowledged what
  /// was sent, and nothing new has come since the change.
  package var isSilent: Bool {
    self.hasUnacknowledgedData && !self.provesAlive && (self.timeouts > 0 || !self.isHeardLate)
  }

  /// What the number of timeouts means for a silent flow, or `nil` if it means nothing yet.
  ///
  /// Three timeouts in a row, which take 1.4 s and more, never occurred with a round trip of up to a
  /// second, a full queue, or a tenth of all packets lost. Two did, when the round trip jumped to a
  /// second.
  ///
  /// - Parameter isTunnelled: A VPN may take longer to move its tunnel to another uplink, and what is
  ///   inside goes on then (I5).
  package func severityOfSilence(
    at now: Instant, isTunnelled: Bool = false
  ) -> Invalidation.Severity? {
    guard self.isSilent, self.timeouts >= 2 else { return nil }
    let patience = isTunnelled ? InvalidationPolicy.tunnelGrace : .milliseconds(1400)
    let isLong = self.change.duration(to: now) >= patience
    return self.timeouts >= 3 && isLong ? .destroy : .advise
  }

  /// When to ask a silent flow again: as soon as an answer could have come to what is sent when its
  /// timer expires, but no sooner than a tenth of a second from now. The path may be back, and then
  /// that packet is the first to show it.
  package func nextQuestion(after now: Instant) -> Instant {
    let soonest = now.advanced(by: .milliseconds(100))
    let expiry = self.nextTimeout ?? now.advanced(by: .seconds(1))
    return max(soonest, expiry.advanced(by: self.roundTrip * 2 + Self.delay))
  }

  /// How much longer than its round trip an answer may take on a busy machine.
  private static let delay = Duration.milliseconds(100)

  /// How long after a change flows are first asked whether they are silent.
  package static let firstQuestion = Duration.seconds(1)
}

extension SocketTestimony {
  /// What clients are told.
  package init(_ evidence: SocketEvidence) {
    self.init(
      lastHeard: evidence.lastHeardAfterChange, roundTrip: evidence.roundTrip,
      timeouts: evidence.timeouts, hasUnacknowledgedData: evidence.hasUnacknowledgedData)
  }

  /// What a socket says without a change.
  package init(_ report: SocketReport) {
    self.init(
      lastHeard: .zero - report.silence, roundTrip: report.roundTrip, timeouts: report.timeouts,
      hasUnacknowledgedData: report.hasUnacknowledgedData)
  }
}

package import Connectivity

/// The evidence of a flow's own socket about a change of the network.
///
/// A route lookup shows what the kernel would do with a packet. Netfilter, a proxy or a switch may
/// treat it differently. The socket shows what happened to the packets that were sent.
package struct SocketEvidence: Hashable, Sendable {
  /// When the change happened, as far as connd knows.
  package var change: Instant
  /// When the socket last received anything from its peer.
  package var lastHeard: Instant
  /// When new data last arrived, and how long ago that was.
  package var lastData: Instant
  private var dataSilence: Duration
  /// How much earlier everything may have happened.
  private var uncertainty: Duration
  /// The number of sent bytes, and the number that the peer has acknowledged.
  package var sent: UInt64
  package var progress: UInt64
  /// The acknowledgement of this many bytes proves nothing. `nil` at the first query.
  package var known: UInt64?
  package var roundTrip: Duration
  /// The number of consecutive timeouts.
  package var timeouts: Int
  /// The current retransmission timeout.
  private var timeout: Duration
  /// How long the last three of them took at least, or all if there are fewer.
  private var timeoutsTook: Duration
  package var hasUnacknowledgedData: Bool
  /// Whether the peer has been silent for longer than the retransmission timeout.
  private var isLongSilent: Bool
  /// Whether anything had to be sent again since the connection was made.
  private var hasLost: Bool
  /// When the retransmission timer expires, or `nil` if it is not running.
  package var nextTimeout: Instant?

  /// - Parameters:
  ///   - known: The acknowledgement of this many bytes proves nothing: the number that was
  ///     acknowledged at the first query, or sent. `nil` if this is the first query.
  ///   - now: When the kernel gave the report.
  package init(
    _ report: SocketReport, on change: Instant, beyond known: UInt64? = nil, at now: Instant
  ) {
    self.change = change
    self.lastHeard = now.advanced(by: .zero - report.silence)
    self.lastData = now.advanced(by: .zero - report.dataSilence)
    self.dataSilence = report.dataSilence
    self.uncertainty = report.uncertainty
    (self.sent, self.progress, self.known) = (report.sent, report.progress, known)
    self.roundTrip = report.roundTrip
    self.timeouts = report.timeouts
    self.timeout = report.timeout
    self.timeoutsTook = report.timeout - report.timeout / (1 << min(report.timeouts, 3))
    self.hasUnacknowledgedData = report.hasUnacknowledgedData
    self.isLongSilent = report.silence > report.timeout
    self.hasLost = report.hasLost
    self.nextTimeout = report.nextTimeout.map { now.advanced(by: $0) }
  }

  /// When the socket last received anything, relative to the change: negative before it.
  package var lastHeardAfterChange: Duration { self.change.duration(to: self.lastHeard) }

  /// The kernel measures times in ticks of up to 10 ms.
  private static let tick = Duration.milliseconds(10)

  /// Whether something arrived too late to have been in flight at the change.
  private func isLate(_ time: Instant) -> Bool {
    self.change.duration(to: time) - self.uncertainty > self.roundTrip + Self.tick
  }

  /// Whether the peer was heard late. That alone is not proof, because a peer that receives nothing
  /// sends retransmissions.
  private var isHeardLate: Bool { self.isLate(self.lastHeard) }

  private var isAcknowledgedLate: Bool {
    self.isHeardLate && self.known.map { $0 < self.progress } ?? false
  }
}

// MARK: - E1: spare living flows

extension SocketEvidence {
  /// The decision about a flow that is dead according to its lookup.
  package enum Ruling: Hashable, Sendable {
    case destroy
    /// The lookup does not describe this flow.
    case spare
    /// Not proved yet. Query the socket again at that instant.
    case wait(until: Instant)
  }

  /// A flow that was silent for longer than this before the change gives no evidence.
  private static let activity = Duration.seconds(1)
  /// The maximum time that a flow may be silent after the change.
  private static let patience = Duration.milliseconds(100)
  /// The maximum for a flow that has lost packets on a link that works.
  private static let maxPatienceWithLoss = Duration.seconds(1)

  /// Returns how long the flow may be silent after the change. One that has lost packets may lose
  /// more, so both ends get the time of two timeouts.
  private func patience(isUrgent: Bool, wasSpared: Bool) -> Duration {
    if self.hasLost, !isUrgent { return min(self.timeout * 3, Self.maxPatienceWithLoss) }
    return wasSpared
      ? Self.patience : min(self.roundTrip * 2 + .milliseconds(20), Self.patience)
  }

  /// Whether the peer was heard shortly before the change, or since. If the flow's own data has
  /// timed out twice, it was already dead, although its peer sends retransmissions.
  package var isActive: Bool {
    guard !self.hasUnacknowledgedData || self.timeouts < 2 else { return false }
    return self.lastHeardAfterChange >= .zero - Self.activity
  }

  /// Decides about a flow that is dead according to its lookup (E1).
  ///
  /// - Parameters:
  ///   - isUrgent: Whether the flow's link may have failed. If it works, waiting costs nothing.
  ///   - wasSpared: Whether the lookup was wrong about this flow before, so that it gets more time.
  package func ruling(
    at now: Instant, isUrgent: Bool = true, wasSpared: Bool = false
  ) -> Ruling {
    if self.isAcknowledgedLate { return .spare }
    if self.isLate(self.lastData), !self.hasUnacknowledgedData { return .spare }
    let timeoutsByLoss = self.hasLost && !isUrgent ? 1 : 0
    if self.isHeardLate, self.hasUnacknowledgedData, self.timeouts <= timeoutsByLoss {
      // The peer may answer late what was sent before the change. Whether it acknowledges the rest
      // before that times out decides.
      return .wait(until: self.nextQuestion(after: now))
    }
    guard self.isActive else { return .destroy }
    let silence = self.patience(isUrgent: isUrgent, wasSpared: wasSpared)
    if self.isHeardLate {
      // If nothing was acknowledged meanwhile, these are only retransmissions or replies to earlier
      // data.
      return self.known == nil ? .wait(until: now.advanced(by: silence)) : .destroy
    }
    let end = max(self.change, self.lastHeard).advanced(by: silence)
    return end <= now ? .destroy : .wait(until: end)
  }
}

// MARK: - I2: an address of a failed link

extension SocketEvidence {
  /// Returns the severity for a flow that is registered with the address of a failed link, or `nil`
  /// if it evidently works. When the link failed is unknown, so silence counts since the last new
  /// data, or since the data began to time out (E2).
  ///
  /// - Parameters:
  ///   - evidence: The evidence of its socket about a change at this moment, or `nil` without any.
  ///   - isTunnelled: Whether its path uses a tunnel.
  package static func severityOfStranded(
    _ evidence: SocketEvidence?, at now: Instant, isTunnelled: Bool = false
  ) -> Invalidation.Severity? {
    guard var evidence else { return .advise }
    if evidence.isSilent {
      evidence.change = max(evidence.lastData, now.advanced(by: .zero - evidence.timeoutsTook))
      return evidence.severityOfSilence(at: now, isTunnelled: isTunnelled) ?? .advise
    }
    return evidence.isActive ? nil : .advise
  }
}

// MARK: - E2: find dead flows

extension SocketEvidence {
  /// Whether a flow may be dead although its lookup succeeds (E2). The peer has not acknowledged
  /// sent data, which has timed out or is about to, or has not been heard since the change.
  package var isSuspect: Bool {
    self.hasUnacknowledgedData && !self.isAcknowledgedLate
      && (self.timeouts > 0 || !self.isHeardLate || self.isLongSilent)
  }

  /// Whether nothing new has arrived at such a flow since the change, or since its data began to
  /// time out.
  package var isSilent: Bool {
    guard self.isSuspect, self.timeouts > 0 else { return self.isSuspect }
    return !self.isLate(self.lastData) || self.isDataOlderThanTimeouts
  }

  /// Whether the last new data came before the last three timeouts. If only the way to the peer is
  /// lost, the peer still sends what it had for the flow before it stops.
  private var isDataOlderThanTimeouts: Bool { self.dataSilence >= self.timeoutsTook }

  /// Returns the severity for a silent flow by its number of timeouts, or `nil` while they mean
  /// nothing.
  ///
  /// Three consecutive timeouts take 1.4 s, unless a route shortens them. They never occurred with
  /// round trips of up to a second, a full queue, or 10% packet loss. Two timeouts did occur, when
  /// the round trip jumped to a second.
  ///
  /// - Parameters:
  ///   - isTunnelled: Whether the flow is inside a tunnel. A VPN may need longer to move the tunnel
  ///     to another uplink, and then the flows inside continue (I5).
  ///   - ignored: The number of timeouts that do not count, unless there are very many.
  package func severityOfSilence(
    at now: Instant, isTunnelled: Bool = false, without ignored: Int = 0
  ) -> Invalidation.Severity? {
    let timeouts = self.timeouts < Self.certainTimeouts ? self.timeouts - ignored : self.timeouts
    guard self.isSilent, timeouts >= 2 else { return nil }
    let patience = isTunnelled ? InvalidationPolicy.tunnelGrace : .milliseconds(1400)
    let isLong = max(self.change, self.lastData).duration(to: now) >= patience
    return timeouts >= 3 && isLong ? .destroy : .advise
  }

  /// The number of consecutive timeouts of which all count.
  private static let certainTimeouts = 5

  /// Returns when to query a silent flow again. That is as soon as the peer could have acknowledged
  /// the next retransmission, but at least 100 ms from now. If the path is back, that packet is the
  /// first to show it.
  package func nextQuestion(after now: Instant) -> Instant {
    let soonest = now.advanced(by: .milliseconds(100))
    let expiry = self.nextTimeout ?? now.advanced(by: .seconds(1))
    return max(soonest, expiry.advanced(by: self.roundTrip * 2 + Self.delay))
  }

  /// The extra time that a reply may take on a busy machine.
  private static let delay = Duration.milliseconds(100)

  /// How long after a change flows are first checked for silence.
  package static let firstQuestion = Duration.seconds(1)
}

extension SocketTestimony {
  /// Creates the form that clients receive.
  package init(_ evidence: SocketEvidence) {
    self.init(
      lastHeard: evidence.lastHeardAfterChange, roundTrip: evidence.roundTrip,
      timeouts: evidence.timeouts, hasUnacknowledgedData: evidence.hasUnacknowledgedData)
  }

  /// Creates the form for a socket report without a change.
  package init(_ report: SocketReport) {
    self.init(
      lastHeard: .zero - report.silence, roundTrip: report.roundTrip, timeouts: report.timeouts,
      hasUnacknowledgedData: report.hasUnacknowledgedData)
  }
}

package import Connectivity

/// The evidence of a flow's own socket about a change of the network.
///
/// A route lookup shows what the kernel would do with a packet. Netfilter, a proxy or a switch may
/// treat the packet differently. The socket shows what happened to the packets that were sent.
package struct SocketEvidence: Hashable, Sendable {
  /// When the change happened, as far as connd knows.
  package var change: Instant
  /// When the socket last received anything from its peer.
  package var lastHeard: Instant
  /// When new data last arrived, and how long ago that was.
  package var lastData: Instant
  private var dataSilence: Duration
  /// How much earlier the reported events may have happened.
  private var uncertainty: Duration
  /// The number of sent bytes, and the number that the peer has acknowledged.
  package var sent: UInt64
  package var progress: UInt64
  /// The result of an earlier query about the change, or `nil` at the first query.
  package var known: Known?
  package var roundTrip: Duration
  /// The number of consecutive timeouts.
  package var timeouts: Int
  /// The current retransmission timeout.
  var timeout: Duration
  /// The minimum duration of the last three timeouts together, or of all if there are fewer.
  private var timeoutsTook: Duration
  /// The number of consecutive timeouts that came after the change.
  var timeoutsAfterChange: Int
  /// When the data that began to time out was first sent.
  var timesOutSince: Instant
  /// The number of segments that were sent again since the connection was made.
  package var resent: UInt64
  /// The number of segments sent, and the number received without data.
  private var segments: UInt32
  private var acknowledgements: UInt32
  /// The number of keepalive probes in a row without an answer.
  private var probes: Int
  /// Whether packets wait in a queue of this machine, so that they do not ask the peer yet.
  var isQueued: Bool
  /// Whether no segment is in flight, because the peer's window is closed.
  private var isProbing: Bool
  /// The retransmission timeout before any timeout has doubled it.
  package var firstTimeout: Duration
  package var hasUnacknowledgedData: Bool
  /// Whether the peer has been silent for longer than the retransmission timeout.
  private var isLongSilent: Bool
  /// When the retransmission timer expires, or `nil` if it is not running.
  package var nextTimeout: Instant?

  /// When the retransmission timer expired last, or `nil` if it has not.
  var lastTimeout: Instant? {
    self.timeouts > 0 ? self.nextTimeout?.advanced(by: .zero - self.timeout) : nil
  }

  /// The result of an earlier query. Later reports are compared with it.
  package struct Known: Hashable, Sendable {
    /// The number of bytes that were acknowledged or sent by then. Their acknowledgement proves
    /// nothing.
    package var progress: UInt64
    /// The number of segments that had been sent again by then.
    package var resent: UInt64
    /// The number of segments sent by then, and the number received without data.
    var segments: UInt32
    var acknowledgements: UInt32
    /// The number of keepalive probes in a row without an answer.
    var probes: Int

    /// Creates the result of the first query about a change.
    package init(progress: UInt64, _ evidence: SocketEvidence) {
      (self.progress, self.resent) = (progress, evidence.resent)
      (self.segments, self.acknowledgements) = (evidence.segments, evidence.acknowledgements)
      self.probes = evidence.probes
    }

    /// The result of a query without a report. No later counter exceeds its counters.
    static let nothing = Self(
      progress: .max, resent: .max, segments: .max, acknowledgements: .max, probes: .max)

    init(
      progress: UInt64, resent: UInt64 = 0, segments: UInt32 = 0, acknowledgements: UInt32 = 0,
      probes: Int = 0
    ) {
      (self.progress, self.resent) = (progress, resent)
      (self.segments, self.acknowledgements) = (segments, acknowledgements)
      self.probes = probes
    }
  }

  /// - Parameters:
  ///   - known: The result of an earlier query, or `nil` if this is the first one.
  ///   - now: When the kernel gave the report.
  package init(
    _ report: SocketReport, on change: Instant, beyond known: Known? = nil, at now: Instant
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
    self.timeoutsAfterChange = report.timeouts(after: change, at: now)
    self.firstTimeout = report.timeout / (1 << min(report.timeouts, 16))
    self.timesOutSince = report.timesOutSince(at: now)
    (self.resent, self.isProbing) = (report.resent, report.sent == report.progress)
    (self.segments, self.acknowledgements) = (report.segments, report.acknowledgements)
    (self.isQueued, self.probes) = (report.queued > 0, report.probes)
    self.hasUnacknowledgedData = report.hasUnacknowledgedData
    self.isLongSilent = report.silence > report.timeout
    self.nextTimeout = report.nextTimeout.map { now.advanced(by: $0) }
  }

  /// When the socket last received anything, relative to the change: negative before it.
  package var lastHeardAfterChange: Duration { self.change.duration(to: self.lastHeard) }

  /// The kernel measures times in ticks of up to 10 ms.
  private static let tick = Duration.milliseconds(10)

  /// Whether something arrived too late to have been in flight at the change.
  func isLate(_ time: Instant) -> Bool {
    self.change.duration(to: time) - self.uncertainty > self.roundTrip + Self.tick
  }

  /// Whether anything had to be sent again since the connection was made.
  var hasLost: Bool { self.resent > 0 }

  /// Whether the peer's last packet is late (``isLate(_:)``). That alone is not proof, because a
  /// peer that receives nothing sends retransmissions.
  var isHeardLate: Bool { self.isLate(self.lastHeard) }

  var isAcknowledgedLate: Bool {
    self.isHeardLate && self.known.map { $0.progress < self.progress } ?? false
  }

  /// Whether the peer sent new data after the change, and has acknowledged everything.
  package var isAnsweredSince: Bool { self.isLate(self.lastData) && !self.hasUnacknowledgedData }

  /// Whether a keepalive probe was sent after the first query, and is not answered yet (E4).
  package var isProbeUnanswered: Bool { self.known.map { $0.probes < self.probes } ?? false }

  /// Whether a keepalive probe was answered after the first query. A peer that receives nothing
  /// sends its data again, so only a segment without data counts as an answer.
  package var isProbeAnswered: Bool {
    guard let known, self.probes == 0, !self.hasUnacknowledgedData else { return false }
    return known.segments < self.segments && known.acknowledgements < self.acknowledgements
  }
}

// MARK: - I2: an address of a failed link

extension SocketEvidence {
  /// Returns the severity for a flow that is registered with the address of a failed link, or `nil`
  /// if it evidently works. The time of the failure is unknown, so silence counts from the last new
  /// data, or from when the data began to time out (E2).
  ///
  /// - Parameters:
  ///   - evidence: The evidence of the flow's socket about a change at `now`, or `nil` without any.
  ///   - isTunnelled: Whether the flow's path uses a tunnel.
  package static func severityOfStranded(
    _ evidence: SocketEvidence?, at now: Instant, isTunnelled: Bool = false
  ) -> Invalidation.Severity? {
    guard var evidence else { return .advise }
    if evidence.isSilent {
      evidence.change = max(evidence.lastData, evidence.timesOutSince)
      evidence.timeoutsAfterChange = evidence.timeouts
      return evidence.severityOfSilence(at: now, isTunnelled: isTunnelled) ?? .advise
    }
    return evidence.isActive ? nil : .advise
  }
}

// MARK: - E2: find dead flows

extension SocketEvidence {
  /// Whether a flow may be dead although its lookup succeeds (E2). The peer has not acknowledged
  /// sent data. In addition, the data has timed out or is about to, or the peer was not heard since
  /// the change.
  package var isSuspect: Bool {
    self.hasUnacknowledgedData && !self.isAcknowledgedLate
      && (self.timeouts > 0 || !self.isHeardLate || self.isLongSilent)
  }

  /// Whether a suspect flow has received nothing new since the change, or since its data began to
  /// time out.
  package var isSilent: Bool {
    guard self.isSuspect, self.timeouts > 0 else { return self.isSuspect }
    return !self.isLate(self.lastData) || self.isDataOlderThanTimeouts
  }

  /// Whether the last new data came before the last three timeouts. If only the path to the peer is
  /// lost, the peer still sends the data that it has, and then stops.
  private var isDataOlderThanTimeouts: Bool { self.dataSilence >= self.timeoutsTook }

  /// The number of timeouts after the change at which something was sent, as far as the earlier
  /// query shows. Data in a queue of this machine, for example for ARP, is not sent again, so its
  /// timeouts say nothing about the path.
  package var countedTimeouts: Int {
    let resent = self.resent - min(self.known?.resent ?? 0, self.resent)
    // Probes of a closed window never wait there for long, and do not count as sent again.
    return self.isProbing
      ? self.timeoutsAfterChange : min(self.timeoutsAfterChange, Int(clamping: resent))
  }

  /// Returns the severity for a silent flow by its counted timeouts, or `nil` while there are too
  /// few.
  ///
  /// Two timeouts occur when the round trip jumps to a second, or when the path is interrupted for
  /// a moment. Within six seconds, TCP has sent again after 0.2, 0.6, 1.4 and 3 s. If the path is
  /// back by then, the peer answers.
  ///
  /// - Parameters:
  ///   - isTunnelled: Whether the flow is inside a tunnel. A VPN may need longer to move the tunnel
  ///     to another uplink, and then the flows inside continue (I5).
  ///   - ignored: The number of timeouts that do not count, unless five in a row came after the
  ///     change.
  ///   - assumed: The number of counted timeouts until the first query. It is uncertain whether
  ///     something was sent at each, so they only lead to advice.
  ///   - contrast: Another guarded connection to the same host. Three timeouts are enough if it
  ///     shows that the host and the path work.
  package func severityOfSilence(
    at now: Instant, isTunnelled: Bool = false, without ignored: Int = 0, assumed: Int = 0,
    contrast: Contrast? = nil
  ) -> Invalidation.Severity? {
    guard self.isSilent else { return nil }
    var counted = self.countedTimeouts
    if self.timeoutsAfterChange < Self.certainTimeouts { counted = max(0, counted - ignored) }
    if counted >= 2, self.endOfWait(isTunnelled: isTunnelled) <= now { return .destroy }
    if counted >= 1, counted + assumed >= 3, contrast?.shows(self) == true { return .destroy }
    return counted + assumed >= 2 ? .advise : nil
  }

  /// Returns when a silent flow is destroyed. If the flow sends again just after that time, its
  /// answer is awaited. With a short round trip, TCP sends after 3 s and then after 6.3 s.
  package func endOfWait(isTunnelled: Bool = false) -> Instant {
    let end = max(self.change, self.lastData).advanced(
      by: isTunnelled ? InvalidationPolicy.tunnelGrace : Self.maxSilence)
    guard let nextTimeout, nextTimeout > end,
      nextTimeout <= end.advanced(by: Self.maxExtension)
    else { return end }
    return nextTimeout.advanced(by: self.roundTrip * 2 + Self.delay)
  }

  /// The maximum time after the limit at which a retransmission is still awaited.
  private static let maxExtension = Duration.milliseconds(400)

  /// How long a flow may be silent. TCP usually needs this long to recover on a path that was
  /// interrupted for up to three seconds.
  static let maxSilence = Duration.seconds(6)

  /// If at least this number of timeouts in a row came after the change, all of them count.
  private static let certainTimeouts = 5

  /// Returns when to query a silent flow again. That is as soon as the peer could have acknowledged
  /// the next retransmission, but at least 100 ms from now. If the path is back, that packet is the
  /// first to show it.
  ///
  /// - Parameter end: When the silent flow is destroyed, if enough timeouts count by then.
  package func nextQuestion(after now: Instant, orAt end: Instant? = nil) -> Instant {
    let soonest = now.advanced(by: .milliseconds(100))
    let expiry = self.nextTimeout ?? now.advanced(by: .seconds(1))
    let next = max(soonest, expiry.advanced(by: self.roundTrip * 2 + Self.delay))
    guard let end, self.countedTimeouts >= 2, end > now else { return next }
    return min(next, max(soonest, end))
  }

  /// The extra time that a reply may take on a busy machine.
  private static let delay = Duration.milliseconds(100)

  /// How long after a change flows are first checked for silence.
  package static let firstQuestion = Duration.seconds(1)
}

extension SocketTestimony {
  /// Creates the testimony that clients receive.
  package init(_ evidence: SocketEvidence) {
    self.init(
      lastHeard: evidence.lastHeardAfterChange, roundTrip: evidence.roundTrip,
      timeouts: evidence.timeouts, hasUnacknowledgedData: evidence.hasUnacknowledgedData)
  }

  /// Creates the testimony of a socket report that does not concern a change.
  package init(_ report: SocketReport) {
    self.init(
      lastHeard: .zero - report.silence, roundTrip: report.roundTrip, timeouts: report.timeouts,
      hasUnacknowledgedData: report.hasUnacknowledgedData)
  }
}

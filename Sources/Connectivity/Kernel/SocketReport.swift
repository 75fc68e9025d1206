/// The kernel's report about one TCP socket (`tcp_info` of sock_diag(7)).
///
/// Times have the resolution of the kernel's tick, which is 1 to 10 ms.
package struct SocketReport: Hashable, Sendable {
  /// The time since the last segment or acknowledgement from the peer. Retransmissions count, too:
  /// a peer also sends them when it no longer receives anything.
  package var silence: Duration
  /// The time since the last new data.
  package var dataSilence: Duration
  /// The number of bytes that the peer has acknowledged. If it grows, both directions work.
  package var progress: UInt64
  /// The number of bytes that were sent, whether or not the peer has acknowledged them.
  package var sent: UInt64
  /// The smoothed round-trip time.
  package var roundTrip: Duration
  /// The number of consecutive timeouts without an answer. While data is in flight, it is the
  /// larger of `tcpi_retransmits` and `tcpi_backoff`, because ICMP errors decrease the latter (RFC
  /// 6069). If no data is in flight, because the peer's window is closed or a route is missing, it
  /// is `tcpi_probes`.
  package var timeouts: Int
  /// The current retransmission timeout. Each of the consecutive timeouts has doubled it, up to
  /// Linux's `tcp_rto_max_ms` (RFC 6298). The first timeout is often 200 ms, but a route may
  /// shorten it.
  package var timeout: Duration
  /// Whether the peer has yet to acknowledge data or a FIN, sent or still to be sent.
  package var hasUnacknowledgedData: Bool
  /// The number of retransmitted segments since the connection was made. A timeout may pass without
  /// a retransmission while the segment waits in a queue of this machine.
  package var resent: UInt64
  /// The number of segments that were sent since the connection was made, acknowledgements and
  /// keepalive probes included (`tcpi_segs_out`).
  package var segments: UInt32
  /// The number of keepalive probes in a row without an answer, while everything is acknowledged.
  package var probes: Int
  /// The number of segments without data that were received: acknowledgements and keepalive probes.
  package var acknowledgements: UInt32
  /// The memory in bytes of packets that wait in a queue of this machine: for a MAC address, or for
  /// a link.
  package var queued: UInt32
  /// The time until the retransmission timer expires, or `nil` if it is not running.
  package var nextTimeout: Duration?
  /// The user of the socket, or `nil` if unknown.
  package var owner: UInt32?
  /// The maximum time between the kernel's report and the reading of the clock that followed it.
  package var uncertainty = Duration.zero

  /// - Parameters:
  ///   - inFlight: The number of bytes that were sent and not acknowledged.
  ///   - timeout: The default is Linux's value after that many timeouts.
  package init(
    silence: Duration, dataSilence: Duration? = nil, progress: UInt64 = 0, inFlight: UInt64 = 0,
    roundTrip: Duration, timeouts: Int = 0, timeout: Duration? = nil,
    hasUnacknowledgedData: Bool = false, resent: UInt64 = 0, segments: UInt32 = 0,
    probes: Int = 0, acknowledgements: UInt32 = 0, queued: UInt32 = 0, nextTimeout: Duration? = nil,
    owner: UInt32? = nil
  ) {
    self.silence = silence
    self.dataSilence = dataSilence ?? silence
    self.progress = progress
    // In a damaged recording, the numbers may be so large that their sum overflows.
    self.sent = progress &+ inFlight
    self.roundTrip = roundTrip
    self.timeouts = timeouts
    self.timeout = timeout ?? .milliseconds(200) * (1 << min(timeouts, 16))
    self.hasUnacknowledgedData = hasUnacknowledgedData
    (self.resent, self.segments, self.probes) = (resent, segments, probes)
    (self.acknowledgements, self.queued) = (acknowledgements, queued)
    self.nextTimeout = nextTimeout
    self.owner = owner
  }
}

extension Destination {
  /// Whether the destination names exactly one local TCP socket: both addresses and both ports.
  package var namesSocket: Bool {
    guard let transport, self.source != nil else { return false }
    return transport.number == Transport.tcp && transport.localPort != 0
      && transport.remotePort != 0
  }
}

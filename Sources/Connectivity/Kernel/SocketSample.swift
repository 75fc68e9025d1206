/// The state of one TCP or UDP socket at one moment, for a diagnosis (`inet_diag_msg` and
/// `tcp_info` of sock_diag(7)).
package struct SocketSample: Hashable, Sendable {
  /// The kernel's number of the socket, which no other socket ever has.
  package var cookie: UInt64
  /// The inode number, or 0 if no process has the socket open.
  package var inode: UInt64
  package var user: UInt32
  package var source: IPAddress
  package var sourcePort: UInt16
  package var host: IPAddress
  package var port: UInt16
  /// The index of the link that the socket is bound to, or 0.
  package var link: UInt32
  /// The number of received bytes that the program has not read.
  package var unread: UInt32
  /// The number of bytes that the peer has not acknowledged, sent or not.
  package var queued: UInt32
  /// The timer that is running (`idiag_timer`).
  package var timer: UInt8
  /// The state of the connection, or `nil` for UDP.
  package var tcp: TCPState?

  package init(
    cookie: UInt64, inode: UInt64, user: UInt32, source: IPAddress, sourcePort: UInt16,
    host: IPAddress, port: UInt16, link: UInt32 = 0, unread: UInt32 = 0, queued: UInt32 = 0,
    timer: UInt8 = 0, tcp: TCPState? = nil
  ) {
    (self.cookie, self.inode, self.user) = (cookie, inode, user)
    (self.source, self.sourcePort, self.host, self.port) = (source, sourcePort, host, port)
    self.link = link
    (self.unread, self.queued, self.timer, self.tcp) = (unread, queued, timer, tcp)
  }

  /// The fields of `tcp_info` that a diagnosis needs. Times have the resolution of the kernel's
  /// tick.
  package struct TCPState: Hashable, Sendable {
    /// Whether the connection waits for the answer to its SYN.
    package var isConnecting: Bool
    /// The number of timeouts in a row (`tcpi_retransmits`).
    package var timeouts: UInt8
    /// How often the running timer has doubled (`tcpi_backoff`).
    package var backoff: UInt8
    /// The number of segments in flight (`tcpi_unacked`).
    package var inFlight: UInt32
    /// The number of retransmitted segments in flight (`tcpi_retrans`).
    package var sentAgain: UInt32
    /// The number of segments that were sent again since the connection began.
    package var resent: UInt32
    /// The number of segments received since the connection began.
    package var received: UInt32
    /// The number of bytes that were never sent.
    package var unsent: UInt32
    package var segmentSize: UInt32
    /// The window that the peer advertises, in bytes, or `nil` before Linux 5.4.
    package var window: UInt32?
    package var timeout: Duration
    /// The time since the last data or acknowledgement from the peer.
    package var silence: Duration

    package init(
      isConnecting: Bool = false, timeouts: UInt8 = 0, backoff: UInt8 = 0, inFlight: UInt32 = 0,
      sentAgain: UInt32 = 0, resent: UInt32 = 0, received: UInt32 = 0, unsent: UInt32 = 0,
      segmentSize: UInt32 = 1448, window: UInt32? = 65_535, timeout: Duration = .milliseconds(200),
      silence: Duration = .zero
    ) {
      (self.isConnecting, self.timeouts, self.backoff) = (isConnecting, timeouts, backoff)
      (self.inFlight, self.sentAgain, self.resent) = (inFlight, sentAgain, resent)
      (self.received, self.unsent, self.segmentSize) = (received, unsent, segmentSize)
      (self.window, self.timeout, self.silence) = (window, timeout, silence)
    }
  }

  /// `idiag_timer` while a probe of the peer's window is due.
  package static let probeTimer: UInt8 = 4
}

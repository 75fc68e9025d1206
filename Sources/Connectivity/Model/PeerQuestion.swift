/// How the owner of a connection can ask its peer for a sign of life (E4). Neither needs a
/// privilege, and the program on the other end sees nothing.
package enum PeerQuestion: UInt8, Hashable, Sendable, CaseIterable {
  /// The owner cannot ask.
  case none
  /// By a keepalive probe of TCP. The kernel sends it once the socket has been idle for a second
  /// (tcp(7), `TCP_KEEPIDLE`).
  case keepalive
  /// By a PING of HTTP/2 (RFC 9113, section 6.7), or by a keepalive probe.
  case ping

  /// How long connd waits for the question to be sent. A socket has been idle for a second by then,
  /// and an owner that is slower may be stopped.
  package static let time = Duration.seconds(3)
}

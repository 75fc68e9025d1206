/// How the owner of a connection can ask its peer for a sign of life (E4). Neither method needs
/// privileges, and the peer's program does not notice either.
package enum PeerQuestion: UInt8, Hashable, Sendable, CaseIterable {
  /// The owner cannot ask.
  case none
  /// The owner asks with a TCP keepalive probe. The kernel sends it once the socket has been idle
  /// for a second (tcp(7), `TCP_KEEPIDLE`).
  case keepalive
  /// The owner asks with an HTTP/2 PING (RFC 9113, section 6.7) or a keepalive probe.
  case ping

  /// How long connd waits for the owner to ask. A socket has been idle for a second by then, and a
  /// slower owner may be a stopped process.
  package static let time = Duration.seconds(3)
}

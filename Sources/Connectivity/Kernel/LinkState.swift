/// The ability of a link to pass traffic.
package enum LinkState: String, Hashable, Sendable, CaseIterable {
  /// Administratively down.
  case down
  /// Administratively up, but nothing is at the other end.
  case noCarrier
  /// The link has carrier but waits for something: 802.1X, the Wi-Fi handshake, a modem that has
  /// not dialled, or a bridge's spanning tree.
  case dormant
  /// Traffic can pass.
  case up
}

/// Whether a link carries traffic.
package enum LinkState: String, Hashable, Sendable, CaseIterable {
  /// Administratively down.
  case down
  /// Administratively up, but nothing is at the other end.
  case noCarrier
  /// It has a carrier and waits for something: 802.1X, the Wi-Fi handshake, a modem that has not
  /// dialled, or a bridge's spanning tree.
  case dormant
  /// It carries traffic.
  case up
}

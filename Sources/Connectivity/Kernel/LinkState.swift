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

/// A device behind a link that looks like a cable and shares the device's own network.
package struct Via: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// A phone that is tethered by USB.
    case phone
  }

  package var kind: Kind
  /// Whether it may be another device that announces itself the same way.
  package var isGuess: Bool

  package init(_ kind: Kind, isGuess: Bool) {
    self.kind = kind
    self.isGuess = isGuess
  }
}

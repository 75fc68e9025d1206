/// Whether traffic is metered: the five states of NetworkManager (`NMMetered`).
package enum Metering: String, Hashable, Sendable, CaseIterable {
  case unknown
  /// Reported by a reliable source.
  case yes, no
  /// Guessed by the source.
  case guessYes, guessNo
}

/// Whether a path is metered, and according to which source.
package struct CostEvidence: Hashable, Sendable {
  /// The sources, most trusted first.
  package enum Source: String, Hashable, Sendable, CaseIterable {
    case configuration
    /// A user's override.
    case user
    case networkManager
    /// The medium, for example cellular.
    case medium
    /// The network cost element of the Wi-Fi access point.
    case accessPoint
    /// A driver that only phones use, or a USB interface that phones and other devices use.
    case driver
    /// A DHCP lease.
    case dhcp
    /// The tunnel's cost before its uplink was lost, used while the underlay is unknown.
    case lastKnown
    /// No source has an answer.
    case none
  }

  package var state: Metering
  package var source: Source

  package init(_ state: Metering, _ source: Source) {
    self.state = state
    self.source = source
  }
}

/// Whether traffic is metered: the five states of NetworkManager (`NMMetered`).
///
/// Implements rule I8.
package enum Metering: String, Hashable, Sendable, CaseIterable {
  case unknown
  /// A reliable source says so.
  case yes, no
  /// There is only an indication.
  case guessYes, guessNo
}

/// Whether a path is metered, and according to which source.
package struct CostEvidence: Hashable, Sendable {
  /// The most trusted source comes first.
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
    /// The tunnel's cost before its uplink was lost, while nothing is known below it.
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

  /// Whether the path counts as metered. A guess from a device's USB interface does not count,
  /// because it would keep programs from an unmetered network. A guess of NetworkManager counts,
  /// because a phone, a modem or an access point caused it.
  package var isExpensive: Bool {
    self.state == .yes || self.state == .guessYes && self.source == .networkManager
  }
}

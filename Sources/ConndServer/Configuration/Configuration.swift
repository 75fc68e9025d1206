package import Connectivity
package import ConnectivityRules

/// The settings of the configuration file. Keys that the file does not contain have the defaults
/// given here.
package struct Configuration: Hashable, Sendable {
  /// The path of the Unix socket, or `nil` for the default that depends on user and environment.
  package var socket: String?
  /// The probes that represent "the internet". They are looked up, never contacted.
  package var destinations = DefaultDestination.spread
  /// The address family that decides a tie in the summary (K7).
  package var prefer: AddressFamily = .ipv4
  /// The rules for links. The first match wins.
  package var links = LinkPolicy()
  /// The grace periods of lost paths (`grace`), and the severities of invalidations
  /// (`invalidations`).
  package var invalidations = InvalidationPolicy()
  /// Whether local users may learn which Wi-Fi networks were joined.
  package var identify: Identification = .shown
  /// The limits on what clients may use.
  package var limits = Limits()
  /// The text that the configuration was read from.
  package var source = Source()

  package init() {}

  /// The text that a configuration was read from, for recordings. It does not take part in
  /// comparisons.
  package struct Source: Hashable, Sendable {
    package var text = ""
    /// One warning for each key that no longer has an effect.
    package var warnings: [String] = []

    package static func == (lhs: Self, rhs: Self) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
  }

  /// Returns the keys that a running connd cannot apply. Their new values take effect at the next
  /// start.
  func keysForNextStart(of running: Configuration) -> [String] {
    var keys: [String] = []
    if self.socket != running.socket { keys.append("socket") }
    if self.limits.streamsPerConnection != running.limits.streamsPerConnection {
      keys.append("limits.streamsPerConnection")
    }
    if self.limits.messageSize != running.limits.messageSize { keys.append("limits.messageSize") }
    return keys
  }
}

/// The names of joined networks that local users may learn. They reveal where the user is.
package enum Identification: String, Hashable, Sendable, CaseIterable {
  /// The names of networks and access points.
  case shown
  /// No names.
  case hidden
}

extension DefaultDestination {
  /// Addresses far apart in the address space that are unlikely to have a host route: none belongs
  /// to a resolver or a test network.
  static let spread = DefaultDestination(
    ipv4: ["17.0.0.1", "98.128.0.1", "193.0.0.1"].compactMap { IPAddress($0) },
    ipv6: ["2001:500::1", "2620::1", "2a00:1::1"].compactMap { IPAddress($0) })
}

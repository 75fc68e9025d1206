package import Connectivity
package import ConnectivityRules

/// What connd is told by its configuration file; what the file does not say has the value it has here.
package struct Configuration: Hashable, Sendable {
  /// The path of the Unix socket; `nil`: the default for the user and the environment.
  package var socket: String?
  /// The probes that stand for "the internet": looked up, never contacted.
  package var destinations = DefaultDestination.spread
  /// The family that the summary follows at a tie (K7).
  package var prefer: AddressFamily = .ipv4
  /// What is said about links; the first match wins.
  package var links = LinkPolicy()
  /// How long a lost path may take to come back (`grace`), and what is done to connections otherwise (`invalidations`).
  package var invalidations = InvalidationPolicy()
  /// From when on a link flaps, and for how long its gains are held back then (T1).
  package var flaps = FlapPolicy()
  /// Whether local users who ask are told which Wi-Fi networks were joined.
  package var identify: Identification = .shown
  /// How much clients may take.
  package var limits = Limits()
  /// What it was read from.
  package var source = Source()

  package init() {}

  /// The text that a configuration was read from, for recordings. Two configurations that say the same are the same.
  package struct Source: Hashable, Sendable {
    package var text = ""

    package static func == (lhs: Self, rhs: Self) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
  }

  /// The keys that a running connd cannot follow: what they say now holds from its next start.
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

/// What a local user who asks is told of the networks that were joined: their names tell where somebody is.
package enum Identification: String, Hashable, Sendable, CaseIterable {
  /// Their names, and those of their access points.
  case shown
  /// Neither.
  case hidden
}

extension DefaultDestination {
  /// Addresses far apart in the address space, none of which anybody gives a host route: no resolver, no test network.
  static let spread = DefaultDestination(
    ipv4: ["17.0.0.1", "98.128.0.1", "193.0.0.1"].compactMap { IPAddress($0) },
    ipv6: ["2001:500::1", "2620::1", "2a00:1::1"].compactMap { IPAddress($0) })
}

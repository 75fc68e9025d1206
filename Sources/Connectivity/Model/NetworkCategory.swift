/// The kind of network that traffic uses, derived from the flags and the medium.
@nonexhaustive public enum NetworkCategory: String, Hashable, Sendable, CaseIterable {
  /// No traffic can leave the machine: `none` in connctl's output.
  case offline = "none"
  case wifi
  case cellular
  case wired
  /// Reachable by another medium, for example a tunnel.
  case other
  /// The kernel cannot be queried. Applications should assume that they are online (K8).
  case unknown

  /// Creates the category of rule K1. The flags decide between offline, cellular and the rest; the
  /// medium divides the rest.
  public init(_ flags: ReachabilityFlags, medium: NetworkMedium) {
    guard flags.reachable, !flags.connectionRequired else {
      self = .offline
      return
    }
    self = flags.isWWAN ? .cellular : medium.traits.category
  }

  /// The category in the terms of gRPC on iOS, in which everything that is not cellular is Wi-Fi.
  public var threeWay: ThreeWayCategory {
    switch self {
    case .offline: .offline
    case .cellular: .cellular
    case .wifi, .wired, .other: .wifi
    case .unknown: .unknown
    }
  }

  /// Whether an application should expect to reach the network. True for `unknown` (K8).
  public var isOnline: Bool { self != .offline }
}

/// The three categories of gRPC's `ConnectivityMonitor`, and `unknown` if the kernel cannot be
/// queried.
public enum ThreeWayCategory: String, Hashable, Sendable, CaseIterable {
  case offline = "none"
  case wifi
  case cellular
  case unknown
}

/// The reachability flags that determine the category, named as in `SCNetworkReachability`.
public struct ReachabilityFlags: Hashable, Sendable {
  /// Whether the kernel has a unicast route to the default destination (K2).
  public var reachable: Bool
  /// Whether there is a path, but no traffic passes until a connection is established (K3).
  public var connectionRequired: Bool
  /// Whether the medium of the path's lowest link is cellular (K4).
  public var isWWAN: Bool

  package init(reachable: Bool, connectionRequired: Bool, isWWAN: Bool) {
    self.reachable = reachable
    self.connectionRequired = connectionRequired
    self.isWWAN = isWWAN
  }

  /// Creates the flags of a path.
  public init(_ path: KernelPath) {
    let reachable = path.status == .satisfied || path.status == .requiresConnection
    self.init(
      reachable: reachable,
      connectionRequired: path.status == .requiresConnection,
      isWWAN: reachable && path.medium == .cellular)
  }
}

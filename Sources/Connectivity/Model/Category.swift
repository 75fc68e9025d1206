/// What the flags and the medium add up to: the answer to "by which kind of network does the traffic leave?".
public enum Category: String, Hashable, Sendable, CaseIterable {
  /// No traffic leaves.
  case none
  case wifi
  case cellular
  case wired
  /// Reachable by a medium that is none of the others: a tunnel, Bluetooth, one that nobody can place.
  case other
  /// The kernel cannot be asked. Applications should assume that they are online (K8).
  case unknown

  /// The category of rule K1: the flags decide between none, cellular and the rest, the medium divides the rest.
  public init(_ flags: ReachabilityFlags, medium: Medium) {
    guard flags.reachable, !flags.connectionRequired else {
      self = .none
      return
    }
    if flags.isWWAN {
      self = .cellular
      return
    }
    switch medium {
    case .wifi: self = .wifi
    case .wired: self = .wired
    case .cellular, .bluetooth, .loopback, .tunnel, .unknown: self = .other
    }
  }

  /// The view of gRPC on iOS, where whatever is not cellular is Wi-Fi.
  public var threeWay: ThreeWayCategory {
    switch self {
    case .none: .none
    case .cellular: .cellular
    case .wifi, .wired, .other: .wifi
    case .unknown: .unknown
    }
  }

  /// Whether an application should expect to reach the network: `unknown` counts (K8).
  public var isOnline: Bool { self != .none }
}

/// The three categories of gRPC's `ConnectivityMonitor`, and `unknown` where the kernel cannot be asked.
public enum ThreeWayCategory: String, Hashable, Sendable, CaseIterable {
  case none
  case wifi
  case cellular
  case unknown
}

/// The reachability flags that the category is made of, named as in `SCNetworkReachability`.
public struct ReachabilityFlags: Hashable, Sendable {
  /// The kernel has a unicast route to the default destination (K2).
  public var reachable: Bool
  /// There is a path, but it carries nothing before a connection is established (K3).
  public var connectionRequired: Bool
  /// The medium at the bottom of the path is cellular (K4).
  public var isWWAN: Bool

  public init(reachable: Bool, connectionRequired: Bool, isWWAN: Bool) {
    self.reachable = reachable
    self.connectionRequired = connectionRequired
    self.isWWAN = isWWAN
  }

  /// The flags of a path.
  public init(_ path: Path) {
    let reachable = path.status == .satisfied || path.status == .requiresConnection
    self.init(
      reachable: reachable,
      connectionRequired: path.status == .requiresConnection,
      isWWAN: reachable && path.medium == .cellular)
  }
}

/// What carries a path at the bottom.
@nonexhaustive public enum Medium: String, Hashable, Sendable, CaseIterable {
  case wired
  case wifi
  case cellular
  case bluetooth
  case loopback
  /// A tunnel with nothing known below it.
  case tunnel
  case unknown
}

/// Why connd takes a link for what it does: which source of rule K5 spoke, and what it said.
public struct Evidence: Hashable, Sendable {
  /// The sources of rule K5, the most trusted first.
  @nonexhaustive public enum Source: String, Hashable, Sendable, CaseIterable {
    /// The configuration's `links`.
    case configuration
    /// `IFLA_INFO_KIND`
    case kind
    /// The ARPHRD type.
    case hardwareType
    /// `DEVTYPE` in the link's sysfs `uevent`.
    case deviceType
    /// A `phy80211` in the link's sysfs directory.
    case phy80211
    /// What nl80211 says.
    case nl80211
    /// ModemManager says that the link is a modem's.
    case modemManager
    /// The name of the driver that the device is bound to.
    case driver
    /// A prefix of the name that one medium is known by.
    case name
    /// Nothing spoke.
    case none
  }

  public var source: Source
  /// What the source said, as it said it: `wlan`, `qmi_wwan`, `wwan*`.
  public var value: String
  public var medium: Medium

  public init(_ source: Source, _ value: String, _ medium: Medium) {
    self.source = source
    self.value = value
    self.medium = medium
  }
}

/// The system's connectivity at one moment: both paths and their summary (K7).
public struct ConnectivityStatus: Hashable, Sendable {
  public var category: NetworkCategory
  /// The flags of the summary's path.
  public var flags: ReachabilityFlags
  /// The family that the summary follows.
  public var family: AddressFamily
  public var ipv4: KernelPath
  public var ipv6: KernelPath

  /// Creates the summary of two paths.
  ///
  /// The better path decides. Satisfied is better than requiresConnection, which is better than
  /// unsatisfied. If both are satisfied, a path with a unique local source address is worse. In a
  /// tie `preferred` decides.
  public init(ipv4: KernelPath, ipv6: KernelPath, preferred: AddressFamily) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
    let (first, second) = preferred == .ipv4 ? (ipv4, ipv6) : (ipv6, ipv4)
    let other: AddressFamily = preferred == .ipv4 ? .ipv6 : .ipv4
    self.family = second.rank > first.rank ? other : preferred
    let path = self.family == .ipv4 ? ipv4 : ipv6
    self.flags = ReachabilityFlags(path)
    self.category =
      path.status == .unknown ? .unknown : NetworkCategory(self.flags, medium: path.medium)
  }

  /// The path of a family.
  public subscript(family: AddressFamily) -> KernelPath {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }

  /// The path that the summary follows.
  public var path: KernelPath { self[self.family] }
  /// The outgoing link of the summary's path, or `nil` if it has none.
  public var interface: String? { self.path.interface }
  /// The medium of the lowest link of the summary's path.
  public var medium: NetworkMedium { self.path.medium }
  /// Whether sending on the summary's path costs money, or `nil` if unknown.
  public var isExpensive: Bool? { self.path.isExpensive }
  package var isMetered: Bool { self.path.isMetered }
  /// Whether programs should save data on the summary's path.
  public var isConstrained: Bool { self.path.isConstrained }
}

extension KernelPath {
  /// The order of rule K7. An unknown path in one family does not cast doubt on the other.
  fileprivate var rank: Int {
    switch self.status {
    case .satisfied: self.source?.isUniqueLocal ?? false ? 3 : 4
    case .requiresConnection: 2
    case .unknown: 1
    case .unsatisfied: 0
    }
  }
}

/// A status as it was published.
public struct ConnectivitySnapshot: Hashable, Sendable {
  /// The generation of the last published change.
  public var generation: UInt64
  /// When the category took this value, or last bounced.
  public var since: WallTime
  public var status: ConnectivityStatus
  /// The DNS configuration, or `nil` if unknown.
  public var dns: DNSSettings?

  package init(
    generation: UInt64, since: WallTime, status: ConnectivityStatus, dns: DNSSettings? = nil
  ) {
    self.generation = generation
    self.since = since
    self.status = status
    self.dns = dns
  }

  /// Updates the state for a change.
  public mutating func apply(_ change: ConnectivityChange) {
    if let snapshot = change.snapshot { self = snapshot }
    if case .dns(let change) = change { self.dns = change.settings }
    self.generation = change.generation
  }
}

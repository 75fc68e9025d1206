public import Connectivity

/// The networks that traffic uses at one moment, for the system or to one destination.
///
/// Named after `NWPath`. A value is complete and immutable, and values with equal content are
/// equal.
///
/// The system has a path in each family, and the summary follows the better one. Satisfied is
/// better than requiresConnection, which is better than unsatisfied. In a tie it follows the family
/// that connd is configured to prefer (K7). A single destination has a path only in its own family.
public struct NetworkPath: Hashable, Sendable {
  /// The kind of network that traffic uses, from the flags and the medium of the path that the
  /// summary follows (K1).
  public let category: NetworkCategory
  /// The IPv4 path, or `nil` if unknown or the destination is an IPv6 address.
  public let ipv4: KernelPath?
  /// The IPv6 path, or `nil` if unknown or the destination is an IPv4 address.
  public let ipv6: KernelPath?
  /// The family that the summary follows.
  public let family: AddressFamily
  /// The DNS configuration, or `nil` if unknown or one destination is followed.
  public let dns: DNSSettings?
  /// Why the application may not use the network, by its own rules, or `nil` if it may. If set, the
  /// status is unsatisfied.
  public let refusal: NetworkUnavailableError?

  /// The system's connectivity.
  public init(_ status: ConnectivityStatus, dns: DNSSettings? = nil) {
    self.dns = dns
    self.refusal = nil
    self.category = status.category
    self.ipv4 = status.ipv4.status == .unknown ? nil : status.ipv4
    self.ipv6 = status.ipv6.status == .unknown ? nil : status.ipv6
    // All unknown values must be equal, so drop the preference.
    self.family = self.ipv4 == nil && self.ipv6 == nil ? .ipv4 : status.family
  }

  /// The path to a destination.
  ///
  /// - Parameters:
  ///   - path: The kernel's path.
  ///   - family: The family of the destination.
  public init(_ path: KernelPath, family: AddressFamily) {
    (self.dns, self.refusal) = (nil, nil)
    let known = path.status == .unknown ? nil : path
    self.category =
      known.map { NetworkCategory(ReachabilityFlags($0), medium: $0.medium) } ?? .unknown
    self.ipv4 = family == .ipv4 ? known : nil
    self.ipv6 = family == .ipv6 ? known : nil
    self.family = known == nil ? .ipv4 : family
  }

  /// An unknown path: connd is not running, or cannot query the kernel. It counts as online (K8).
  public static let unknown = NetworkPath(.unknown, family: .ipv4)

  /// An unsatisfied path without a reason or a link. A ``PathMonitor`` yields it between two paths
  /// if a bounce was too short to read the state in between (T2).
  public static let interrupted = NetworkPath(
    ConnectivityStatus(
      ipv4: KernelPath(status: .unsatisfied), ipv6: KernelPath(status: .unsatisfied),
      preferred: .ipv4))
}

extension NetworkPath {
  /// Returns the path for an application that may not use every network. A forbidden path becomes
  /// unsatisfied.
  package func limited(to access: NetworkAccess) -> NetworkPath {
    let paths = self.paths
    let refusals = paths.map { access.refusal(of: $0) }
    guard let refusal = refusals.lazy.compactMap({ $0 }).first else { return self }
    func allowed(_ path: KernelPath?) -> KernelPath? {
      path.map { access.refusal(of: $0) == nil ? $0 : KernelPath(status: .unsatisfied) }
    }
    return NetworkPath(ipv4: allowed(self.ipv4), ipv6: allowed(self.ipv6), of: self, refusal)
  }

  /// - Parameter refusal: The reason why a path is left out.
  private init(
    ipv4: KernelPath?, ipv6: KernelPath?, of path: NetworkPath, _ refusal: NetworkUnavailableError
  ) {
    let none = KernelPath(status: .unsatisfied)
    // An unknown family must not make the refused path count as unknown.
    let status = ConnectivityStatus(
      ipv4: ipv4 ?? none, ipv6: ipv6 ?? none, preferred: path.family)
    (self.ipv4, self.ipv6, self.dns) = (ipv4, ipv6, path.dns)
    (self.category, self.family) = (status.category, status.family)
    self.refusal = status.path.status == .satisfied ? nil : refusal
  }
}

extension NetworkPath {
  /// Returns whether a ``PathMonitor`` reports the path after `other`. Only the properties that are
  /// listed here count.
  package func isNew(after other: NetworkPath) -> Bool {
    func isNew(_ path: KernelPath?, after other: KernelPath?) -> Bool {
      guard let path, let other else { return path != nil || other != nil }
      return path.isNew(after: other)
    }
    return self.category != other.category || self.family != other.family
      || self.dns != other.dns || self.refusal?.reason != other.refusal?.reason
      || isNew(self.ipv4, after: other.ipv4) || isNew(self.ipv6, after: other.ipv6)
  }
}

// Properties of the path that the summary follows.
extension NetworkPath {
  /// Whether traffic can flow.
  public var status: KernelPath.Status { self.path?.status ?? .unknown }
  /// Why traffic cannot flow, or `nil` if it can or the reason is unknown.
  public var unsatisfiedReason: KernelPath.Reason? { self.path?.reason }
  /// Whether the network is expected to be reachable. Also true if unknown (K8).
  public var isOnline: Bool { self.category.isOnline }
  /// Whether sending costs money, as on a cellular network or a phone's hotspot, or `nil` if
  /// unknown.
  public var isExpensive: Bool? { self.path?.isExpensive }
  /// Whether programs should save data.
  public var isConstrained: Bool { self.path?.isConstrained ?? false }

  /// How far programs should save data. It is `ultra` for 2G and for satellite links.
  public var constraint: ConstraintLevel { self.path?.constraint ?? .unconstrained }
  /// The medium of the lowest link of the path, or `unknown` without a path.
  public var medium: NetworkMedium { self.path?.medium ?? .unknown }
  /// The name of the outgoing link, the top of a stack, or `nil` without a path. Also set if the
  /// path passes no traffic until a connection is established.
  public var interface: String? { self.path?.interface }

  private var path: KernelPath? { self.family == .ipv4 ? self.ipv4 : self.ipv6 }
}

// Properties of the paths of both families.
extension NetworkPath {
  /// Whether IPv4 traffic can flow. `false` if unknown: before giving up, check ``isOnline``.
  public var supportsIPv4: Bool { self.ipv4?.status == .satisfied }
  /// Whether IPv6 traffic can flow. `false` if unknown: before giving up, check ``isOnline``.
  public var supportsIPv6: Bool { self.ipv6?.status == .satisfied }

  /// Whether this machine has DNS servers. Equals ``isOnline`` if the servers are unknown.
  public var supportsDNS: Bool { self.dns.map { !$0.servers.isEmpty } ?? self.isOnline }

  /// Whether traffic flows over a path with this medium at the lowest link.
  public func usesMedium(_ medium: NetworkMedium) -> Bool {
    self.carrying.contains { $0.medium == medium }
  }

  /// The outgoing links, in order of preference: one, or one for each family if they differ. The
  /// name of the first is ``interface``.
  public var links: [Link] { Self.distinct(self.paths.map(Link.init)) }

  /// An outgoing link.
  public struct Link: Hashable, Sendable {
    public var name: String
    /// The interface index, which distinguishes links that had the same name at different times. 0
    /// if unknown.
    public var index: UInt32
    /// The medium of the lowest link below this one: Wi-Fi for a VPN over Wi-Fi.
    public var medium: NetworkMedium

    fileprivate init?(_ path: KernelPath) {
      guard let link = path.chain.first else { return nil }
      (self.name, self.index, self.medium) = (link.name, link.index, path.medium)
    }
  }

  /// The gateways in use, in order of preference. Empty if no traffic flows, or none needs a
  /// gateway.
  public var gateways: [IPAddress] { Self.distinct(self.carrying.map(\.gateway)) }
  /// The source addresses that the kernel uses, in order of preference. Empty if no traffic flows.
  public var localAddresses: [IPAddress] { Self.distinct(self.carrying.map(\.source)) }

  /// The paths, beginning with the one that the summary follows.
  private var paths: [KernelPath] {
    (self.family == .ipv4 ? [self.ipv4, self.ipv6] : [self.ipv6, self.ipv4]).compactMap { $0 }
  }

  private var carrying: [KernelPath] { self.paths.filter { $0.status == .satisfied } }

  private static func distinct<Element: Equatable>(_ elements: [Element?]) -> [Element] {
    elements.reduce(into: []) { distinct, element in
      if let element, !distinct.contains(element) { distinct.append(element) }
    }
  }
}

extension NetworkPath: CustomStringConvertible {
  /// For logs: `satisfied, wifi by wlan0, ipv4, ipv6, expensive`.
  public var description: String {
    var parts = [self.status.rawValue]
    if let reason = self.unsatisfiedReason { parts.append(reason.rawValue) }
    if let refusal = self.refusal { parts.append("\(refusal)") }
    if let interface = self.interface { parts.append("\(self.medium.rawValue) by \(interface)") }
    if self.supportsIPv4 { parts.append("ipv4") }
    if self.supportsIPv6 { parts.append("ipv6") }
    if self.isExpensive == true { parts.append("expensive") }
    if self.isConstrained {
      parts.append(self.constraint == .ultra ? "ultra-constrained" : "constrained")
    }
    return parts.joined(separator: ", ")
  }
}

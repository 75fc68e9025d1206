public import Connectivity

/// By which networks traffic goes at one moment: the system's, or that to one destination.
///
/// Named as `NWPath` is. A value is complete and does not change; two that say the same are equal.
///
/// The system has a path in each family, and the summary follows the better one: satisfied before
/// requiresConnection before unsatisfied, at a tie the family that connd is configured to prefer (K7). One
/// destination has a path in its own family only.
public struct NetworkPath: Hashable, Sendable {
  /// By which kind of network traffic leaves: the flags and the medium of the path that the summary follows (K1).
  public let category: Category
  /// The path in IPv4; `nil` where it is not known, or the destination is an IPv6 address.
  public let ipv4: Path?
  /// The path in IPv6; `nil` where it is not known, or the destination is an IPv4 address.
  public let ipv6: Path?
  /// The family that the summary follows.
  public let family: AddressFamily
  /// Whom this machine asks for names; `nil` where it is not known, and where one destination is followed.
  public let dns: DNSSettings?
  /// Why the application may not use the network that there is, where it said which it may use: then the status is unsatisfied.
  public let refusal: NetworkUnavailable?

  /// The system's connectivity.
  public init(_ status: ConnectivityStatus, dns: DNSSettings? = nil) {
    self.dns = dns
    self.refusal = nil
    self.category = status.category
    self.ipv4 = status.ipv4.status == .unknown ? nil : status.ipv4
    self.ipv6 = status.ipv6.status == .unknown ? nil : status.ipv6
    // Where nothing is known there is nothing to prefer: all such values are equal.
    self.family = self.ipv4 == nil && self.ipv6 == nil ? .ipv4 : status.family
  }

  /// The path to a destination.
  ///
  /// - Parameter family: The destination's.
  public init(_ path: Path, family: AddressFamily) {
    (self.dns, self.refusal) = (nil, nil)
    let known = path.status == .unknown ? nil : path
    self.category =
      known.map { Category(ReachabilityFlags($0), medium: $0.medium) } ?? .unknown
    self.ipv4 = family == .ipv4 ? known : nil
    self.ipv6 = family == .ipv6 ? known : nil
    self.family = known == nil ? .ipv4 : family
  }

  /// Nobody knows: connd is not there, or cannot ask the kernel. It counts as online (K8).
  public static let unknown = NetworkPath(.unknown, family: .ipv4)

  /// What a ``PathMonitor`` tells where the path went and came back before anybody could read what it was meanwhile
  /// (T2): unsatisfied, for no reason that is known, and by no link.
  public static let interrupted = NetworkPath(
    ConnectivityStatus(
      ipv4: Path(status: .unsatisfied), ipv6: Path(status: .unsatisfied), preferred: .ipv4))
}

extension NetworkPath {
  /// The same for an application that may not use every network: a path that it may not use is none.
  func limited(to access: NetworkAccess) -> NetworkPath {
    let paths = self.paths
    let refusals = paths.map { access.refusal(of: $0) }
    guard let refusal = refusals.lazy.compactMap({ $0 }).first else { return self }
    func allowed(_ path: Path?) -> Path? {
      path.map { access.refusal(of: $0) == nil ? $0 : Path(status: .unsatisfied) }
    }
    return NetworkPath(ipv4: allowed(self.ipv4), ipv6: allowed(self.ipv6), of: self, refusal)
  }

  /// - Parameter refusal: Of a path that is left out.
  private init(
    ipv4: Path?, ipv6: Path?, of path: NetworkPath, _ refusal: NetworkUnavailable
  ) {
    let none = Path(status: .unsatisfied)
    // A family of which nothing is known is no reason to take what is refused for unknown.
    let status = ConnectivityStatus(
      ipv4: ipv4 ?? none, ipv6: ipv6 ?? none, preferred: path.family)
    (self.ipv4, self.ipv6, self.dns) = (ipv4, ipv6, path.dns)
    (self.category, self.family) = (status.category, status.family)
    self.refusal = status.path.status == .satisfied ? nil : refusal
  }
}

// What the summary's path says.
extension NetworkPath {
  /// Whether traffic flows.
  public var status: Path.Status { self.path?.status ?? .unknown }
  /// Why it does not; `nil` where it does, and where the reason is not known.
  public var unsatisfiedReason: Path.Reason? { self.path?.reason }
  /// Whether to expect that the network can be reached: also where nobody knows (K8).
  public var isOnline: Bool { self.category.isOnline }
  /// Whether it costs money to send: a cellular network, a telephone's hotspot.
  public var isExpensive: Bool { self.path?.isExpensive ?? false }
  /// Whether the user asked to save data.
  public var isConstrained: Bool { self.path?.isConstrained ?? false }
  /// What carries the path at the bottom; `unknown` where there is no path.
  public var medium: Medium { self.path?.medium ?? .unknown }
  /// The name of the link that traffic leaves by, the top of a stack; `nil` where there is none. Also where the path
  /// carries nothing before a connection is established.
  public var interface: String? { self.path?.interface }

  private var path: Path? { self.family == .ipv4 ? self.ipv4 : self.ipv6 }
}

// What the paths of both families say.
extension NetworkPath {
  /// Whether IPv4 traffic flows. Where nobody knows it is `false`: before giving up, look at ``isOnline``.
  public var supportsIPv4: Bool { self.ipv4?.status == .satisfied }
  /// Whether IPv6 traffic flows. Where nobody knows it is `false`: before giving up, look at ``isOnline``.
  public var supportsIPv6: Bool { self.ipv6?.status == .satisfied }

  /// Whether this machine has somebody to ask for names. Where nobody knows it is ``isOnline``.
  public var supportsDNS: Bool { self.dns.map { !$0.servers.isEmpty } ?? self.isOnline }

  /// Whether traffic of a family flows that this medium carries at the bottom.
  public func usesMedium(_ medium: Medium) -> Bool {
    self.carrying.contains { $0.medium == medium }
  }

  /// The names of the links that traffic leaves by, in order of preference: one, or one for each family where they
  /// differ. The first is ``interface``.
  public var interfaces: [String] { Self.distinct(self.paths.map(\.interface)) }
  /// The gateways that traffic goes to, in order of preference. Empty where no traffic flows, or needs none.
  public var gateways: [IPAddress] { Self.distinct(self.carrying.map(\.gateway)) }
  /// The source addresses that the kernel takes, in order of preference. Empty where no traffic flows.
  public var localAddresses: [IPAddress] { Self.distinct(self.carrying.map(\.source)) }

  /// The one that the summary follows first.
  private var paths: [Path] {
    (self.family == .ipv4 ? [self.ipv4, self.ipv6] : [self.ipv6, self.ipv4]).compactMap { $0 }
  }

  private var carrying: [Path] { self.paths.filter { $0.status == .satisfied } }

  private static func distinct<Element: Equatable>(_ elements: [Element?]) -> [Element] {
    elements.reduce(into: []) { distinct, element in
      if let element, !distinct.contains(element) { distinct.append(element) }
    }
  }
}

extension NetworkPath: CustomStringConvertible {
  /// For logs: `satisfied, wifi by wlan0, ipv4, ipv6, expensive`.
  public var description: String {
    var words = [self.status.rawValue]
    if let reason = self.unsatisfiedReason { words.append(reason.rawValue) }
    if let refusal = self.refusal { words.append("\(refusal)") }
    if let interface = self.interface { words.append("\(self.medium.rawValue) by \(interface)") }
    if self.supportsIPv4 { words.append("ipv4") }
    if self.supportsIPv6 { words.append("ipv6") }
    if self.isExpensive { words.append("expensive") }
    if self.isConstrained { words.append("constrained") }
    return words.joined(separator: ", ")
  }
}

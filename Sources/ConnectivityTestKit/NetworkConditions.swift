public import Connectivity

/// A network of a simulated machine, and its current condition.
///
/// ```swift
/// network.become(.wifi)
/// network.become(.wifi.named("another"))      // the same interface and addresses, another router
/// network.become(.wifi.expensive())           // a phone's hotspot
/// network.become(.cellular.constrained())     // Low Data Mode
/// network.become(.wifi.failing(.noCarrier))   // between two access points
/// network.become(.none)
/// ```
public struct NetworkConditions: Hashable, Sendable {
  /// The name that distinguishes the network from others on the same interface, like an SSID or a
  /// router's MAC address.
  public var name: String
  public var medium: NetworkMedium
  /// The link to the network. Two networks on the same interface cannot exist at the same time.
  public var interface: String
  /// The attachment in IPv4, or `nil` if the network has no IPv4.
  public var ipv4: Attachment?
  /// The attachment in IPv6, or `nil` if the network has no IPv6.
  public var ipv6: Attachment?
  /// Whether sending costs money, or `nil` if unknown, as with many VPNs.
  public var isExpensive: Bool?
  /// How far programs should save data.
  public var constraint: ConstraintLevel
  /// Why no traffic flows although the network exists, or `nil` if traffic flows.
  public var reason: KernelPath.Reason?

  let kind: Kind

  enum Kind: Hashable {
    case network
    case none
    case unknown
  }

  /// Creates a network of any kind. A network without addresses passes no traffic.
  public init(
    name: String, medium: NetworkMedium, interface: String, ipv4: Attachment? = nil,
    ipv6: Attachment? = nil, isExpensive: Bool? = false,
    constraint: ConstraintLevel = .unconstrained,
    reason: KernelPath.Reason? = nil
  ) {
    self.name = name
    self.medium = medium
    self.interface = interface
    self.ipv4 = ipv4
    self.ipv6 = ipv6
    self.isExpensive = isExpensive
    self.constraint = constraint
    self.reason = reason
    self.kind = .network
  }

  private init(_ kind: Kind) {
    self.name = ""
    self.medium = .unknown
    self.interface = ""
    self.isExpensive = false
    self.constraint = .unconstrained
    self.kind = kind
  }

  /// The machine's attachment to a network in one family.
  public struct Attachment: Hashable, Sendable {
    /// The machine's own address.
    public var source: IPAddress
    /// The prefix length of the subnet of `source`, in bits.
    public var prefixLength: Int
    /// The gateway, or `nil` if all destinations are on the link.
    public var gateway: IPAddress?

    public init(source: IPAddress, prefixLength: Int, gateway: IPAddress? = nil) {
      self.source = source
      self.prefixLength = prefixLength
      self.gateway = gateway
    }

    /// Creates an attachment from the syntax of `ip address add`: `Attachment("192.0.2.7/24",
    /// gateway: "192.0.2.1")`. Returns `nil` if it is invalid.
    public init?(_ address: String, gateway: String? = nil) {
      let parts = address.split(separator: "/", omittingEmptySubsequences: false)
      guard parts.count == 2, let source = IPAddress(String(parts[0])),
        let length = Int(parts[1]), (0...source.family.bitWidth).contains(length)
      else { return nil }
      var router: IPAddress?
      if let gateway {
        guard let address = IPAddress(gateway) else { return nil }
        router = address
      }
      self.init(source: source, prefixLength: length, gateway: router)
    }

    var prefix: IPPrefix? { IPPrefix(self.source, length: self.prefixLength) }
  }
}

// MARK: - Networks

extension NetworkConditions {
  /// Wi-Fi on `wlan0`, with both families.
  public static let wifi = NetworkConditions(
    name: "wifi", medium: .wifi, interface: "wlan0",
    ipv4: Attachment("192.0.2.7/24", gateway: "192.0.2.1"),
    ipv6: Attachment("2001:db8:1::7/64", gateway: "fe80::1"))

  /// A modem on `wwan0`, with both families. It costs money.
  public static let cellular = NetworkConditions(
    name: "cellular", medium: .cellular, interface: "wwan0",
    ipv4: Attachment("198.51.100.7/24", gateway: "198.51.100.1"),
    ipv6: Attachment("2001:db8:2::7/64", gateway: "fe80::2"), isExpensive: true)

  /// Ethernet on `eth0`, with both families.
  public static let wired = NetworkConditions(
    name: "wired", medium: .wired, interface: "eth0",
    ipv4: Attachment("203.0.113.7/24", gateway: "203.0.113.1"),
    ipv6: Attachment("2001:db8:3::7/64", gateway: "fe80::3"))

  /// No network: all links are down.
  public static let none = NetworkConditions(.none)

  /// The kernel cannot be queried, so the network is unknown (K8).
  public static let unknown = NetworkConditions(.unknown)
}

// MARK: - Variations

extension NetworkConditions {
  /// Returns another network of the same kind, with the same interface and addresses.
  public func named(_ name: String) -> Self { self.with { $0.name = name } }

  /// Returns the network on another interface.
  public func on(_ interface: String) -> Self { self.with { $0.interface = interface } }

  /// Returns the network with other addresses. A family without an attachment is missing.
  public func addressed(ipv4: Attachment? = nil, ipv6: Attachment? = nil) -> Self {
    self.with { ($0.ipv4, $0.ipv6) = (ipv4, ipv6) }
  }

  /// Returns the network with a cost: a phone's hotspot.
  public func expensive(_ isExpensive: Bool? = true) -> Self {
    self.with { $0.isExpensive = isExpensive }
  }

  /// Returns the network with the user's request to save data: Low Data Mode.
  public func constrained(_ isConstrained: Bool = true) -> Self {
    self.with { $0.constraint = isConstrained ? .constrained : .unconstrained }
  }

  /// Returns the network with a link that carries very little: satellite or 2G.
  public func ultraConstrained() -> Self { self.with { $0.constraint = .ultra } }

  /// Returns the network without traffic.
  ///
  /// `noCarrier` is a Wi-Fi link between two access points, and `dormant` is such a link before its
  /// handshake is finished. `noRoute` is a network without a default route, and `noSourceAddress`
  /// is a network that has assigned no address yet. With `unreachable`, `prohibited` and
  /// `blackhole` the default route discards traffic. For `noCarrier` and `noRoute`, connd expects a
  /// recovery, so it advises before it destroys (I10).
  public func failing(_ reason: KernelPath.Reason) -> Self { self.with { $0.reason = reason } }

  private func with(_ change: (inout Self) -> Void) -> Self {
    var copy = self
    change(&copy)
    return copy
  }

  subscript(family: AddressFamily) -> Attachment? {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }
}

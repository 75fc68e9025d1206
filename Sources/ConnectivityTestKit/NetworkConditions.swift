public import Connectivity

/// A network that a simulated machine is on, and how it fares there.
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
  /// What tells the network from others on the same interface, as an SSID or a router's hardware address does.
  public var name: String
  public var medium: Medium
  /// The link that leads into it. Networks on the same interface are not there at the same time.
  public var interface: String
  /// `nil`: there is no IPv4 on this network.
  public var ipv4: Attachment?
  /// `nil`: there is no IPv6 on this network.
  public var ipv6: Attachment?
  /// Sending costs money.
  public var isExpensive: Bool
  /// The user asked to save data.
  public var isConstrained: Bool
  /// Why no traffic flows although the network is there; `nil`: it flows.
  public var reason: Path.Reason?

  let kind: Kind

  enum Kind: Hashable {
    case network
    case none
    case unknown
  }

  /// A network of any kind; where it has no addresses, nothing is sent by it.
  public init(
    name: String, medium: Medium, interface: String, ipv4: Attachment? = nil,
    ipv6: Attachment? = nil, isExpensive: Bool = false, isConstrained: Bool = false,
    reason: Path.Reason? = nil
  ) {
    self.name = name
    self.medium = medium
    self.interface = interface
    self.ipv4 = ipv4
    self.ipv6 = ipv6
    self.isExpensive = isExpensive
    self.isConstrained = isConstrained
    self.reason = reason
    self.kind = .network
  }

  private init(_ kind: Kind) {
    self.name = ""
    self.medium = .unknown
    self.interface = ""
    self.isExpensive = false
    self.isConstrained = false
    self.kind = kind
  }

  /// How the machine is attached to a network in one family.
  public struct Attachment: Hashable, Sendable {
    /// The machine's own address.
    public var source: IPAddress
    /// The length of the subnet that it is in, in bits.
    public var prefixLength: Int
    /// `nil`: all that goes by the network is on the link.
    public var gateway: IPAddress?

    public init(source: IPAddress, prefixLength: Int, gateway: IPAddress? = nil) {
      self.source = source
      self.prefixLength = prefixLength
      self.gateway = gateway
    }

    /// As `ip address add` takes it: `Attachment("192.0.2.7/24", gateway: "192.0.2.1")`; `nil` for what is none.
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
  /// Wi-Fi by `wlan0`, in both families.
  public static let wifi = NetworkConditions(
    name: "wifi", medium: .wifi, interface: "wlan0",
    ipv4: Attachment("192.0.2.7/24", gateway: "192.0.2.1"),
    ipv6: Attachment("2001:db8:1::7/64", gateway: "fe80::1"))

  /// A modem by `wwan0`, in both families; it costs money.
  public static let cellular = NetworkConditions(
    name: "cellular", medium: .cellular, interface: "wwan0",
    ipv4: Attachment("198.51.100.7/24", gateway: "198.51.100.1"),
    ipv6: Attachment("2001:db8:2::7/64", gateway: "fe80::2"), isExpensive: true)

  /// A cable by `eth0`, in both families.
  public static let wired = NetworkConditions(
    name: "wired", medium: .wired, interface: "eth0",
    ipv4: Attachment("203.0.113.7/24", gateway: "203.0.113.1"),
    ipv6: Attachment("2001:db8:3::7/64", gateway: "fe80::3"))

  /// No network: all links are down.
  public static let none = NetworkConditions(.none)

  /// The kernel cannot be asked: nobody knows (K8).
  public static let unknown = NetworkConditions(.unknown)
}

// MARK: - Variations

extension NetworkConditions {
  /// Another network of the same kind: the interface and the addresses are the same.
  public func named(_ name: String) -> Self { self.with { $0.name = name } }

  /// The same by another interface.
  public func on(_ interface: String) -> Self { self.with { $0.interface = interface } }

  /// The same with other addresses; a family that is not given, it has not.
  public func addressed(ipv4: Attachment? = nil, ipv6: Attachment? = nil) -> Self {
    self.with { ($0.ipv4, $0.ipv6) = (ipv4, ipv6) }
  }

  /// It costs money: a phone's hotspot.
  public func expensive(_ isExpensive: Bool = true) -> Self {
    self.with { $0.isExpensive = isExpensive }
  }

  /// The user asked to save data: Low Data Mode.
  public func constrained(_ isConstrained: Bool = true) -> Self {
    self.with { $0.isConstrained = isConstrained }
  }

  /// It is there, and no traffic flows.
  ///
  /// `noCarrier` is a Wi-Fi between two access points, `dormant` one before its handshake is finished, `noRoute` a
  /// network whose default route is missing, `noSourceAddress` one that gave no address yet, `unreachable`,
  /// `prohibited` and `blackhole` one whose default route says so. Of the first and of `noRoute` connd expects that
  /// it comes back, and advises before it destroys (I10).
  public func failing(_ reason: Path.Reason) -> Self { self.with { $0.reason = reason } }

  private func with(_ change: (inout Self) -> Void) -> Self {
    var copy = self
    change(&copy)
    return copy
  }

  subscript(family: AddressFamily) -> Attachment? {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }
}

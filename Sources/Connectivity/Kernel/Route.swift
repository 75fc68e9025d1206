/// What a lookup asks: the way to an address, for a user's or a mark's traffic.
public struct Destination: Hashable, Sendable {
  public var address: IPAddress
  /// The user whose `ip rule … uidrange` hold. The kernel would take connd's own for want of one, which means nothing to
  /// anybody else: where no user is meant, it is root.
  public var uid: UInt32
  /// The mark (`SO_MARK`) whose `ip rule … fwmark` hold; 0 for none.
  public var mark: UInt32
  /// The source address of the traffic, whose `ip rule … from` hold; `nil`: the kernel chooses it.
  public var source: IPAddress?
  /// The index of the link that the traffic is bound to (`SO_BINDTODEVICE`); `nil` for any.
  public var outLink: UInt32?
  /// Whose `ip rule … ipproto`, `sport` and `dport` hold, and by which one of several nexthops is chosen; `nil` where no
  /// single connection is meant.
  public var transport: Transport?

  public init(
    _ address: IPAddress, uid: UInt32 = 0, mark: UInt32 = 0, source: IPAddress? = nil,
    outLink: UInt32? = nil, transport: Transport? = nil
  ) {
    self.address = address
    self.uid = uid
    self.mark = mark
    self.source = source
    self.outLink = outLink
    self.transport = transport
  }
}

/// What tells one connection between two addresses from another.
public struct Transport: Hashable, Sendable {
  /// The protocol, by its number at IANA: 6 for TCP, 17 for UDP.
  public var number: UInt8
  /// 0 where it is not known.
  public var localPort: UInt16
  /// 0 where it is not known.
  public var remotePort: UInt16

  public init(_ number: UInt8, localPort: UInt16 = 0, remotePort: UInt16 = 0) {
    self.number = number
    self.localPort = localPort
    self.remotePort = remotePort
  }
}

/// The route that the kernel takes to a destination.
public struct Route: Hashable, Sendable {
  /// `RTN_*` of rtnetlink(7), those that carry traffic.
  public enum Kind: Hashable, Sendable {
    case unicast
    /// To this system itself.
    case local
    /// Broadcast, multicast, anycast.
    case other
  }

  public var kind: Kind
  /// The index of the link that the traffic leaves by.
  public var outLink: UInt32
  /// `nil` where the destination is on the link. An IPv4 route may have an IPv6 one (RFC 5549).
  public var gateway: IPAddress?
  /// The source address that the kernel would take.
  public var source: IPAddress?
  /// The routing table that answered: 254 is main.
  public var table: UInt32

  public init(
    kind: Kind = .unicast, outLink: UInt32, gateway: IPAddress? = nil, source: IPAddress? = nil,
    table: UInt32 = 254
  ) {
    self.kind = kind
    self.outLink = outLink
    self.gateway = gateway
    self.source = source
    self.table = table
  }
}

/// What tells one entry of the routing tables from another: by it the removal of just that route is recognised.
public struct MatchedRoute: Hashable, Sendable {
  public var prefix: IPPrefix
  public var table: UInt32
  /// The metric.
  public var priority: UInt32
  /// The nexthop object that it uses, if any.
  public var nexthop: UInt32?

  public init(prefix: IPPrefix, table: UInt32, priority: UInt32, nexthop: UInt32? = nil) {
    self.prefix = prefix
    self.table = table
    self.priority = priority
    self.nexthop = nexthop
  }
}

/// The entry of the routing tables that decides about a destination.
public struct RouteEntry: Hashable, Sendable {
  public var route: MatchedRoute
  public var kind: Route.Kind
  /// The index of the link that it leads to, of a local route that of the link that has the address; `nil` where it has
  /// several.
  public var outLink: UInt32?
  /// The indexes of the links that traffic is spread over, where there are several.
  public var legs: [UInt32]
  /// The kernel made it itself, for an address (`RTPROT_KERNEL`).
  public var isKernels: Bool

  public init(
    _ route: MatchedRoute, kind: Route.Kind = .unicast, outLink: UInt32? = nil,
    legs: [UInt32] = [], isKernels: Bool = false
  ) {
    self.route = route
    self.kind = kind
    self.outLink = outLink
    self.legs = legs
    self.isKernels = isKernels
  }
}

/// What the kernel says about the way to a destination.
public enum RouteAnswer: Hashable, Sendable {
  case route(Route)
  /// No route that carries traffic, and why not.
  case noRoute(Path.Reason)
}

/// An address of a link.
public struct Address: Hashable, Sendable {
  public var address: IPAddress
  /// Of the subnet that the address is in, in bits.
  public var prefixLength: Int
  /// The index of the link.
  public var link: UInt32
  public var flags: AddressFlags

  public init(
    _ address: IPAddress, prefixLength: Int, link: UInt32, flags: AddressFlags = []
  ) {
    self.address = address
    self.prefixLength = prefixLength
    self.link = link
    self.flags = flags
  }
}

/// `IFA_F_*` of rtnetlink(7), the ones that matter here.
public struct AddressFlags: OptionSet, Hashable, Sendable {
  public var rawValue: UInt32

  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// An IPv6 privacy address (RFC 8981).
  public static let temporary = AddressFlags(rawValue: 0x01)
  /// Usable although it may still turn out a duplicate (RFC 4429).
  public static let optimistic = AddressFlags(rawValue: 0x04)
  /// Somebody else has it (`IFA_F_DADFAILED`).
  public static let duplicate = AddressFlags(rawValue: 0x08)
  /// Usable, but not for new connections.
  public static let deprecated = AddressFlags(rawValue: 0x20)
  /// Not usable before it is known to be no duplicate (RFC 4862).
  public static let tentative = AddressFlags(rawValue: 0x40)
}

/// What a lookup asks: the way to an address, for a user's or a mark's traffic.
package struct Destination: Hashable, Sendable {
  package var address: IPAddress
  /// The user whose `ip rule … uidrange` hold. The kernel would take connd's own for want of one, which means nothing to
  /// anybody else: where no user is meant, it is root.
  package var uid: UInt32
  /// The mark (`SO_MARK`) whose `ip rule … fwmark` hold; 0 for none.
  package var mark: UInt32
  /// The source address of the traffic, whose `ip rule … from` hold; `nil`: the kernel chooses it.
  package var source: IPAddress?
  /// The index of the link that the traffic is bound to (`SO_BINDTODEVICE`); `nil` for any.
  package var outLink: UInt32?
  /// Whose `ip rule … ipproto`, `sport` and `dport` hold, and by which one of several nexthops is chosen; `nil` where no
  /// single connection is meant.
  package var transport: Transport?

  package init(
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
package struct Transport: Hashable, Sendable {
  /// The protocol, by its number at IANA: 6 for TCP, 17 for UDP.
  package var number: UInt8
  /// 0 where it is not known.
  package var localPort: UInt16
  /// 0 where it is not known.
  package var remotePort: UInt16

  package init(_ number: UInt8, localPort: UInt16 = 0, remotePort: UInt16 = 0) {
    self.number = number
    self.localPort = localPort
    self.remotePort = remotePort
  }

  /// The protocols' numbers at IANA.
  package static let tcp: UInt8 = 6
  package static let udp: UInt8 = 17
}

/// The route that the kernel takes to a destination.
package struct Route: Hashable, Sendable {
  /// `RTN_*` of rtnetlink(7), those that carry traffic.
  package enum Kind: Hashable, Sendable {
    case unicast
    /// To this system itself.
    case local
    /// Broadcast, multicast, anycast.
    case other
  }

  package var kind: Kind
  /// The index of the link that the traffic leaves by.
  package var outLink: UInt32
  /// `nil` where the destination is on the link. An IPv4 route may have an IPv6 one (RFC 5549).
  package var gateway: IPAddress?
  /// The source address that the kernel would take.
  package var source: IPAddress?
  /// The routing table that answered: 254 is main.
  package var table: UInt32

  package init(
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
package struct MatchedRoute: Hashable, Sendable {
  package var prefix: IPPrefix
  package var table: UInt32
  /// The metric.
  package var priority: UInt32
  /// The nexthop object that it uses, if any.
  package var nexthop: UInt32?

  package init(prefix: IPPrefix, table: UInt32, priority: UInt32, nexthop: UInt32? = nil) {
    self.prefix = prefix
    self.table = table
    self.priority = priority
    self.nexthop = nexthop
  }
}

/// The entry of the routing tables that decides about a destination.
package struct RouteEntry: Hashable, Sendable {
  /// `nil` if the entry has more nexthops than an answer of the kernel holds: it is not shown then.
  package var route: MatchedRoute?
  package var kind: Route.Kind
  /// The index of the link that it leads to, of a local route that of the link that has the address; `nil` where it has
  /// several.
  package var outLink: UInt32?
  /// The indexes of the links that traffic is spread over, where there are several.
  package var legs: [UInt32]
  /// The kernel made it itself, for an address (`RTPROT_KERNEL`).
  package var isKernels: Bool
  /// The source address that somebody has set (`src`); `nil` where the kernel chooses.
  package var source: IPAddress?

  package init(
    _ route: MatchedRoute?, kind: Route.Kind = .unicast, outLink: UInt32? = nil,
    legs: [UInt32] = [], isKernels: Bool = false, source: IPAddress? = nil
  ) {
    self.route = route
    self.kind = kind
    self.outLink = outLink
    self.legs = legs
    self.isKernels = isKernels
    self.source = source
  }

  /// An entry with more nexthops than an answer of the kernel holds.
  package static let oversized = RouteEntry(nil)

  /// Whether traffic is spread over several nexthops.
  package var isSpread: Bool { self.route == nil || self.legs.count > 1 }
}

/// What the kernel says about the way to a destination.
package enum RouteAnswer: Hashable, Sendable {
  case route(Route)
  /// No route that carries traffic, and why not.
  case noRoute(Path.Reason)
  /// The kernel refuses this question with an error that says nothing about the way.
  case unanswered(String)
}

extension RouteAnswer {
  /// Whether the kernel has refused the question.
  package var isUnanswered: Bool { if case .unanswered = self { true } else { false } }
}

/// An address of a link.
package struct Address: Hashable, Sendable {
  package var address: IPAddress
  /// Of the subnet that the address is in, in bits.
  package var prefixLength: Int
  /// The index of the link.
  package var link: UInt32
  package var flags: AddressFlags

  package init(
    _ address: IPAddress, prefixLength: Int, link: UInt32, flags: AddressFlags = []
  ) {
    self.address = address
    self.prefixLength = prefixLength
    self.link = link
    self.flags = flags
  }
}

/// `IFA_F_*` of rtnetlink(7), the ones that matter here.
package struct AddressFlags: OptionSet, Hashable, Sendable {
  package var rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// An IPv6 privacy address (RFC 8981).
  package static let temporary = AddressFlags(rawValue: 0x01)
  /// Usable although it may still turn out a duplicate (RFC 4429).
  package static let optimistic = AddressFlags(rawValue: 0x04)
  /// Somebody else has it (`IFA_F_DADFAILED`).
  package static let duplicate = AddressFlags(rawValue: 0x08)
  /// Usable, but not for new connections.
  package static let deprecated = AddressFlags(rawValue: 0x20)
  /// Not usable before it is known to be no duplicate (RFC 4862).
  package static let tentative = AddressFlags(rawValue: 0x40)
}

/// The key of a route lookup: an address, and properties of the traffic such as user and mark.
package struct Destination: Hashable, Sendable {
  package var address: IPAddress
  /// The user for `ip rule … uidrange`, or root if no user is meant. Without a user, the kernel
  /// would use connd's own uid, which is meaningless for other processes.
  package var uid: UInt32
  /// The mark (`SO_MARK`) for `ip rule … fwmark`; 0 means none.
  package var mark: UInt32
  /// The source address for `ip rule … from`, or `nil` if the kernel chooses it.
  package var source: IPAddress?
  /// The index of the link that the traffic is bound to (`SO_BINDTODEVICE`), or `nil` for any.
  package var outLink: UInt32?
  /// The protocol and ports for `ip rule … ipproto`, `sport` and `dport`, which also select one of
  /// several nexthops. `nil` if no single connection is meant.
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

/// The properties that distinguish connections between the same two addresses.
package struct Transport: Hashable, Sendable {
  /// The protocol's IANA number: 6 for TCP, 17 for UDP.
  package var number: UInt8
  /// The port, or 0 if unknown.
  package var localPort: UInt16
  /// The port, or 0 if unknown.
  package var remotePort: UInt16

  package init(_ number: UInt8, localPort: UInt16 = 0, remotePort: UInt16 = 0) {
    self.number = number
    self.localPort = localPort
    self.remotePort = remotePort
  }

  /// The IANA numbers of the protocols.
  package static let tcp: UInt8 = 6
  package static let udp: UInt8 = 17
}

/// The route that the kernel uses for a destination.
package struct Route: Hashable, Sendable {
  /// The values of `RTN_*` in rtnetlink(7) for routes that pass traffic.
  package enum Kind: Hashable, Sendable {
    case unicast
    /// A route to this machine itself.
    case local
    /// Broadcast, multicast, anycast.
    case other
  }

  package var kind: Kind
  /// The index of the outgoing link.
  package var outLink: UInt32
  /// `nil` if the destination is on the link. An IPv4 route may have an IPv6 gateway (RFC 5549).
  package var gateway: IPAddress?
  /// The source address that the kernel would use.
  package var source: IPAddress?
  /// The routing table that answered: 254 is main.
  package var table: UInt32
  /// Boxed, because routes are copied often and few encapsulate.
  private let boxedOuter: BoxedDestination?

  /// The destination of the encapsulated packets (`RTA_ENCAP`), or `nil` if the route does not
  /// encapsulate.
  package var outer: Destination? { self.boxedOuter?.destination }

  package init(
    kind: Kind = .unicast, outLink: UInt32, gateway: IPAddress? = nil, source: IPAddress? = nil,
    table: UInt32 = 254, outer: Destination? = nil
  ) {
    self.kind = kind
    self.outLink = outLink
    self.gateway = gateway
    self.source = source
    self.table = table
    self.boxedOuter = outer.map(BoxedDestination.destination)
  }
}

private indirect enum BoxedDestination: Hashable, Sendable {
  case destination(Destination)

  var destination: Destination {
    switch self {
    case .destination(let destination): destination
    }
  }
}

/// The key of a routing table entry. It identifies the route in the message about its removal.
package struct MatchedRoute: Hashable, Sendable {
  package var prefix: IPPrefix
  package var table: UInt32
  /// The metric.
  package var priority: UInt32
  /// The nexthop object that the route uses, if any.
  package var nexthop: UInt32?

  package init(prefix: IPPrefix, table: UInt32, priority: UInt32, nexthop: UInt32? = nil) {
    self.prefix = prefix
    self.table = table
    self.priority = priority
    self.nexthop = nexthop
  }
}

/// The routing table entry that determines the route to a destination.
package struct RouteEntry: Hashable, Sendable {
  /// The key, or `nil` if the entry has more nexthops than fit into an answer: the kernel then does
  /// not return the entry.
  package var route: MatchedRoute?
  package var kind: Route.Kind
  /// The index of the outgoing link; for a local route, of the link with the address. `nil` if
  /// there are several.
  package var outLink: UInt32?
  /// The indexes of the links of a multipath route, or empty.
  package var legs: [UInt32]
  /// Whether the kernel created the entry for an address (`RTPROT_KERNEL`).
  package var isKernels: Bool
  /// The source address set in the route (`src`), or `nil` if the kernel chooses it.
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

  /// An entry with more nexthops than fit into an answer of the kernel.
  package static let oversized = RouteEntry(nil)

  /// Whether traffic is spread over several nexthops.
  package var isSpread: Bool { self.route == nil || self.legs.count > 1 }
}

/// The kernel's answer for a destination.
package enum RouteAnswer: Hashable, Sendable {
  case route(Route)
  /// No route passes the traffic, for this reason.
  case noRoute(KernelPath.Reason)
  /// The kernel rejected the query with an error that is unrelated to the route.
  case unanswered(String)
}

extension RouteAnswer {
  /// Whether the kernel rejected the query.
  package var isUnanswered: Bool { if case .unanswered = self { true } else { false } }
}

/// An address of a link.
package struct Address: Hashable, Sendable {
  package var address: IPAddress
  /// The prefix length of its subnet, in bits.
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

/// `IFA_F_*` of rtnetlink(7), as far as needed.
package struct AddressFlags: OptionSet, Hashable, Sendable {
  package var rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// An IPv6 privacy address (RFC 8981).
  package static let temporary = AddressFlags(rawValue: 0x01)
  /// Usable, although it may still turn out to be a duplicate (RFC 4429).
  package static let optimistic = AddressFlags(rawValue: 0x04)
  /// Another host has the address (`IFA_F_DADFAILED`).
  package static let duplicate = AddressFlags(rawValue: 0x08)
  /// Usable, but not for new connections.
  package static let deprecated = AddressFlags(rawValue: 0x20)
  /// Not usable until duplicate address detection has finished (RFC 4862).
  package static let tentative = AddressFlags(rawValue: 0x40)
}

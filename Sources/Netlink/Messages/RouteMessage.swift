import CLinux
import Connectivity
import Glibc

/// The contents of an RTM_NEWROUTE or RTM_DELROUTE, notification or answer. A class, because a
/// struct of this size would be expensive to copy.
final class RouteMessage {
  private(set) var prefix: IPPrefix
  /// `RTN_*`.
  let type: UInt8
  private(set) var table: UInt32
  private(set) var priority: UInt32 = 0
  private(set) var outLink: UInt32?
  private(set) var gateway: IPAddress?
  private(set) var source: IPAddress?
  /// The destination of the encapsulated packets, if the route adds a header.
  private(set) var outer: Destination?
  /// The nexthop object that the route uses.
  private(set) var nexthop: UInt32?
  /// The links of a multipath route's nexthops, in order and unique. Empty if there is only one
  /// nexthop. Dead links are included, because flows on them move to the others.
  private(set) var legs: [UInt32] = []
  /// `RTPROT_*`: the origin of the route.
  let origin: UInt8
  /// The remaining lifetime, or `nil` if unlimited. Only table entries of IPv6 have one.
  private(set) var remaining: Duration?

  /// Returns `nil` if the message is malformed or of another family than IPv4 and IPv6.
  init?(message: Message) {
    guard
      let family = message.payload.uint8.flatMap(AddressFamily.init(netlink:)),
      let length = message.payload.load(UInt8.self, at: 1).map(Int.init),
      let table = message.payload.load(UInt8.self, at: 4),
      let origin = message.payload.load(UInt8.self, at: 5),
      let type = message.payload.load(UInt8.self, at: 7)
    else { return nil }
    // The kernel omits the destination of a default route.
    var destination: IPAddress? = .unspecified(family)
    guard let start = IPPrefix(.unspecified(family), length: length) else { return nil }
    self.prefix = start
    self.type = type
    self.origin = origin
    self.table = UInt32(table)

    var (legs, encapsulation) = (Bytes(), Encapsulation())
    var attributes = AttributeReader(message.payload, after: MemoryLayout<rtmsg>.size)
    while let attribute = attributes.next() {
      let value = attribute.payload
      switch attribute.type {
      case Int(RTA_DST.rawValue): destination = value.address(family)
      // Table numbers above 255 do not fit into the header.
      case Int(RTA_TABLE.rawValue): self.table = value.uint32 ?? self.table
      case Int(RTA_PRIORITY.rawValue): self.priority = value.uint32 ?? 0
      case Int(RTA_PREFSRC.rawValue): self.source = value.address(family)
      case Int(RTA_NH_ID.rawValue): self.nexthop = value.uint32
      case Int(RTA_MULTIPATH.rawValue): legs = value
      case Int(RTA_CACHEINFO.rawValue): self.remaining = Self.remaining(value)
      default: self.readNextHop(attribute, family, &encapsulation)
      }
    }
    guard
      !attributes.isMalformed, let destination,
      let prefix = IPPrefix(destination, length: length)
    else { return nil }
    self.prefix = prefix
    self.outer = encapsulation.destination
    guard self.read(legs: legs, family) else { return nil }
  }

  private func readNextHop(
    _ attribute: Attribute, _ family: AddressFamily, _ encapsulation: inout Encapsulation
  ) {
    switch attribute.type {
    case Int(RTA_OIF.rawValue): self.outLink = attribute.payload.uint32
    case Int(RTA_GATEWAY.rawValue): self.gateway = attribute.payload.address(family)
    // RFC 5549: an IPv4 route with an IPv6 gateway. The family comes first, then the address.
    case Int(RTA_VIA.rawValue): self.gateway = attribute.payload.slice(from: 2).address
    case Int(RTA_ENCAP.rawValue): encapsulation.data = attribute.payload
    case Int(RTA_ENCAP_TYPE.rawValue):
      encapsulation.type = attribute.payload.load(UInt16.self, at: 0)
    default: break
    }
  }

  /// `rta_expires` of struct rta_cacheinfo, in user-space clock ticks: 100 per second.
  private static func remaining(_ information: Bytes) -> Duration? {
    guard let ticks = information.load(Int32.self, at: 8), ticks > 0 else { return nil }
    return .milliseconds(10 * Int64(ticks))
  }

  /// Reads `RTA_MULTIPATH`. If the route has only one nexthop, the route takes the values of that
  /// nexthop. With several nexthops, none represents the others.
  private func read(legs: Bytes, _ family: AddressFamily) -> Bool {
    let headerSize = MemoryLayout<rtnexthop>.size
    guard let length = legs.load(UInt16.self, at: 0).map(Int.init) else { return legs.isEmpty }
    guard
      length >= headerSize, length <= legs.count, let index = legs.load(UInt32.self, at: 4)
    else { return false }
    let isOnly = legs.count - length < headerSize
    guard isOnly else { return self.readLinks(of: legs) }
    self.outLink = index
    var encapsulation = Encapsulation()
    var attributes = AttributeReader(legs.slice(from: headerSize, to: length))
    while let attribute = attributes.next() {
      self.readNextHop(attribute, family, &encapsulation)
    }
    self.outer = encapsulation.destination
    return !attributes.isMalformed
  }

  private func readLinks(of legs: Bytes) -> Bool {
    let headerSize = MemoryLayout<rtnexthop>.size
    var rest = legs
    while rest.count >= headerSize {
      guard
        let length = rest.load(UInt16.self, at: 0).map(Int.init), length >= headerSize,
        length <= rest.count, let index = rest.load(UInt32.self, at: 4)
      else { return false }
      if !self.legs.contains(index) { self.legs.append(index) }
      rest = rest.slice(from: aligned(length))
    }
    return true
  }

  var kind: Route.Kind {
    switch Int(self.type) {
    case Int(RTN_UNICAST): .unicast
    case Int(RTN_LOCAL): .local
    default: .other
    }
  }

  /// Why a route of this type carries no traffic, or `nil` if it does.
  var reason: KernelPath.Reason? {
    switch Int(self.type) {
    case Int(RTN_BLACKHOLE): .blackhole
    case Int(RTN_UNREACHABLE): .unreachable
    case Int(RTN_PROHIBIT): .prohibited
    case Int(RTN_THROW): .throw
    default: nil
    }
  }
}

extension MatchedRoute {
  init(_ message: RouteMessage) {
    self.init(
      prefix: message.prefix, table: message.table, priority: message.priority,
      nexthop: message.nexthop)
  }
}

extension RouteEntry {
  /// Returns `nil` for an entry that carries no traffic.
  init?(_ message: RouteMessage) {
    guard message.reason == nil else { return nil }
    let isOfOneLink = message.legs.count == 1
    let isKernels = message.origin == UInt8(RTPROT_KERNEL)
    self.init(
      MatchedRoute(message), kind: message.kind,
      outLink: isOfOneLink ? message.legs.first : message.outLink,
      legs: isOfOneLink ? [] : message.legs, isKernels: isKernels,
      source: isKernels ? nil : message.source)
  }
}

extension RouteChange {
  init(_ message: RouteMessage) {
    // The kernel assigns the loopback link to IPv6 routes that discard packets. Whether it names
    // the link of a nexthop object depends on net.ipv4.nexthop_compat_mode.
    let isOfLink = message.reason == nil && message.nexthop == nil
    self.init(
      MatchedRoute(message), outLink: isOfLink ? message.outLink : nil, gateway: message.gateway)
  }
}

extension RouteAnswer {
  /// Returns `nil` for an answer without a link, which should not occur.
  init?(_ message: RouteMessage) {
    if let reason = message.reason {
      self = .noRoute(reason)
      return
    }
    guard let outLink = message.outLink else { return nil }
    self = .route(
      Route(
        kind: message.kind, outLink: outLink, gateway: message.gateway, source: message.source,
        table: message.table, outer: message.outer))
  }
}

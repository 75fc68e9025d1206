import CLinux
import Connectivity
import Testing

@testable import Netlink

@Suite("Recorded messages")
struct MessageParserTests {
  @Test("K3 a Wi-Fi link before, after and without its handshake")
  func wifi() {
    var link = Link(
      index: 17, name: "wlan0", flags: [.up, .lowerUp, LinkFlags(rawValue: 0x1002)],
      operationalState: .dormant, carrier: true, mtu: 1500, hardwareAddress: [2, 0, 0, 0, 0, 0])
    link.carrierDownCount = 1
    #expect(LinkCaptures.wifiDormant.events == [.link(link)])
    link.operationalState = .up
    link.flags.insert(.running)
    #expect(LinkCaptures.wifiUp.events == [.link(link)])
    link.operationalState = .down
    link.carrier = false
    link.carrierDownCount = 2
    link.flags = [.up, LinkFlags(rawValue: 0x1002)]
    #expect(LinkCaptures.wifiNoCarrier.events == [.link(link)])
  }

  @Test("T3 a scan's wireless event changes nothing about the link")
  func scan() {
    #expect(LinkCaptures.wifiScan.events.isEmpty)
  }

  @Test(
    "K5 a link's kind is parsed",
    arguments: [
      (LinkCaptures.wwan, "wwan0", "wwan", 11), (LinkCaptures.wireguard, "wg0", "wireguard", 3),
      (LinkCaptures.tun, "tun7", "tun", 8),
    ])
  func kind(capture: Capture, name: String, kind: String, index: UInt32) throws {
    let link = try #require(capture.events.first?.link)
    #expect(link.name == name)
    #expect(link.kind == kind)
    #expect(link.index == index)
    #expect(link.hardwareType == 65534)
    #expect(link.flags.contains(.pointToPoint))
    #expect(link.lower == nil)
    #expect(link.hardwareAddress.isEmpty)
  }

  @Test("I2 a removed link is reported, and a port that left its bridge is not")
  func linkRemoved() {
    guard case .linkRemoved(let link)? = LinkCaptures.linkRemoved.events.first else {
      Issue.record("not a removal")
      return
    }
    #expect(link.index == 11)
    #expect(link.name == "wwan0")
    #expect(LinkCaptures.bridgePortRemoved.events.isEmpty)
  }

  @Test("I1 addresses are added and removed")
  func addresses() throws {
    let permanent = AddressFlags(rawValue: 0x80)
    let address4 = try Address(
      address("100.64.0.5"), prefixLength: 30, link: 11, flags: permanent)
    #expect(AddressCaptures.address4.events == [.address(address4)])
    #expect(AddressCaptures.addressRemoved4.events == [.addressRemoved(address4)])
    // 0x800, IFA_F_STABLE_PRIVACY, fits the 32-bit flags only.
    let address6 = try Address(
      address("fe80::97d2:d4d9:ffac:75b8"), prefixLength: 64, link: 11,
      flags: AddressFlags(rawValue: 0x880))
    #expect(AddressCaptures.address6.events == [.address(address6)])
    #expect(AddressCaptures.addressRemoved6.events == [.addressRemoved(address6)])
  }

  @Test(
    "IFA_LOCAL is the address, IFA_ADDRESS the peer's; a secondary IPv4 address is not temporary")
  func pointToPoint() throws {
    var message = MessageBuilder(
      type: Int(RTM_NEWADDR), header: [2, 32, 1, 0] + raw(UInt32(3)))
    message.put(Int(IFA_ADDRESS), [192, 0, 2, 9])
    message.put(Int(IFA_LOCAL), [192, 0, 2, 1])
    #expect(
      try Capture(bytes: message.bytes).events == [
        .address(Address(address("192.0.2.1"), prefixLength: 32, link: 3))
      ])
  }

  @Test("Routes of both families are parsed")
  func routes() throws {
    let modem = RouteChange(
      try MatchedRoute(prefix: prefix("0.0.0.0/0"), table: 254, priority: 0), outLink: 11,
      gateway: nil)
    #expect(RouteCaptures.defaultRoute4.events == [.route(modem, replaced: false)])
    let byGateway = RouteChange(
      try MatchedRoute(prefix: prefix("0.0.0.0/0"), table: 254, priority: 0), outLink: 15,
      gateway: try address("100.64.1.1"))
    #expect(RouteCaptures.defaultRouteByGateway4.events == [.route(byGateway, replaced: false)])
    let linkLocal = RouteChange(
      try MatchedRoute(prefix: prefix("fe80::/64"), table: 254, priority: 256), outLink: 11,
      gateway: nil)
    #expect(RouteCaptures.linkLocalRoute6.events == [.route(linkLocal, replaced: false)])
    #expect(RouteCaptures.routeRemoved6.events == [.routeRemoved(linkLocal)])
    let local = RouteChange(
      try MatchedRoute(prefix: prefix("100.64.0.5/32"), table: 255, priority: 0), outLink: 11,
      gateway: nil)
    #expect(RouteCaptures.routeRemoved4.events == [.routeRemoved(local)])
  }

  @Test("T2 a replaced route is recognised by a flag alone")
  func replaced() throws {
    let route = RouteChange(
      try MatchedRoute(prefix: prefix("0.0.0.0/0"), table: 1000, priority: 100), outLink: 3,
      gateway: try address("192.0.2.9"))
    #expect(RouteCaptures.routeReplaced4.events == [.route(route, replaced: true)])
  }

  @Test("Routes without a single link of their own")
  func routesWithoutLink() throws {
    let byNexthop = try #require(RouteCaptures.routeByNexthop4.events.first?.route)
    #expect(byNexthop.route.nexthop == 7)
    #expect(byNexthop.outLink == nil)
    let byTwo = try #require(RouteCaptures.routeByTwo4.events.first?.route)
    #expect(byTwo.outLink == nil)
    #expect(byTwo.gateway == nil)
    let unreachable = try #require(RouteCaptures.unreachableRoute6.events.first?.route)
    #expect(try unreachable.route.prefix == prefix("2001:db8:1::/48"))
    #expect(unreachable.outLink == nil)
    #expect(try #require(RouteCaptures.blackholeRoute4.events.first?.route).outLink == nil)
  }

  @Test("RFC 5549: an IPv4 route by an IPv6 gateway")
  func viaIPv6() throws {
    let route = try #require(RouteCaptures.routeByIPv6Gateway4.events.first?.route)
    #expect(try route.gateway == address("2001:db8::1"))
    #expect(try route.route.prefix == prefix("10.5.0.0/16"))
  }

  @Test("A multipath route with one leg is that leg")
  func oneLeg() throws {
    let leg =
      raw(UInt16(16)) + [0, 0] + raw(UInt32(6)) + raw(UInt16(8)) + raw(UInt16(RTA_GATEWAY.rawValue))
      + [192, 0, 2, 1]
    var message = MessageBuilder(
      type: Int(RTM_NEWROUTE), header: [2, 0, 0, 0, 254, 3, 0, 1] + raw(UInt32(0)))
    message.put(Int(RTA_MULTIPATH.rawValue), leg)
    let route = try #require(Capture(bytes: message.bytes).events.first?.route)
    #expect(route.outLink == 6)
    #expect(try route.gateway == address("192.0.2.1"))
  }

  @Test(
    "A multipath route's legs give its links without duplicates; an impossible leg makes it malformed"
  )
  func legs() throws {
    func route(_ legs: [(link: UInt32, length: UInt16)]) throws -> RouteMessage? {
      var bytes: [UInt8] = []
      for leg in legs { bytes += raw(leg.length) + [0, 0] + raw(leg.link) }
      var message = MessageBuilder(
        type: Int(RTM_NEWROUTE), header: [2, 0, 0, 0, 254, 3, 0, 1] + raw(UInt32(0)))
      message.put(Int(RTA_MULTIPATH.rawValue), bytes)
      return try withMessage(message.bytes) { RouteMessage(message: $0) }
    }
    #expect(try route([(6, 8), (7, 8), (6, 8)])?.legs == [6, 7])
    #expect(try route([(6, 8)])?.legs == [])
    for wrong in [0, 7, 9, .max] as [UInt16] { #expect(try route([(6, 8), (7, wrong)]) == nil) }
  }

  @Test("A route's expiry is in hundredths of a second")
  func remaining() throws {
    func remaining(_ ticks: Int32) throws -> Duration? {
      var message = MessageBuilder(
        type: Int(RTM_NEWROUTE), header: [10, 0, 0, 0, 254, 9, 0, 1] + raw(UInt32(0)))
      message.put(
        Int(RTA_CACHEINFO.rawValue),
        raw(UInt32(0)) + raw(UInt32(0)) + raw(ticks) + Array(repeating: 0, count: 20))
      return try withMessage(message.bytes) { RouteMessage(message: $0)?.remaining }
    }
    #expect(try remaining(0) == nil)
    #expect(try remaining(-5) == nil)
    #expect(try remaining(3000) == .seconds(30))
    #expect(try remaining(.max) == .milliseconds(10 * Int64(Int32.max)))
  }

  @Test("Rules and nexthop objects are parsed")
  func rulesAndNexthops() {
    #expect(RouteCaptures.rule4.events == [.rule(.ipv4)])
    #expect(RouteCaptures.ruleRemoved4.events == [.ruleRemoved(.ipv4)])
    #expect(RouteCaptures.rule6.events == [.rule(.ipv6)])
    #expect(RouteCaptures.nexthop.events == [.nexthop(id: 7)])
    #expect(RouteCaptures.nexthopRemoved.events == [.nexthopRemoved(id: 7)])
    for type in [RTM_NEWNEXTHOPBUCKET, RTM_DELNEXTHOPBUCKET] {
      var bucket = MessageBuilder(type: Int(type), header: Array(repeating: 0, count: 8))
      bucket.put(Int(NHA_ID), raw(UInt32(10)))
      #expect(Capture(bytes: bucket.bytes).events == [.nexthop(id: 10)])
    }
  }

  @Test("I4 a neighbour's MAC address counts only while it is valid")
  func neighbours() throws {
    let address4 = try address("192.0.2.1")
    let known = Neighbour(address4, link: 10, hardwareAddress: [2, 0, 0, 0, 0, 1])
    #expect(NeighbourCaptures.reachable4.events == [.neighbour(known)])
    #expect(NeighbourCaptures.stale4.events == [.neighbour(known)])
    let failed = Neighbour(try address("192.0.2.77"), link: 10, isFailed: true)
    #expect(NeighbourCaptures.failed4.events == [.neighbour(failed)])
    let router = Neighbour(try address("fe80::1"), link: 10, hardwareAddress: [2, 0, 0, 0, 0, 9])
    #expect(NeighbourCaptures.router6.events == [.neighbour(router)])
    #expect(NeighbourCaptures.removed4.events.isEmpty)
  }

  @Test(
    "I4 the states in which a MAC address is valid",
    arguments: [
      (0x00, false), (0x01, false), (0x02, true), (0x04, true), (0x08, true), (0x10, true),
      (0x20, false), (0x40, true), (0x80, true),
    ] as [(UInt16, Bool)])
  func neighbourStates(state: UInt16, isValid: Bool) throws {
    for octets in [[], [7], [2, 0, 0, 0, 0, 1], Array(repeating: 5, count: 20)] as [[UInt8]] {
      var message = MessageBuilder(
        type: Int(RTM_NEWNEIGH), header: [2, 0, 0, 0] + raw(UInt32(10)) + raw(state) + [0, 1])
      message.put(Int(NDA_DST), [192, 0, 2, 1])
      message.put(Int(NDA_LLADDR), octets)
      let neighbour = Neighbour(
        try address("192.0.2.1"), link: 10,
        hardwareAddress: isValid && !octets.isEmpty ? octets : nil, isFailed: state == 0x20)
      #expect(Capture(bytes: message.bytes).events == [.neighbour(neighbour)])
    }
  }

  @Test("A neighbour message without an address of its family is malformed")
  func neighbourWithoutAddress() {
    for (family, octets) in [(2, 16), (10, 4), (2, 0)] as [(UInt8, Int)] {
      var message = MessageBuilder(
        type: Int(RTM_NEWNEIGH), header: [family, 0, 0, 0] + raw(UInt32(10)) + [2, 0, 0, 1])
      if octets > 0 { message.put(Int(NDA_DST), Array(repeating: 1, count: octets)) }
      let events = Capture(bytes: message.bytes).events
      guard events.count == 1, case .malformed? = events.first else {
        Issue.record("\(events)")
        continue
      }
    }
  }

  @Test("A rule's selector is formatted as by ip rule")
  func ruleText() throws {
    let rule = try withMessage(RouteCaptures.rule6.bytes) { Rule(message: $0) }
    #expect(rule?.description == "101: not from all fwmark 0xca6c lookup 51820")
    #expect(rule?.table == 51820)
    #expect(rule?.suppressPrefixLength == nil)
  }

  @Test("Several messages in one datagram, unknown ones among them")
  func severalMessages() {
    let unknown = MessageBuilder(type: 999, header: [1, 2, 3, 4]).bytes
    let bytes =
      RouteCaptures.nexthop.bytes + unknown + RouteCaptures.rule4.bytes
      + RouteCaptures.nexthopRemoved.bytes
    #expect(
      Capture(bytes: bytes).events == [.nexthop(id: 7), .rule(.ipv4), .nexthopRemoved(id: 7)])
  }

  @Test(
    "Messages of other families are ignored",
    arguments: [RTM_NEWROUTE, RTM_NEWADDR, RTM_NEWRULE, RTM_NEWNEIGH])
  func otherFamilies(type: Int) {
    let message = MessageBuilder(
      type: type, header: [128, 0, 0, 0, 254, 0, 0, 1] + raw(UInt32(0)))
    #expect(Capture(bytes: message.bytes).events.isEmpty)
  }
}

extension KernelEvent {
  var link: Link? {
    if case .link(let link) = self { link } else { nil }
  }

  fileprivate var route: RouteChange? {
    if case .route(let route, _) = self { route } else { nil }
  }
}

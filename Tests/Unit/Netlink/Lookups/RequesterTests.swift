import CLinux
import Connectivity
import Foundation
import Glibc
import TestKit
import Testing

@testable import Netlink

/// Answers of a real kernel, compared with those of `ip`.
@Suite(
  "Kernel queries",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct RequesterTests {
  /// A namespace with a veth pair, and addresses of both families on one end.
  private func makeNamespace() throws -> (NetworkNamespace, Requester) {
    let namespace = try NetworkNamespace()
    try namespace.ip("link add ve0 index 10 type veth peer name ve1 index 21")
    try namespace.ip("link set ve0 up")
    try namespace.ip("link set ve1 up")
    try namespace.ip("addr add 192.0.2.2/24 dev ve0")
    try namespace.ip("addr add 2001:db8::2/64 dev ve0 nodad")
    return (namespace, try namespace.perform { try Requester() })
  }

  @Test(
    "K2 lookups agree with ip route get", .enabled(if: Users.areMany, "only one user exists here"))
  func lookups() throws {
    let (namespace, requester) = try self.makeNamespace()
    for words in [
      "route add default via 192.0.2.1",
      "route add default via 2001:db8::1 dev ve0",
      "route add 198.51.100.0/24 dev ve0 src 192.0.2.2",
      "route add 203.0.113.0/24 via 192.0.2.7 table 1000", "rule add fwmark 7 lookup 1000",
      "route add 203.0.113.128/25 via 192.0.2.8 table 1001",
      "rule add uidrange 4242-4242 lookup 1001",
      "-4 route add 10.5.0.0/16 via inet6 2001:db8::1 dev ve0",
      "route add 10.6.0.0/16 nexthop via 192.0.2.10 nexthop via 192.0.2.11",
      "nexthop add id 7 via 192.0.2.12 dev ve0", "route add 10.7.0.0/16 nhid 7",
      "route add 128.0.0.0/1 via 192.0.2.13",
      "-6 route add 2001:db8:7::/48 via fe80::7 dev ve0 table 1002",
      "-6 rule add fwmark 7 lookup 1002",
    ] { try namespace.ip(words) }

    for text in [
      "8.8.8.8", "203.0.113.200", "198.51.100.9", "10.5.1.1", "10.6.1.1", "10.7.1.1", "192.0.2.77",
      "192.0.2.2", "127.0.0.1", "2001:4860::8888", "2001:db8:7::1", "2001:db8::77", "2001:db8::2",
      "::1",
    ] {
      for (uid, mark) in [(0, 0), (4242, 0), (0, 7), (4242, 7)] as [(UInt32, UInt32)] {
        var words = "-json route get \(text)"
        if uid != 0 { words += " uid \(uid)" }
        if mark != 0 { words += " mark \(mark)" }
        let expected = try ExpectedRoute(json: namespace.ip(words))
        let answer = try requester.route(to: Destination(address(text), uid: uid, mark: mark))
        guard case .route(let route) = answer else {
          Issue.record("\(words): \(answer)")
          continue
        }
        let comment = Comment(rawValue: "\(words): \(route)")
        #expect(try requester.link(index: route.outLink)?.name == expected.dev, comment)
        #expect(route.gateway == expected.gateway, comment)
        #expect(route.source == expected.source, comment)
        #expect((route.kind == .local) == (expected.type == "local"), comment)
        if let table = expected.table { #expect(route.table == table, comment) }
      }
    }
    let marked = try requester.route(to: Destination(address("203.0.113.5"), mark: 7))
    guard case .route(let route) = marked else {
      Issue.record("\(marked)")
      return
    }
    #expect(route.table == 1000)
  }

  @Test(
    "K2 each rejecting route, and no route, has its reason", arguments: [AddressFamily.ipv4, .ipv6])
  func reasons(family: AddressFamily) throws {
    let (namespace, requester) = try self.makeNamespace()
    let blocks: [(String, String, String, KernelPath.Reason)] =
      family == .ipv4
      ? [
        ("unreachable", "10.1.0.0/16", "10.1.0.1", .unreachable),
        ("prohibit", "10.2.0.0/16", "10.2.0.1", .prohibited),
        ("blackhole", "10.3.0.0/16", "10.3.0.1", .blackhole),
        // The kernel continues with the next rule, and finds nothing.
        ("throw", "10.4.0.0/16", "10.4.0.1", .noRoute),
      ]
      : [
        ("unreachable", "2001:db8:1::/48", "2001:db8:1::1", .unreachable),
        ("prohibit", "2001:db8:2::/48", "2001:db8:2::1", .prohibited),
        ("blackhole", "2001:db8:3::/48", "2001:db8:3::1", .blackhole),
        ("throw", "2001:db8:4::/48", "2001:db8:4::1", .noRoute),
      ]
    for (kind, block, text, reason) in blocks {
      let destination = try Destination(address(text))
      #expect(try requester.route(to: destination) == .noRoute(.noRoute))
      try namespace.ip("route add \(kind) \(block)")
      #expect(try requester.route(to: destination) == .noRoute(reason), "\(kind)")
      #expect(try requester.match(for: destination) == nil, "\(kind)")
    }
  }

  @Test("The matched route has prefix, table, metric and nexthop object")
  func match() throws {
    let (namespace, requester) = try self.makeNamespace()
    try namespace.ip("route add default via 192.0.2.1 metric 600")
    try namespace.ip("route add default via 2001:db8::1 dev ve0 metric 77")
    try namespace.ip("route add 128.0.0.0/1 via 192.0.2.1 table 1000")
    try namespace.ip("rule add fwmark 7 lookup 1000")
    try namespace.ip("nexthop add id 7 via 192.0.2.12 dev ve0")
    try namespace.ip("route add 10.7.0.0/16 nhid 7")
    #expect(
      try requester.match(for: Destination(address("8.8.8.8")))?.route
        == MatchedRoute(prefix: prefix("0.0.0.0/0"), table: 254, priority: 600))
    #expect(
      try requester.match(for: Destination(address("200.8.8.8"), mark: 7))?.route
        == MatchedRoute(prefix: prefix("128.0.0.0/1"), table: 1000, priority: 0))
    #expect(
      try requester.match(for: Destination(address("10.7.1.1")))?.route
        == MatchedRoute(prefix: prefix("10.7.0.0/16"), table: 254, priority: 0, nexthop: 7))
    #expect(
      try requester.match(for: Destination(address("2001:4860::8888")))?.route
        == MatchedRoute(prefix: prefix("::/0"), table: 254, priority: 77))
  }

  @Test("Links by index, by name, and all of them")
  func links() throws {
    let (namespace, requester) = try self.makeNamespace()
    try namespace.ip("link add mv0 index 30 link ve0 type macvlan")
    try namespace.ip("link add br0 index 31 type bridge")
    try namespace.ip("link set ve1 master br0")
    try namespace.ip("link add vx0 index 32 type vxlan id 5 remote 192.0.2.99 dstport 4789")
    try namespace.ip("link property add dev vx0 altname the-tunnel-to-the-other-house")
    let links = try requester.links()
    #expect(Set(links.map(\.name)) == ["lo", "ve0", "ve1", "mv0", "br0", "vx0"])
    for link in links {
      #expect(try requester.link(index: link.index)?.name == link.name)
      #expect(try requester.link(named: link.name)?.index == link.index)
    }
    let loopback = try #require(try requester.link(index: 1))
    #expect(loopback.flags.contains([.loopback, .up, .lowerUp]))
    #expect(loopback.hardwareType == 772)
    let pair = try #require(try requester.link(index: 10))
    #expect(pair.kind == "veth")
    #expect(pair.lower == 21)
    #expect(pair.carrier == true)
    #expect(pair.operationalState == .up)
    #expect(try requester.link(index: 21)?.master == 31)
    #expect(try requester.link(index: 30)?.lower == 10)
    #expect(
      try requester.link(index: 32)?.outer
        == Destination(address("192.0.2.99"), transport: Transport(17, remotePort: 4789)))
    #expect(try requester.link(named: "the-tunnel-to-the-other-house")?.index == 32)
    #expect(try requester.link(index: 99) == nil)
    #expect(try requester.link(index: 0) == nil)
    #expect(try requester.link(index: .max) == nil)
    #expect(try requester.link(named: "none") == nil)
    #expect(try requester.link(named: "") == nil)
    #expect(try requester.link(named: String(repeating: "x", count: 300)) == nil)
    try namespace.ip("link set ve1 down")
    #expect(try requester.link(index: 10)?.flags.contains(.lowerUp) == false)
  }

  @Test("T3 the carrier loss counter is read")
  func carrierDownCount() throws {
    let (namespace, requester) = try self.makeNamespace()
    func count() throws -> UInt32 {
      let link = try #require(try requester.link(index: 10))
      return try #require(link.carrierDownCount)
    }
    let before = try count()
    for _ in 0..<2 {
      try namespace.ip("link set ve1 down")
      try namespace.ip("link set ve1 up")
    }
    #expect(try count() == before + 2)
    #expect(try requester.links().first { $0.index == 10 }?.carrierDownCount == before + 2)
  }

  @Test("K3 addresses with their flags")
  func addresses() throws {
    let (namespace, requester) = try self.makeNamespace()
    try namespace.ip("addr add 192.0.2.3/24 dev ve0")
    try namespace.ip("addr add 10.9.0.1 peer 10.9.0.2/32 dev ve1")
    // Without a carrier an address stays tentative.
    try namespace.ip("link add ve8 index 40 type veth peer name ve9 index 51")
    try namespace.ip("link set ve8 up")
    try namespace.ip("addr add 2001:db8:8::2/64 dev ve8")
    try namespace.ip("addr add 2001:db8:9::2/64 dev ve0 nodad preferred_lft 0")

    func find(_ wanted: IPAddress, on link: UInt32) throws -> Address? {
      try requester.addresses(with: wanted, on: link).first { $0.address == wanted }
    }
    let first = try #require(try find(address("192.0.2.2"), on: 10))
    #expect(first.prefixLength == 24)
    #expect(!first.flags.contains(.temporary))
    let second = try #require(try find(address("192.0.2.3"), on: 10))
    #expect(!second.flags.contains(.temporary))
    #expect(try requester.addresses(with: address("192.0.2.2"), on: 10) == [first, second])
    #expect(try find(address("10.9.0.1"), on: 21)?.prefixLength == 32)
    #expect(try find(address("10.9.0.2"), on: 21) == nil)
    #expect(try find(address("192.0.2.2"), on: 21) == nil)
    #expect(try find(address("192.0.2.2"), on: 999) == nil)

    let tentative = try #require(try find(address("2001:db8:8::2"), on: 40))
    #expect(tentative.flags.contains(.tentative))
    let deprecated = try #require(try find(address("2001:db8:9::2"), on: 10))
    #expect(deprecated.flags.contains(.deprecated))
    #expect(!deprecated.flags.contains(.tentative))
    #expect(try find(address("2001:db8::2"), on: 10)?.prefixLength == 64)
    #expect(try find(address("2001:db8::2"), on: 21) == nil)
    #expect(try find(address("2001:db8::2"), on: 999) == nil)
    #expect(try find(address("2001:db8::99"), on: 10) == nil)

    let all = try requester.addresses()
    #expect(try all.contains { try $0.address == address("10.9.0.1") && $0.link == 21 })
    #expect(try all.contains { try $0.address == address("::1") && $0.link == 1 })
    #expect(try requester.addresses(on: 40).allSatisfy { $0.link == 40 })
    #expect(try requester.addresses(on: 40).count == 1)
    #expect(try requester.addresses(on: 999).isEmpty)
  }

  @Test(
    "Routes that discard an address's traffic, of all tables and of one type",
    arguments: [AddressFamily.ipv4, .ipv6])
  func discarding(family: AddressFamily) throws {
    let (namespace, requester) = try self.makeNamespace()
    let (ip, block, host) =
      family == .ipv4
      ? ("-4", "203.0.113.0/24", "203.0.113.9") : ("-6", "2001:db8:99::/48", "2001:db8:99::9")
    for route in [
      "unreachable default metric 4242", "unreachable \(block) metric 7 table 1000",
      "prohibit \(block) metric 8 table 1000", "blackhole \(block) metric 9 table 1001",
      "unreachable 198.51.100.0/24 table 1000",
    ] where family == .ipv4 || !route.contains("198.") {
      try namespace.ip("\(ip) route add \(route)")
    }
    let address = try #require(IPAddress(host))
    func found(_ reason: KernelPath.Reason) throws -> [String] {
      try requester.discardingRoutes(of: address, reason)
        .map { "\($0.prefix) \($0.priority) \($0.table)" }.sorted()
    }
    let all = family == .ipv4 ? "0.0.0.0/0" : "::/0"
    #expect(try found(.unreachable) == ["\(block) 7 1000", "\(all) 4242 254"].sorted())
    #expect(try found(.prohibited) == ["\(block) 8 1000"])
    #expect(try found(.blackhole) == ["\(block) 9 1001"])
    #expect(try found(.noRoute).isEmpty)
  }

  @Test(
    "Rules are formatted as by ip rule",
    .enabled(if: Users.areMany, "only one user exists here"),
    arguments: [AddressFamily.ipv4, .ipv6])
  func rules(family: AddressFamily) throws {
    let (namespace, requester) = try self.makeNamespace()
    let ip = family == .ipv4 ? "-4" : "-6"
    let block = family == .ipv4 ? "10.1.0.0/16" : "2001:db8:1::/48"
    let host = family == .ipv4 ? "192.0.2.9" : "2001:db8::9"
    for rule in [
      "not fwmark 0xca6c lookup 51820 priority 100",
      "lookup main suppress_prefixlength 0 priority 99",
      "from \(block) to \(host) lookup 1000 priority 101",
      "fwmark 0x10/0xff lookup 1001 priority 102",
      "iif ve0 oif ve1 unreachable priority 103", "uidrange 1000-1999 lookup 1002 priority 104",
      "ipproto 6 dport 443 prohibit priority 105", "from all goto 32766 priority 106",
      "sport 1000-2000 blackhole priority 107", "from all nop priority 108",
      "tos 0x10 lookup 1003 priority 109",
    ] { try namespace.ip("\(ip) rule add \(rule)") }
    let printed = try namespace.ip("\(ip) rule list").split(separator: "\n").map { line in
      line.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        .replacing(" [detached]", with: "")
    }
    let rules = try requester.rules(family)
    #expect(rules.map(\.description) == printed)
    #expect(printed.count >= 13)
    // Selected by the mark alone.
    let selections = Dictionary(uniqueKeysWithValues: rules.map { ($0.priority, $0.selection) })
    #expect(selections[100] == .mark(0xca6c, isInverted: true))
    #expect(selections[102] == .mark(0x10, isInverted: false))
    for priority in [99, 106, 108] as [UInt32] { #expect(selections[priority] == .all) }
    for priority in [101, 103, 104, 105, 107, 109] as [UInt32] {
      #expect(selections[priority] == .other)
    }
  }

  @Test("A refused request has the kernel's text")
  func refusal() throws {
    let (_, requester) = try self.makeNamespace()
    // An impossible prefix length, under strict checking.
    do throws(NetlinkError) {
      _ = try requester.object(
        Request(Int(RTM_GETROUTE), "RTM_GETROUTE", header: rtmsg(wrongLength: 33))
      ) { _ in true }
      Issue.record("accepted")
    } catch {
      #expect(error.code == EINVAL)
      #expect(error.message != nil)
      #expect(error.operation == "RTM_GETROUTE")
      #expect("\(error)".hasPrefix("RTM_GETROUTE: Invalid argument ("))
    }
  }
}

extension rtmsg {
  fileprivate init(wrongLength: UInt8) {
    self.init()
    self.rtm_family = UInt8(AF_INET)
    self.rtm_dst_len = wrongLength
  }
}

/// The output of `ip -json route get`.
private struct ExpectedRoute {
  var dev: String
  var gateway: IPAddress?
  var source: IPAddress?
  var type: String?
  var table: UInt32?

  init(json: String) throws {
    struct Via: Decodable { var host: String }
    struct Row: Decodable {
      var dev: String
      var gateway: String?
      var via: Via?
      var prefsrc: String?
      var type: String?
      var table: String?
    }
    let row = try #require(try JSONDecoder().decode([Row].self, from: Data(json.utf8)).first)
    self.dev = row.dev
    self.gateway = (row.gateway ?? row.via?.host).flatMap { IPAddress($0) }
    self.source = row.prefsrc.flatMap { IPAddress($0) }
    self.type = row.type
    self.table = row.table.flatMap { UInt32($0) }
  }
}

import CLinux
import Connectivity
import TestKit
import Testing

@testable import Netlink

/// The entries that decide, and their expiry.
@Suite(
  "Routing table entries",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct RouteEntryTests {
  private let namespace: NetworkNamespace
  private let requester: Requester

  init() throws {
    self.namespace = try NetworkNamespace()
    for words in [
      "link add ve0 index 10 type veth peer name ve1 index 21",
      "link add ve2 index 30 type veth peer name ve3 index 41",
      "link set ve0 up addrgenmode none", "link set ve1 up addrgenmode none",
      "link set ve2 up addrgenmode none", "link set ve3 up addrgenmode none",
      "addr add 192.0.2.2/24 dev ve0", "addr add 198.51.100.2/24 dev ve2",
      "addr add 2001:db8::2/64 dev ve0 nodad", "addr add 2001:db8:1::2/64 dev ve2 nodad",
    ] { try self.namespace.ip(words) }
    self.requester = try self.namespace.perform { try Requester() }
  }

  private func entry(_ destination: String) throws -> RouteEntry? {
    try self.requester.match(for: Destination(address(destination)))
  }

  private func route(
    _ prefix: String, table: UInt32 = 254, priority: UInt32 = 0, nexthop: UInt32? = nil
  ) throws -> MatchedRoute {
    try MatchedRoute(
      prefix: NetlinkTests.prefix(prefix), table: table, priority: priority, nexthop: nexthop)
  }

  @Test(
    "The entry of a local address names its link, that of a local block the loopback link")
  func local() throws {
    // With a rule, IPv4's local table is separate.
    try self.namespace.ip("rule add fwmark 7 lookup 1000")
    try self.namespace.ip("route add local 198.18.0.0/24 dev lo")
    try self.namespace.ip("-6 route add local 2001:db8:18::/64 dev lo")
    func expect(
      _ destination: String, _ route: MatchedRoute, _ outLink: UInt32, isKernels: Bool,
      location: SourceLocation = #_sourceLocation
    ) throws {
      let expected = RouteEntry(route, kind: .local, outLink: outLink, isKernels: isKernels)
      #expect(try self.entry(destination) == expected, sourceLocation: location)
    }
    try expect("192.0.2.2", self.route("192.0.2.2/32", table: 255), 10, isKernels: true)
    try expect("198.51.100.2", self.route("198.51.100.2/32", table: 255), 30, isKernels: true)
    try expect("127.0.0.7", self.route("127.0.0.0/8", table: 255), 1, isKernels: true)
    try expect("198.18.0.5", self.route("198.18.0.0/24", table: 255), 1, isKernels: false)
    try expect("2001:db8:1::2", self.route("2001:db8:1::2/128", table: 255), 30, isKernels: true)
    try expect("::1", self.route("::1/128", table: 255), 1, isKernels: true)
    try expect(
      "2001:db8:18::5", self.route("2001:db8:18::/64", table: 255, priority: 1024), 1,
      isKernels: false)
  }

  @Test("An entry with one link, by the kernel or by a user, and no entry")
  func one() throws {
    try self.namespace.ip("route add default via 192.0.2.1 metric 600")
    #expect(
      try self.entry("8.8.8.8") == RouteEntry(self.route("0.0.0.0/0", priority: 600), outLink: 10))
    #expect(
      try self.entry("192.0.2.77")
        == RouteEntry(self.route("192.0.2.0/24"), outLink: 10, isKernels: true))
    #expect(
      try self.entry("2001:db8:1::77")
        == RouteEntry(self.route("2001:db8:1::/64", priority: 256), outLink: 30, isKernels: true))
    #expect(try self.entry("2001:4860::8") == nil)
    try self.namespace.ip("nexthop add id 7 via 198.51.100.1 dev ve2")
    try self.namespace.ip("route add 10.7.0.0/16 nhid 7")
    #expect(
      try self.entry("10.7.1.1") == RouteEntry(self.route("10.7.0.0/16", nexthop: 7), outLink: 30))
  }

  @Test("An entry with several legs names their links, directly or by a nexthop group")
  func legs() throws {
    for words in [
      "route add 10.1.0.0/16 nexthop via 192.0.2.1 nexthop via 198.51.100.1",
      "route add 10.2.0.0/16 nexthop via 192.0.2.1 nexthop via 192.0.2.3",
      "nexthop add id 1 via 192.0.2.1 dev ve0", "nexthop add id 2 via 198.51.100.1 dev ve2",
      "nexthop add id 9 group 1/2", "route add 10.3.0.0/16 nhid 9",
      "-6 route add 2001:db8:7::/48 nexthop via 2001:db8::1 nexthop via 2001:db8:1::1",
      "nexthop add id 3 via 2001:db8::1 dev ve0", "nexthop add id 4 via 2001:db8:1::1 dev ve2",
      "nexthop add id 8 group 3/4", "-6 route add 2001:db8:8::/48 nhid 8",
    ] { try self.namespace.ip(words) }
    #expect(
      try self.entry("10.1.1.1") == RouteEntry(self.route("10.1.0.0/16"), legs: [10, 30]))
    // Two routers on one link are one link.
    #expect(try self.entry("10.2.1.1") == RouteEntry(self.route("10.2.0.0/16"), outLink: 10))
    #expect(
      try self.entry("10.3.1.1")
        == RouteEntry(self.route("10.3.0.0/16", nexthop: 9), legs: [10, 30]))
    for (destination, block, nexthop) in [
      ("2001:db8:7::1", "2001:db8:7::/48", nil), ("2001:db8:8::1", "2001:db8:8::/48", 8),
    ] as [(String, String, UInt32?)] {
      var entry = try #require(try self.entry(destination))
      entry.legs.sort()
      #expect(
        try entry
          == RouteEntry(self.route(block, priority: 1024, nexthop: nexthop), legs: [10, 30]))
    }
  }

  @Test(
    "K8 an entry with more next hops than an answer holds is known as multipath, and its way is known"
  )
  func oversized() throws {
    let nexthops4 =
      (1...125).map { "nexthop via 192.0.2.\($0 + 2) dev ve0" }
      + (1...125).map { "nexthop via 198.51.100.\($0 + 2) dev ve2" }
    let nexthops6 =
      (1...70).map { "nexthop via 2001:db8::\($0 + 2) dev ve0" }
      + (1...70).map { "nexthop via 2001:db8:1::\($0 + 2) dev ve2" }
    for (prefix, count) in [("10.1.0.0/16", 230), ("10.2.0.0/16", 235), ("10.3.0.0/16", 250)] {
      try self.namespace.ip("route add \(prefix) \(nexthops4.prefix(count).joined(separator: " "))")
    }
    let many6 = nexthops6.joined(separator: " ")
    try self.namespace.ip("-6 route add 2001:db8:7::/48 \(many6)")
    #expect(
      try self.entry("10.1.1.1") == RouteEntry(self.route("10.1.0.0/16"), legs: [10, 30]))
    for destination in ["10.2.1.1", "10.3.1.1", "2001:db8:7::1"] {
      #expect(try self.entry(destination) == .oversized)
    }
    let destinations = try ["10.3.1.1", "192.0.2.9", "2001:db8:7::1"].map {
      Destination(try address($0))
    }
    for answer in try self.requester.routes(to: destinations) {
      guard case .route(let route) = answer else {
        Issue.record("\(answer)")
        continue
      }
      #expect([10, 30].contains(route.outLink) && route.table == 254)
    }
  }

  @Test("An IPv6 answer by an expiring route has its expiry, and changes then")
  func expiry() throws {
    for words in [
      "route add default via 192.0.2.1", "-6 route add 2001:db8:7::/48 via 2001:db8::1",
      "-6 route add 2001:db8:8::/48 via 2001:db8::1 expires 60",
      "-6 route add default via 2001:db8::1 metric 100 expires 30",
    ] { try self.namespace.ip(words) }
    let lasting = try ["8.8.8.8", "2001:db8:7::1", "2001:db8::2", "::1"].map {
      Destination(try address($0))
    }
    let (minute, half) = try (
      Destination(address("2001:db8:8::1")), Destination(address("2001:4860::8"))
    )
    #expect(self.requester.takeExpiry() == nil)
    for destination in lasting { _ = try self.requester.route(to: destination) }
    for destination in lasting { _ = try self.requester.match(for: destination) }
    _ = try self.requester.routes(to: lasting)
    #expect(self.requester.takeExpiry() == nil)

    func expect(
      _ bounds: ClosedRange<Double>, location: SourceLocation = #_sourceLocation
    ) throws {
      let left = try #require(self.requester.takeExpiry(), sourceLocation: location)
      #expect(bounds.contains(left / .seconds(1)), "\(left)", sourceLocation: location)
      #expect(self.requester.takeExpiry() == nil, sourceLocation: location)
    }
    _ = try self.requester.route(to: minute)
    try expect(31...60.02)
    _ = try self.requester.route(to: half)
    try expect(1...30.02)
    _ = try self.requester.match(for: half)
    try expect(1...30.02)
    _ = try self.requester.routes(to: lasting + [minute] + lasting)
    try expect(31...60.02)
    _ = try self.requester.routes(to: lasting + [half, minute] + lasting)
    try expect(1...30.02)
  }

  @Test("The remaining time is reported until the answer expires, and then the answer changes")
  func expired() throws {
    let destination = Destination(try address("2001:4860::8"))
    try self.namespace.ip("-6 route add default via 2001:db8:1::1 metric 200")
    try self.namespace.ip("-6 route add default via 2001:db8::1 metric 100 expires 1")
    // No sooner than the first and no later than the second: this process may have to wait between
    // query and answer.
    var promised: (first: ContinuousClock.Instant, last: ContinuousClock.Instant)?
    // The kernel sends no message at the expiry (only when it collects such routes, up to half a
    // minute later), so it is queried until the answer changes.
    while true {
      let asked = ContinuousClock.now
      guard case .route(let route) = try self.requester.route(to: destination) else {
        Issue.record("no route")
        return
      }
      let left = self.requester.takeExpiry()
      let answered = ContinuousClock.now
      guard route.outLink == 10 else { break }
      if let promised {
        #expect(asked <= promised.last, "it was to be over")
        // Below a hundredth of a second the kernel reports no time.
        #expect(left != nil || promised.first - answered < .milliseconds(40))
      }
      #expect(left.map { $0 <= .milliseconds(1020) } ?? true)
      if promised == nil {
        let left = try #require(left)
        promised = (asked + left, answered + left)
      }
    }
    #expect(promised != nil)
    guard case .route(let after) = try self.requester.route(to: destination) else {
      Issue.record("no route")
      return
    }
    #expect(after.outLink == 30)
    #expect(self.requester.takeExpiry() == nil)
  }
}

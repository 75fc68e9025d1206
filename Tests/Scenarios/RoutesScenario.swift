import TestKit
import TestTraits
import Testing

@Suite("Routes", .needsNamespaces, .blocking)
struct RoutesScenario {
  @Test("K2 an address and a default route come and go")
  func comeAndGo() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0")
    let status = try lab.start()
    #expect(status.category == "none")
    #expect(status.flags == .init(reachable: false, connectionRequired: false, isWWAN: false))
    #expect(status.ipv4.reason == "noRoute")

    try lab.ip("address add 192.0.2.2/24 dev eth0")
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    #expect(gain.event == "transition")
    #expect(gain.to == "other")
    #expect(gain.bounced == false)
    #expect(gain.cause?.message == "RTM_NEWROUTE")
    #expect(gain.status.interface == "eth0")
    #expect(gain.status.ipv4.gateway == "192.0.2.1")
    #expect(gain.status.ipv4.source == "192.0.2.2")

    try lab.ip("route del default")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.change == "routeRemoved")
    #expect(loss.cause?.interface == "eth0")
    #expect(loss.status.interface == nil)

    try lab.ip("route add default dev eth0 scope link")
    let direct = try lab.event()
    #expect(direct.to == "other")
    #expect(direct.status.ipv4.gateway == nil)
  }

  @Test("K2 a default route is replaced")
  func replaced() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()

    try lab.ip("route replace default via 192.0.2.254")
    let gateway = try lab.event()
    #expect(gateway.event == "path")
    #expect(gateway.cause?.change == "routeReplaced")
    #expect(gateway.status.ipv4.gateway == "192.0.2.254")

    try lab.ip("route replace default via 198.51.100.1")
    let link = try lab.event()
    #expect(link.event == "path")
    #expect(link.status.interface == "eth1")
    #expect(link.status.ipv4.source == "198.51.100.2")
  }

  @Test("K2 the default route with the lower metric counts")
  func metrics() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 200")
    try lab.start()

    try lab.ip("route add default via 198.51.100.1 metric 300")
    try lab.ip("route add default via 198.51.100.1 metric 100")
    let better = try lab.event()
    #expect(better.event == "path")
    #expect(better.status.interface == "eth1")
    #expect(better.cause?.change == "routeAdded")

    try lab.ip("route del default via 198.51.100.1 metric 300")
    try lab.ip("route del default via 198.51.100.1 metric 100")
    let back = try lab.event()
    #expect(back.status.interface == "eth0")
    #expect(back.cause?.change == "routeRemoved")

    let explanation: ExplanationReport = try decode(try lab.connctl("explain", "--json").output)
    #expect(explanation.routePrefix == "0.0.0.0/0")
    #expect(explanation.routePriority == 200)
    #expect(explanation.category == "other")
  }

  @Test(
    "K2 rules choose the table",
    .enabled(if: Users.areMany, "only one user exists here"))
  func rules() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()

    // No rule uses the table yet.
    try lab.ip("route add default via 198.51.100.1 table 100")
    try lab.ip("rule add priority 1000 from all lookup 100")
    let other = try lab.event()
    #expect(other.event == "path")
    #expect(other.cause?.message == "RTM_NEWRULE")
    #expect(other.status.interface == "eth1")
    #expect(other.status.ipv4.table == 100)
    let explanation: ExplanationReport = try decode(try lab.connctl("explain", "--json").output)
    #expect(
      explanation.rules == [.init(priority: 1000, table: 100, selector: "from all")])

    try lab.ip("rule del priority 1000")
    let back = try lab.event()
    #expect(back.cause?.message == "RTM_DELRULE")
    #expect(back.status.ipv4.table == 254)

    // Rules for marked traffic and for other users do not concern this lookup.
    try lab.ip("rule add priority 1001 fwmark 0x10 lookup 100")
    try lab.ip("rule add priority 1002 uidrange 65534-65534 lookup 100")
    try lab.ip("rule add priority 1003 from all prohibit")
    let prohibited = try lab.event()
    #expect(prohibited.to == "none")
    #expect(prohibited.status.ipv4.reason == "prohibited")
    try lab.ip("rule del priority 1003")
    #expect(try lab.event().to == "other")
  }

  @Test(
    "K2 a user gets the path of their own uid",
    .enabled(if: Users.areMany, "only one user exists here"))
  func users() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.namespace.ip("route add default via 198.51.100.1 table 100")
    try lab.namespace.ip("rule add priority 1000 uidrange 65534-65534 lookup 100")
    try lab.start()

    lab.directory.open()
    let nobody = try Command.outcome(
      of: lab.namespace.wrapped(
        Programs.asNobody(
          [Programs.connctl, "--socket", lab.socket, "path", "203.0.113.9", "--json"])))
    let theirs: PathReport = try decode(nobody.output)
    #expect(theirs.interface == "eth1")
    let ours: PathReport = try decode(try lab.connctl("path", "203.0.113.9", "--json").output)
    #expect(ours.interface == "eth0")
    #expect(try lab.status().interface == "eth0")

    // The same holds for a flow, and for its mark or link.
    try lab.namespace.ip("rule add priority 1001 fwmark 16 lookup 100")
    let nobodys = try GuardedFlow(lab, "203.0.113.9", as: Programs.asNobody)
    let marked = try GuardedFlow(lab, "203.0.113.9", arguments: ["--mark", "16"])
    let bound = try GuardedFlow(lab, "198.51.100.7", arguments: ["--interface", "eth1"])
    let plain = try GuardedFlow(lab, "203.0.113.9")
    #expect(
      [nobodys, marked, bound, plain].map(\.path.interface) == ["eth1", "eth1", "eth1", "eth0"])
    try lab.namespace.ip("route del default via 198.51.100.1 table 100")
    // Only the route is lost, and another link takes over: the flows end after the route's grace
    // period.
    for flow in [nobodys, marked] {
      #expect(try flow.invalidation().severity == "drain")
      try flow.expectDestroyed("betterPath", "interfaceLost", cause: "graceEnded")
    }
    try lab.namespace.ip("link set eth1 down")
    try bound.expectDestroyed("interfaceLost")
    try lab.namespace.ip("link set eth0 down")
    try plain.expectDestroyed("interfaceLost")
  }

  @Test("K2 two halves of the address space count as a default route")
  func halves() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("tun0", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()

    try lab.step("both halves") {
      try lab.namespace.ipBatch([
        "route add 0.0.0.0/1 via 198.51.100.1", "route add 128.0.0.0/1 via 198.51.100.1",
      ])
    }
    let tunnel = try lab.events { $0.status.interface == "tun0" }
    #expect(tunnel.allSatisfy { $0.event == "path" })
    #expect(tunnel.last?.status.ipv4.gateway == "198.51.100.1")

    try lab.step("no halves") {
      try lab.namespace.ipBatch(["route del 0.0.0.0/1", "route del 128.0.0.0/1"])
    }
    let back = try lab.events { $0.status.interface == "eth0" }
    #expect(back.allSatisfy { $0.event == "path" })
  }

  @Test(
    "K2 a route that rejects or drops packets is reported with its type",
    arguments: [
      ("unreachable", "unreachable"), ("prohibit", "prohibited"), ("blackhole", "blackhole"),
    ], ["", "-6 "])
  func nowhere(kind: (route: String, reason: String), family: String) throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", "192.0.2.2", ipv6: "2001:db8::2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    try lab.namespace.ip("-6 route add default via 2001:db8::1 metric 100")
    let status = try lab.start()
    #expect(status.ipv6.status == "satisfied")

    try lab.ip("\(family)route add \(kind.route) default metric 50")
    let loss = try lab.event()
    let path = family.isEmpty ? loss.status.ipv4 : loss.status.ipv6
    #expect(path.status == "unsatisfied")
    #expect(path.reason == kind.reason)
    // The other family still leads out.
    #expect(loss.status.category == "other")

    try lab.ip("\(family)route del \(kind.route) default metric 50")
    let gain = try lab.event()
    #expect((family.isEmpty ? gain.status.ipv4 : gain.status.ipv6).status == "satisfied")
  }

  @Test("K2 a throw route sends the lookup on to the next table")
  func thrown() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.namespace.ip("route add default via 198.51.100.1 table 100")
    try lab.namespace.ip("rule add priority 1000 from all lookup 100")
    #expect(try lab.start().interface == "eth1")
    try lab.ip("route replace throw default table 100")
    #expect(try lab.event().status.interface == "eth0")
  }

  @Test("K2 a default route with several next hops")
  func multipath() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.start()

    try lab.ip("route add default nexthop via 192.0.2.1 dev eth0 nexthop via 198.51.100.1 dev eth1")
    let gain = try lab.events { $0.status.category == "other" }
    let first = try #require(gain.last?.status.interface)
    #expect(["eth0", "eth1"].contains(first))

    // One of the two is left, whichever it was.
    let other = first == "eth0" ? "eth1" : "eth0"
    try lab.ip("link set \(first) down")
    let moved = try lab.events { $0.status.interface == other }
    #expect(moved.last?.status.category == "other")
  }

  @Test("K2 a nexthop object is deleted → its routes are lost without a message, and it is noticed")
  func nexthopObject() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.start()
    try lab.ip("nexthop add id 7 via 192.0.2.1 dev eth0")
    try lab.ip("route add default nhid 7")
    #expect(try lab.event().to == "other")

    try lab.ip("nexthop replace id 7 via 192.0.2.254 dev eth0")
    let moved = try lab.event()
    #expect(moved.event == "path")
    // The kernel first reports the route as replaced, and then the nexthop.
    #expect(["route", "nexthop"].contains(moved.cause?.trigger))
    #expect(moved.status.ipv4.gateway == "192.0.2.254")

    try lab.ip("nexthop del id 7")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.message == "RTM_DELNEXTHOP")
    #expect(loss.cause?.change == "nexthopRemoved")
  }
}

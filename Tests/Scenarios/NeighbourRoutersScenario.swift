import TestKit
import TestTraits
import Testing

/// Other addresses of the same subnet, and other routers of the same LAN: earlier connections go
/// on.
@Suite("Neighbour routers", .needsNamespaces, .blocking)
struct NeighbourRoutersScenario {
  private static let server = Uplinks.server

  // MARK: Addresses of one subnet

  @Test(
    "T3 I3 an address of the same subnet appears, with another prefix length → the flow lives on",
    arguments: [("2001:db8::2/64", "2001:db8::d/128"), ("2001:db8::d/128", "2001:db8::2/64")])
  func sameSubnet(first: String, second: String) throws {
    let lab = try Uplinks.laboratory([], ipv6: true)
    try lab.addLink("eth0")
    try lab.outside.ip("address add 2001:db8::1/64 dev eth0 nodad")
    try lab.namespace.ip("address add \(first) dev eth0 nodad")
    // A router announces the prefix as on-link, even if it does not assign the addresses.
    try lab.namespace.ip("-6 route replace 2001:db8::/64 dev eth0")
    try lab.namespace.ip("-6 route add default via 2001:db8::1 dev eth0")
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server6)
    // The kernel prefers the newer of two equally good addresses.
    try lab.namespace.ip("address add \(second) dev eth0 nodad")
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.ipv6.source == second.split(separator: "/").first.map(String.init))
    try flow.expectSpared { try lab.namespace.ip("address del \(first) dev eth0") }
  }

  // MARK: Routers of one LAN

  /// A LAN with two routers, 10.0.0.1 and 10.0.0.254, each with its own MAC; both lead to the
  /// outside.
  private func lan() throws -> Laboratory {
    let link = "eth0"
    let lab = try Uplinks.laboratory([link])
    for name in ["all", link] {
      try lab.outside.set("net/ipv4/conf/\(name)/rp_filter", "0")
      try lab.outside.set("net/ipv4/conf/\(name)/arp_ignore", "1")
    }
    try lab.outside.ip("link add link \(link) name second type macvlan mode bridge")
    try lab.outside.set("net/ipv4/conf/second/rp_filter", "0")
    try lab.outside.ip("address add 10.0.0.254/32 dev second")
    try lab.outside.ip("link set second up")
    try lab.start()
    return lab
  }

  private func end(_ lab: Laboratory) throws {
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
  }

  @Test("I3 I4 a host route by another router of the LAN → the flow lives on")
  func hostRoute() throws {
    let lab = try self.lan()
    let flow = try GuardedFlow(lab, to: Self.server)
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    try lab.ip("route add \(Self.server) via 10.0.0.254 dev eth0")
    // The route is in use, and the kernel knows the router's MAC, before anything else happens.
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    let next = try GuardedFlow(lab, to: Self.server)
    #expect(next.path.gateway == "10.0.0.254")
    try GuardedFlow.expectSpared([flow, next, near]) { try self.end(lab) }
  }

  @Test("I3 I4 the default route moves to another router of the LAN → the flow lives on")
  func defaultMoves() throws {
    let lab = try self.lan()
    let flow = try GuardedFlow(lab, to: Self.server)
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    try lab.ip("route replace default via 10.0.0.254 dev eth0 metric 100")
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.ipv4.gateway == "10.0.0.254")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    let next = try GuardedFlow(lab, to: Self.server)
    #expect(next.path.gateway == "10.0.0.254")
    // The flow's original router is no longer used, and forgotten.
    try lab.namespace.ip("neighbour flush dev eth0")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try GuardedFlow.expectSpared([flow, next]) {
      try near.expectSpared(atMost: .nothing) { try self.end(lab) }
    }
  }

  @Test(
    "I4 the gateway's MAC changes while the link stays up → a failover, and advise, even if a cluster's address is lost first",
    arguments: [false, true])
  func failover(losesAddress: Bool) throws {
    let lab = try self.lan()
    try lab.namespace.ip("address add 10.0.0.100/32 dev eth0")
    let flow = try GuardedFlow(lab, to: Self.server)
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    if losesAddress {
      // The cluster's manager has noticed that the router no longer answers.
      try lab.namespace.ip("neighbour del 10.0.0.1 dev eth0")
      try lab.namespace.ip("address del 10.0.0.100/32 dev eth0")
    }
    try lab.outside.ip("link set eth0 address 02:00:00:00:00:99")
    try lab.namespace.ip(
      "neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud reachable")
    let told = try #require(lab.watcher).nextInvalidation()
    #expect("\(told.severity) \(told.reason)" == "advise networkChanged")
    #expect(told.scope.interface == "eth0")
    #expect(told.scope.destination == "offLink")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try flow.expectSpared { try near.expectSpared(atMost: .nothing) { try self.end(lab) } }
  }

  // MARK: Routers that advertise themselves

  @Test("I3 the used one of two IPv6 routers falls silent → the path moves, and the flow with it")
  func silence() throws {
    let lab = try Uplinks.laboratory(["eth0"], routes: [], ipv6: true)
    try lab.namespace.set("net/ipv6/conf/eth0/accept_ra", "2")
    for (name, value) in [
      ("retrans_time_ms", 50), ("base_reachable_time_ms", 200), ("ucast_solicit", 1),
      ("mcast_solicit", 1), ("delay_first_probe_time", 0),
    ] {
      try lab.namespace.set("net/ipv6/neigh/eth0/\(name)", "\(value)")
    }
    // A router that clears the R flag of its advertisements is no longer used as one.
    try lab.outside.set("net/ipv6/conf/all/forwarding", "1")
    let routers = ["fe80::a", "fe80::b"]
    for (number, router) in routers.enumerated() {
      let link = "router\(number)"
      try lab.outside.ip("link add link eth0 name \(link) type macvlan mode bridge")
      try lab.outside.set("net/ipv6/conf/\(link)/addr_gen_mode", "1")
      try lab.outside.ip("link set \(link) up")
      try lab.outside.ip("address add \(router)/64 dev \(link) nodad")
      try RouterAdvertisement(lifetime: 600).announce(to: lab, by: link, as: "\(router) ")
    }
    let first = try #require(try lab.start().ipv6.gateway)
    let index = try #require(routers.firstIndex(of: first))
    let flow = try GuardedFlow(lab, to: Uplinks.server6)
    #expect(flow.path.gateway == first)
    try lab.outside.ip("link set router\(index) down")
    // TCP retransmits, so that the kernel probes its neighbour.
    #expect(try #require(flow.connection).send())
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.ipv6.gateway == routers[1 - index])
    try flow.expectSpared { try lab.namespace.ip("address del 2001:db8:0::2/64 dev eth0") }
  }
}

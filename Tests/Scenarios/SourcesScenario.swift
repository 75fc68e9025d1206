import TestKit
import TestTraits
import Testing

/// Connections whose source address is not one of the link they leave by.
@Suite("Sources", .needsNamespaces, .blocking)
struct SourcesScenario {
  private func online() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    return lab
  }

  @Test("I0 a router's own connection from its LAN address lives, whatever happens on the LAN")
  func sideOfTheLAN() throws {
    let lab = try self.online()
    try lab.addLink("lan0")
    try lab.namespace.ip("address add 192.168.1.1/24 dev lan0")
    try lab.outside.ip("route add 192.168.1.0/24 via 10.0.0.2")
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "192.168.1.1"))
    #expect(flow.path.interface == "eth0")
    try lab.ip("link set lan0 mtu 1400")
    try lab.step("the LAN's carrier goes") { try lab.outside.ip("link set lan0 down") }
    try waitUntil("the carrier has gone") {
      try lab.namespace.ip("link show lan0").contains("NO-CARRIER")
    }
    try lab.ip("link set eth0 mtu 1400")
    // Its answers might arrive by the LAN (E5).
    try flow.expectSpared(atMost: .advise) {
      try lab.namespace.ip("address del 192.168.1.1/24 dev lan0")
    }
  }

  @Test("I0 I1 an address on lo → guarded, and destroyed when it is removed")
  func loopback() throws {
    let lab = try self.online()
    try lab.namespace.ip("address add 198.51.100.7/32 dev lo")
    try lab.outside.ip("route add 198.51.100.7/32 via 10.0.0.2")
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "198.51.100.7"))
    #expect(flow.path.interface == "eth0")
    try lab.ip("link set eth0 mtu 1400")
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 198.51.100.7/32 dev lo")
    }
  }

  @Test(
    "I0 I3 a routing daemon's address follows the route to another link, or in time when the cable is pulled",
    arguments: [false, true])
  func routingDaemon(fails: Bool) throws {
    let lab = try Uplinks.laboratory(
      ["eth0", "eth1"], routes: [], configuration: "grace: {route: 20s}\n")
    for link in ["all", "eth0", "eth1"] {
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    try lab.namespace.ip("address add 198.51.100.7/32 dev lo")
    func route(by link: Int) throws {
      try lab.outside.ip("route replace 198.51.100.7/32 via 10.\(link).0.2 dev eth\(link)")
      try lab.namespace.ip(
        "route replace default via 10.\(link).0.1 dev eth\(link) proto bgp src 198.51.100.7")
    }
    try route(by: 0)
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    #expect(flow.connection?.local == "198.51.100.7" && flow.path.interface == "eth0")
    if fails {
      try lab.step("the cable is pulled") { try lab.outside.ip("link set eth0 down") }
      try flow.expectAdvice("interfaceLost")
    }
    try route(by: 1)
    let moved = try lab.events { $0.status.interface == "eth1" }.last
    #expect(moved?.status.ipv4.source == "198.51.100.7")
    try flow.expectSpared {
      try lab.namespace.ipBatch(["address del 198.51.100.7/32 dev lo", "link set eth1 down"])
    }
  }

  @Test(
    "I0 I3 an address given by a VPN stays on its link, and follows the route"
  )
  func virtualAddress() throws {
    let lab = try Uplinks.laboratory(
      ["wlan0", "eth1"], routes: ["wlan0"], configuration: "grace: {route: 20s}\n")
    for link in ["all", "wlan0", "eth1"] {
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    // As strongSwan installs it, and moves the outer connection with MOBIKE (RFC 4555).
    try lab.namespace.ip("address add 10.9.0.5/32 dev wlan0")
    try lab.namespace.ip("rule add priority 220 lookup 220")
    func route(by link: String, _ number: Int) throws {
      try lab.outside.ip("route replace 10.9.0.5/32 via 10.\(number).0.2 dev \(link)")
      try lab.namespace.ip(
        "route replace default via 10.\(number).0.1 dev \(link) table 220 proto static src 10.9.0.5"
      )
    }
    try route(by: "wlan0", 0)
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    #expect(flow.connection?.local == "10.9.0.5" && flow.path.interface == "wlan0")
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    try route(by: "eth1", 1)
    #expect(try lab.events { $0.status.interface == "eth1" }.last != nil)
    // The address follows.
    try lab.namespace.ip("address del 10.9.0.5/32 dev wlan0")
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ip("address add 10.9.0.5/32 dev eth1")
    // Its routes were removed together with the address.
    try route(by: "eth1", 1)
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try lab.awaitEvaluation()
    // Then the tunnel's link goes down and its routes with it; the tunnel moves a moment later.
    try lab.namespace.ip("link set eth1 down")
    #expect(try flow.invalidation().severity == "drain")
    try lab.namespace.ip("address del 10.9.0.5/32 dev eth1")
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ip("address add 10.9.0.5/32 dev wlan0")
    try route(by: "wlan0", 0)
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try lab.awaitEvaluation()
    try lab.namespace.ip("address del 10.9.0.5/32 dev wlan0")
    #expect(try flow.invalidation().reason == "sourceAddressLost")
  }

  @Test(
    "I0 an address on lo over two next hops: one link goes down → the connection goes on by the other"
  )
  func deadLeg() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [])
    try lab.namespace.ip("address add 198.51.100.7/32 dev lo")
    for link in ["all", "eth0", "eth1"] {
      // The host is reachable over both links, as long as they carry traffic.
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
      try lab.outside.set("net/ipv4/conf/\(link)/ignore_routes_with_linkdown", "1")
    }
    let hops = "nexthop via 10.0.0.GATE dev eth0 nexthop via 10.1.0.GATE dev eth1"
    try lab.outside.ip(
      "route add 198.51.100.7/32 \(hops.replacing("GATE", with: "2"))")
    try lab.namespace.ip("route add default \(hops.replacing("GATE", with: "1"))")
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "198.51.100.7"))
    try lab.ip("link set \(try #require(flow.path.interface)) down")
    try flow.expectSpared(atMost: .advise) {
      try lab.namespace.ip("address del 198.51.100.7/32 dev lo")
    }
  }

  @Test("I0 I1 AnyIP: a local route alone makes the address the machine's own")
  func anyIP() throws {
    let lab = try self.online()
    try lab.namespace.ip("route add local 198.18.0.0/24 dev lo")
    try lab.outside.ip("route add 198.18.0.0/24 via 10.0.0.2")
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "198.18.0.7"))
    #expect(flow.path.interface == "eth0")
    #expect(flow.path.source == "198.18.0.7")
    try lab.ip("link set eth0 mtu 1400")
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("route del local 198.18.0.0/24 dev lo")
    }
  }

  @Test(
    "I0 I1 IPv4-mapped addresses of a dual-stack socket count as IPv4", arguments: [true, false])
  func mapped(remoteToo: Bool) throws {
    let lab = try self.online()
    let connection = try TCPConnection(
      from: lab.namespace, to: lab.outside, at: Uplinks.server, .init(isDualStack: true))
    #expect(connection.local == "::ffff:10.0.0.2")
    let remote =
      remoteToo
      ? connection.remoteEndpoint
      : connection.remoteEndpoint.replacing("[::ffff:", with: "").replacing("]", with: "")
    let flow = try GuardedFlow(
      lab, remote, connection, arguments: ["--local", connection.localEndpoint])
    #expect(flow.path.interface == "eth0")
    #expect(flow.path.source == "10.0.0.2")
    try lab.ip("link set eth0 mtu 1400")
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test("I2 the link of a flow with mapped addresses goes down → destroyed like any other")
  func mappedLost() throws {
    let lab = try self.online()
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(isDualStack: true))
    try lab.ip("link set eth0 down")
    try flow.expectDestroyed("interfaceLost", cause: "linkDown")
  }
}

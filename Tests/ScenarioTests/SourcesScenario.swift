import TestKit
import Testing

/// Addresses that connections leave from, and that are not those of the link that they leave by.
@Suite("Sources", .needsNamespaces, .laboratory)
struct SourcesScenario {
  private func online() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    return lab
  }

  @Test("I0 a router's own connection from its address on the LAN lives, whatever the LAN does")
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
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 192.168.1.1/24 dev lan0")
    }
  }

  @Test("I0 I1 an address of lo")
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
    "I0 an address of lo over two nexthops: the link of one goes, and the connection goes on by the other"
  )
  func deadLeg() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [])
    try lab.namespace.ip("address add 198.51.100.7/32 dev lo")
    for link in ["all", "eth0", "eth1"] {
      // The host is reached by both, as by those that carry.
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

  @Test("I0 I1 AnyIP: an address that is the machine's own by a local route alone")
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
    "I0 I1 mapped addresses, as a dual-stack socket has them, are IPv4", arguments: [true, false])
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

  @Test("I2 a mapped flow's link goes down: it is told as any other")
  func mappedLost() throws {
    let lab = try self.online()
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(isDualStack: true))
    try lab.ip("link set eth0 down")
    try flow.expectDestroyed("interfaceLost", cause: "linkDown")
  }
}

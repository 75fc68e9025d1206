import TestKit
import TestTraits
import Testing

/// A host whose address is on a bridge. The cable is one port, guests are the others.
@Suite("Bridges", .needsNamespaces, .blocking)
struct BridgesScenario {
  /// The laboratory, and the namespace of a guest with the address 10.0.0.50.
  private func bridged(cables: [String] = ["eth0"]) throws -> (Laboratory, NetworkNamespace) {
    let lab = try Laboratory(configuration: Uplinks.media)
    try lab.outside.ip("address add \(Uplinks.server)/32 dev lo")
    try lab.namespace.ip("link add br0 type bridge")
    try lab.namespace.ip("link set br0 up")
    // The guest is added first, to show that the order of the ports does not matter.
    let guest = try NetworkNamespace()
    try lab.namespace.ip(
      "link add vnet0 index 50 type veth peer name eth0 index 5000 netns \(guest.name)")
    try guest.ip("address add 10.0.0.50/24 dev eth0")
    try guest.ip("link set eth0 up")
    for cable in cables { try lab.addLink(cable) }
    for port in ["vnet0"] + cables {
      try lab.namespace.ip("link set \(port) master br0")
      try lab.namespace.ip("link set \(port) up")
    }
    try lab.namespace.ip("address add 10.0.0.2/24 dev br0")
    try lab.outside.ip("address add 10.0.0.1/24 dev eth0")
    try lab.namespace.ip("route add default via 10.0.0.1 dev br0")
    // The bridge learns the gateway's port from the gateway's packets.
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(connection.carries(within: .seconds(10)))
    let status = try lab.start()
    #expect(status.category == "wired")
    #expect(status.ipv4.chain == ["br0", "eth0"])
    return (lab, guest)
  }

  private func end(_ lab: Laboratory) throws {
    try lab.namespace.ip("address del 10.0.0.2/24 dev br0")
  }

  /// Takes a port's carrier away at its other end, and returns when the kernel knows.
  private func loseCarrier(
    _ port: String, of lab: Laboratory, at other: NetworkNamespace, _ end: String
  ) throws {
    try other.ip("link set \(end) down")
    try waitUntil("\(port) has lost its carrier") {
      try lab.namespace.ip("link show \(port)").contains("NO-CARRIER")
    }
  }

  @Test("K6 T3 I2 a guest's port loses its carrier → nothing is reported")
  func guestGoes() throws {
    let (lab, guest) = try self.bridged()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    #expect(flow.path.chain == ["br0", "eth0"])
    try self.loseCarrier("vnet0", of: lab, at: guest, "eth0")
    try lab.namespace.ip("link del vnet0")
    try flow.expectSpared(atMost: .nothing) { try self.end(lab) }
  }

  @Test("K6 T3 I2 a cable's port that carries no traffic loses its carrier → nothing is reported")
  func otherCableGoes() throws {
    let (lab, guest) = try self.bridged(cables: ["eth1", "eth0"])
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try self.loseCarrier("eth1", of: lab, at: lab.outside, "eth1")
    let status = try lab.status()
    #expect(status.category == "wired")
    #expect(status.ipv4.chain == ["br0", "eth0"])
    try flow.expectSpared(atMost: .nothing) { try self.end(lab) }
    withExtendedLifetime(guest) {}
  }

  @Test("K6 T3 a tap without a guest is added and removed as a port → nothing is reported")
  func tap() throws {
    let (lab, guest) = try self.bridged()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.namespace.ip("tuntap add tap0 mode tap")
    try lab.namespace.ip("link set tap0 master br0")
    try lab.namespace.ip("link set tap0 up")
    #expect(try lab.status().ipv4.chain == ["br0", "eth0"])
    try lab.namespace.ip("link set tap0 nomaster")
    try lab.namespace.ip("link del tap0")
    try flow.expectSpared(atMost: .nothing) { try self.end(lab) }
    withExtendedLifetime(guest) {}
  }

  @Test(
    "K6 I2 the cable loses its carrier while a guest's port is up → no network, but guests are reachable"
  )
  func cableGoes() throws {
    let (lab, guest) = try self.bridged()
    let far = try GuardedFlow(lab, to: Uplinks.server)
    let near = try GuardedFlow(lab, to: "10.0.0.50", in: guest)
    try lab.outside.ip("link set eth0 down")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.status.ipv4.status == "requiresConnection")
    #expect(loss.status.ipv4.reason == "noCarrier")
    try far.expectDestroyed("interfaceLost", cause: "carrierLost")
    #expect(try lab.connctl("is", "online").status == 1)
    #expect(near.connection?.carries(within: .seconds(10)) == true)

    try lab.outside.ip("link set eth0 up")
    #expect(try lab.event().to == "wired")
    let next = try GuardedFlow(lab, to: Uplinks.server)
    try GuardedFlow.expectSpared([near, next], atMost: .nothing) { try self.end(lab) }
  }

  @Test("K6 I2 the cable is taken out of the bridge → its traffic is lost")
  func cableLeaves() throws {
    let (lab, guest) = try self.bridged()
    let far = try GuardedFlow(lab, to: Uplinks.server)
    let near = try GuardedFlow(lab, to: "10.0.0.50", in: guest)
    try lab.namespace.ip("link set eth0 nomaster")
    try far.expectDestroyed("interfaceLost", after: nil)
    try near.expectSpared { try self.end(lab) }
  }

  @Test("K6 I2 the cable is behind a second bridge and a pair of links → its loss is noticed")
  func pairBetweenBridges() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    let host = lab.namespace
    try host.ip("link add va type veth peer name vb")
    for (bridge, ports) in [("br0", ["va"]), ("br1", ["vb", "eth0"])] {
      try host.ip("link add \(bridge) type bridge")
      for port in ports { try host.ip("link set \(port) master \(bridge)") }
      for link in ports + [bridge] { try host.ip("link set \(link) up") }
    }
    try host.ip("address flush dev eth0")
    try host.ip("address add 10.0.0.2/24 dev br0")
    try host.ip("route add default via 10.0.0.1 dev br0")
    let connection = try TCPConnection(from: host, to: lab.outside, at: Uplinks.server)
    #expect(connection.carries(within: .seconds(10)))
    let status = try lab.start()
    #expect(status.category == "wired")
    #expect(status.ipv4.chain == ["br0", "va", "vb", "br1", "eth0"])
    let flow = try GuardedFlow(lab, to: Uplinks.server)

    try lab.outside.ip("link set eth0 down")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.status.ipv4.reason == "noCarrier")
    try flow.expectDestroyed("interfaceLost", cause: "carrierLost")

    try lab.outside.ip("link set eth0 up")
    #expect(try lab.event().to == "wired")
    let next = try GuardedFlow(lab, to: Uplinks.server)
    try host.ip("link del vb")
    #expect(try lab.event().to == "none")
    try next.expectDestroyed("interfaceLost")
  }
}

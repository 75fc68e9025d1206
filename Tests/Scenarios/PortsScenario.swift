import TestKit
import TestTraits
import Testing

/// A bridge's effects on its ports, with real traffic: it takes their packets, blocks frames, and
/// learns the gateway's port.
@Suite("Ports of bridges", .needsNamespaces, .blocking)
struct PortsScenario {
  /// A host whose address is on its cable, and a bridge beside it.
  private func cable(grace: String = "1s") throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0"], configuration: "grace: {route: \(grace)}\n")
    try lab.namespace.ip("link add br0 type bridge")
    return lab
  }

  @Test(
    "K3 I10 the uplink becomes a port of a bridge and keeps its address → no network, and the connection is dead",
    arguments: [false, true])
  func taken(isUp: Bool) throws {
    let lab = try self.cable()
    if isUp { try lab.namespace.ip("link set br0 up") }
    // The distributions' default: otherwise traffic continues until the router's entry expires.
    for link in ["all", "br0"] { try lab.namespace.set("net/ipv4/conf/\(link)/rp_filter", "2") }
    #expect(try lab.start().category == "wired")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.ip("link set eth0 master br0")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.reason == "noSourceAddress")
    #expect(loss.last?.status.interface == "eth0")
    #expect(try lab.connctl("is", "online").status == 1)
    let explained = try lab.connctl("explain").output
    let wanted = "No traffic leaves: eth0 has no usable source address (eth0 is a port of br0).\n"
    #expect(explained.hasPrefix(wanted), "\(explained)")
    try flow.expectDestroyed("interfaceLost", after: ["advise interfaceLost"])

    try lab.ip("link set eth0 nomaster")
    #expect(try lab.events { $0.status.category == "wired" }.last?.to == "wired")
  }

  @Test(
    "K3 I10 the uplink leaves the bridge within the grace period → nothing is destroyed")
  func givenBack() throws {
    let lab = try self.cable(grace: "20s")
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.ip("link set eth0 master br0")
    #expect(try lab.events { $0.status.category == "none" }.isEmpty == false)
    try lab.ip("link set eth0 nomaster")
    try flow.expectSpared {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
      // Ends the grace period.
      try lab.namespace.ip("link set eth0 down")
    }
  }

  /// A bridge with the address, the cable, and a guest whose port forwards.
  private func bridged() throws -> (Laboratory, NetworkNamespace) {
    let lab = try Laboratory(configuration: Uplinks.media)
    try lab.outside.ip("address add \(Uplinks.server)/32 dev lo")
    let guest = try NetworkNamespace()
    try lab.namespace.ip(
      "link add vnet0 index 50 type veth peer name eth0 index 5000 netns \(guest.name)")
    try guest.ip("link set eth0 up")
    try lab.addLink("eth0")
    try lab.namespace.ip("link add br0 type bridge")
    try lab.namespace.ip("link set br0 up")
    for port in ["vnet0", "eth0"] {
      try lab.namespace.ip("link set \(port) master br0")
      try lab.namespace.ip("link set \(port) up")
    }
    try lab.namespace.ip("address add 10.0.0.2/24 dev br0")
    try lab.namespace.ip("route add default via 10.0.0.1 dev br0")
    return (lab, guest)
  }

  @Test("K3 the spanning tree blocks the uplink's port → no network until the port forwards")
  func spanningTree() throws {
    let (lab, guest) = try self.bridged()
    try lab.outside.ip("address add 10.0.0.1/24 dev eth0")
    #expect(try lab.start().category == "wired")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    // 2 s each for listening and learning. The guest's port is up all the time.
    try lab.namespace.ip("link set br0 type bridge stp_state 1 forward_delay 200")
    try lab.namespace.ip("link set eth0 nomaster")
    try lab.events { $0.status.category == "none" }
    try lab.namespace.ip("link set eth0 master br0")
    try flow.expectDestroyed("interfaceLost", after: nil)
    #expect(try lab.status().ipv4.reason == "dormant")
    #expect(try lab.connctl("wait", "online", "--timeout", "20s").status == 0)
    #expect(try lab.namespace.run("bridge", "link", "show", "dev", "eth0").contains("forwarding"))
    let next = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(next.carries(within: .seconds(10)))

    // Blocking again: an STP daemon found a loop.
    try lab.namespace.ip("link set br0 type bridge stp_state 0")
    try lab.namespace.run("bridge", "link", "set", "dev", "eth0", "state", "4")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.reason == "dormant")
    withExtendedLifetime(guest) {}
  }

  @Test("K3 the uplink's port is locked for the gateway → no network until the bridge has an entry")
  func locked() throws {
    let (lab, guest) = try self.bridged()
    try lab.outside.ip("address add 10.0.0.1/24 dev eth0")
    #expect(try lab.start().category == "wired")
    try lab.namespace.run("bridge", "link", "set", "dev", "eth0", "learning", "off")
    try lab.namespace.ip("link set eth0 type bridge_slave fdb_flush")
    try lab.namespace.run("bridge", "link", "set", "dev", "eth0", "locked", "on")
    #expect(try lab.events { $0.status.category == "none" }.last?.status.ipv4.reason == "dormant")
    let address = try lab.outside.run("cat", "/sys/class/net/eth0/address").filter {
      !$0.isWhitespace
    }
    // A lookup of the gateway, from which connd knows its MAC.
    try lab.namespace.run("bridge", "fdb", "add", address, "dev", "eth0", "master", "static")
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(connection.carries(within: .seconds(10)))
    #expect(try lab.events { $0.status.category == "wired" }.isEmpty == false)
    withExtendedLifetime(guest) {}
  }

  @Test(
    "K6 I5 I0 the bridge learns that the gateway is a guest → the path is refined, and nothing ends"
  )
  func gatewayIsGuest() throws {
    let (lab, guest) = try self.bridged()
    try guest.ip("address add 10.0.0.1/24 dev eth0")
    try guest.ip("address add \(Uplinks.server)/32 dev lo")
    try guest.ip("link set lo up")
    try lab.outside.ip("address del \(Uplinks.server)/32 dev lo")
    // Before any traffic, a cable is the likeliest port.
    let first = try lab.start()
    #expect(first.category == "wired")
    #expect(first.ipv4.chain == ["br0", "eth0"])
    let flow = try GuardedFlow(lab, to: Uplinks.server, in: guest)
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.category == "other")
    #expect(event.status.ipv4.chain == ["br0", "vnet0"])
    try #require(lab.watcher).wideIs("advise")
    try flow.expectSpared { try lab.namespace.ip("address del 10.0.0.2/24 dev br0") }
  }
}

import TestKit
import Testing

/// Changes that concern only some destinations.
extension FlowsScenario {
  @Test("I3 a host route captures the server → its flow is destroyed, another's is not")
  func captured() throws {
    let lab = try self.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.outside.ip("address add 203.0.113.2/32 dev lo")
    let flow = try GuardedFlow(lab, to: Self.server)
    let other = try GuardedFlow(lab, to: "203.0.113.2")
    try lab.ip("route add \(Self.server)/32 via 10.1.0.1 dev eth1")
    try flow.expectDestroyed("betterPath", cause: "routeAdded")
    try other.expectAlive(in: lab, on: "eth0")
  }

  @Test(
    "I3 I10 the server's address moves to this machine → flows to the other machine end, unless it moves back"
  )
  func addressTakenOver() throws {
    let lab = try self.laboratory(["eth0"])
    try lab.outside.ip("address add 10.0.0.100/32 dev eth0")
    let flow = try GuardedFlow(lab, to: "10.0.0.100")
    try lab.namespace.ip("address add 10.0.0.100/32 dev eth0")
    #expect(try flow.invalidation().severity == "drain")
    // A new connection reaches this machine.
    let local = try GuardedFlow(lab, to: "10.0.0.100", in: lab.namespace)
    #expect(local.path.interface == "lo")
    try flow.expectDestroyed("interfaceLost")
    try lab.namespace.ip("address del 10.0.0.100/32 dev eth0")
    try local.expectDestroyed("sourceAddressLost", "interfaceLost", after: nil)
  }

  @Test("I5 the server is on the link while the default path changes → its flow goes on")
  func onLink() throws {
    let lab = try self.laboratory(["eth0", "wlan0"], routes: ["wlan0"])
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    let far = try GuardedFlow(lab, to: Self.server)
    try lab.ip("link set wlan0 down")
    #expect(try lab.event().to == "none")
    try lab.ip("route add default via 10.0.0.1 dev eth0 metric 50")
    #expect(try lab.event().to == "wired")
    try far.expectDestroyed("interfaceLost")
    try near.expectAlive(in: lab, on: "eth0")
  }

  @Test("I5 the path below a tunnel moves → a flow inside survives")
  func tunnel() throws {
    let lab = try self.laboratory(["wlan0", "wwan0"])
    try self.addTunnel(to: lab)
    let inside = try GuardedFlow(lab, to: "10.9.0.1")
    #expect(inside.path.interface == "tun9")
    let outside = try GuardedFlow(lab, to: Self.server)

    try lab.namespace.ip("link set wlan0 down")
    try lab.outside.ip("route replace 198.51.100.2/32 via 10.1.0.2")
    #expect(try lab.event().to == "cellular")
    try outside.expectDestroyed("interfaceLost")
    try inside.expectAlive(in: lab, on: "tun9")
  }

  @Test("I0 K6 a tunnel works although only a source-port rule leads to its remote end")
  func tunnelBySourcePort() throws {
    let lab = try self.laboratory(["wlan0", "wwan0"])
    try self.addTunnel(to: lab)
    // A lookup without a port is refused; a tunnel takes its packets' source port from the inner
    // packet (udp_flow_src_port).
    try lab.namespace.ip("route add unreachable \(Self.server)")
    try lab.namespace.ip("route add \(Self.server) via 10.1.0.1 table 100")
    try lab.namespace.ip("rule add ipproto udp sport 32768-60999 lookup 100")
    try lab.outside.ip("route replace 198.51.100.2/32 via 10.1.0.2")
    let inside = try GuardedFlow(lab, to: "10.9.0.1")
    try lab.namespace.ip("link set wlan0 down")
    #expect(try lab.event().to == "cellular")
    try inside.expectAlive(in: lab, on: "tun9")
  }

  /// A tunnel whose ends answer any outer address of the other. The addresses are on `lo`, so that
  /// flows inside survive when the tunnel roams.
  private func addTunnel(to lab: Laboratory) throws {
    try lab.namespace.ip("address add 198.51.100.2/32 dev lo")
    try lab.outside.set("net/ipv4/conf/all/rp_filter", "0")
    for link in ["wlan0", "wwan0"] { try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0") }
    try lab.namespace.ip(
      "link add tun9 type vxlan id 9 local 198.51.100.2 remote \(Self.server) dstport 4789")
    try lab.outside.ip(
      "link add tun9 type vxlan id 9 local \(Self.server) remote 198.51.100.2 dstport 4789")
    try lab.outside.ip("route add 198.51.100.2/32 via 10.0.0.2")
    for (namespace, address) in [(lab.namespace, "10.9.0.2"), (lab.outside, "10.9.0.1")] {
      try namespace.ip("address add \(address)/24 dev tun9")
      try namespace.ip("link set tun9 up")
    }
  }

  @Test("T3 I1 a temporary address is replaced → old flows go on until it is deleted")
  func temporaryAddress() throws {
    let lab = try Laboratory(ipv6: true, configuration: Self.media)
    try lab.addLink("eth0", ipv6: "2001:db8:7::2")
    try lab.outside.ip("address add 2001:db8:99::1/128 dev lo nodad")
    try lab.namespace.ip("route add default via 2001:db8:7::1 dev eth0")
    try lab.start()
    let old = try GuardedFlow(lab, to: "2001:db8:99::1")
    #expect(old.connection?.local == "2001:db8:7::2")

    try lab.namespace.ip("address add 2001:db8:7::3/64 dev eth0 nodad")
    try lab.namespace.ip("address change 2001:db8:7::2/64 dev eth0 preferred_lft 0")
    try waitUntil("new connections get the new address") {
      try lab.status().ipv6.source == "2001:db8:7::3"
    }
    let new = try GuardedFlow(lab, to: "2001:db8:99::1")
    #expect(new.connection?.local == "2001:db8:7::3")
    #expect(old.connection?.carries(within: .seconds(10)) == true)
    try lab.namespace.ip("address del 2001:db8:7::2/64 dev eth0")
    let narrow = try #require(lab.watcher).nextInvalidation()
    #expect(narrow.reason == "sourceAddressLost")
    #expect(narrow.scope.localAddresses == ["2001:db8:7::2"])
    try old.expectDestroyed("sourceAddressLost", cause: "addressRemoved")
    try new.expectAlive(in: lab, on: "eth0")
  }

  @Test("T3 containers come and go → no flow is affected")
  func containers() throws {
    let lab = try self.laboratory(["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    let loopback = try GuardedFlow(lab, "127.0.0.1")
    for number in 0..<20 {
      let (pair, peer) = ("veth\(number)", "peer\(number)")
      try lab.namespace.ipBatch([
        "link add \(pair) type veth peer name \(peer)",
        "address add 172.17.\(number).1/24 dev \(pair)",
        "link set \(pair) up", "link set \(peer) up", "link del \(pair)",
      ])
    }
    try lab.step("containers") {}
    try flow.expectAlive(in: lab, on: "eth0")
    // The events took away the whole path: even that does not concern flows that never leave the
    // machine.
    let status = try lab.connctl("status", "--json")
    #expect(status.status == 0)
    withExtendedLifetime(loopback) {}
  }
}

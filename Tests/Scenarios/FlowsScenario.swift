import TestKit
import Testing

/// Which connections connd gives up, and which not, compared with TCP itself.
@Suite("Flows", .needsNamespaces, .laboratory)
struct FlowsScenario {
  private static let server = Uplinks.server
  private static let media = Uplinks.media

  private func laboratory(
    _ links: [String], routes: [String]? = nil, configuration: String = ""
  ) throws -> Laboratory {
    let lab = try Uplinks.laboratory(links, routes: routes, configuration: configuration)
    try lab.start()
    return lab
  }

  private func wide(_ lab: Laboratory, _ severity: String) throws {
    let watcher = try #require(lab.watcher)
    while true {
      let invalidation = try watcher.nextInvalidation()
      guard invalidation.reason == "categoryChanged" else { continue }
      #expect(invalidation.severity == severity)
      #expect(
        invalidation.scope
          == .init(interface: nil, family: nil, localAddresses: nil, destination: nil))
      return
    }
  }

  // MARK: From one medium to another

  @Test(
    "I2 I5 Wi-Fi goes down and cellular takes over → the flow on Wi-Fi is destroyed, and the category change is published"
  )
  func wifiToCellular() throws {
    let lab = try self.laboratory(["wlan0", "wwan0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    #expect(flow.path.interface == "wlan0")
    try lab.ip("link set wlan0 down")
    #expect(try lab.event().to == "cellular")
    let narrow = try #require(lab.watcher).nextInvalidation()
    #expect(narrow.reason == "interfaceLost")
    #expect(narrow.scope.interface == "wlan0")
    try self.wide(lab, "destroy")
    try flow.expectDestroyed("interfaceLost", cause: "linkDown")
    // The next connection immediately uses the available network.
    let next = try GuardedFlow(lab, to: Self.server)
    #expect(next.path.interface == "wwan0")
    try next.expectAlive(in: lab, on: "wwan0")
  }

  @Test("I3 I5 Wi-Fi comes back and is preferred → the flow on cellular is destroyed")
  func cellularToWifi() throws {
    let lab = try self.laboratory(["wlan0", "wwan0"], routes: ["wwan0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    #expect(flow.path.interface == "wwan0")
    try lab.ip("route add default via 10.0.0.1 dev wlan0 metric 50")
    #expect(try lab.event().to == "wifi")
    try self.wide(lab, "destroy")
    // The kernel now sends the flow by another link, which says more than the category.
    try flow.expectDestroyed("betterPath", cause: "routeAdded")
  }

  @Test("I3 a better link of the same medium appears → the flow on the old one is destroyed")
  func betterPath() throws {
    let lab = try self.laboratory(["eth0", "eth1"], routes: ["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    #expect(try lab.event().event == "path")
    let narrow = try #require(lab.watcher).nextInvalidation()
    #expect(narrow.reason == "betterPath")
    #expect(narrow.scope.interface == "eth0")
    #expect(narrow.scope.family == "ipv4")
    try flow.expectDestroyed("betterPath", cause: "routeAdded")
  }

  @Test("I9 the configuration softens a better path to drain")
  func softened() throws {
    let lab = try self.laboratory(
      ["eth0", "eth1"], routes: ["eth0"], configuration: "invalidations: {betterPath: drain}\n")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    let drained = try flow.invalidation()
    #expect(drained.severity == "drain")
    #expect(drained.reason == "betterPath")
    #expect(try #require(lab.watcher).nextInvalidation().severity == "drain")
  }

  @Test("I3 a rule keeps packets from the flow's address on its link → the flow is only advised")
  func pinned() throws {
    let lab = try self.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.ip("route add default via 10.0.0.1 dev eth0 table 100")
    try lab.ip("rule add from 10.0.0.2 lookup 100")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    #expect(try lab.event().event == "path")
    try flow.expectAlive(in: lab, on: "eth0", advised: ["betterPath"])
  }

  // MARK: Grace

  @Test("I10 Wi-Fi loses its carrier briefly, as in roaming → nothing is destroyed")
  func roamed() throws {
    let lab = try self.laboratory(["wlan0"], configuration: "grace: {wifi: 20s}\n")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.outside.ip("link set wlan0 down")
    #expect(try lab.event().to == "none")
    try self.wide(lab, "advise")
    // Flows are evaluated after the publication: the advice must still be true then.
    try flow.expectAdvice("interfaceLost")
    try lab.outside.ip("link set wlan0 up")
    let back = try lab.event()
    #expect(back.to == "wifi")
    try self.wide(lab, "advise")
    try flow.expectSpared { try lab.namespace.ip("address del 10.0.0.2/24 dev wlan0") }
  }

  @Test(
    "I10 Wi-Fi does not come back in time → the flow is destroyed at the end of the grace period")
  func graceOver() throws {
    let lab = try self.laboratory(["wlan0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.outside.ip("link set wlan0 down")
    #expect(try lab.event().to == "none")
    try self.wide(lab, "advise")
    try self.wide(lab, "destroy")
    try flow.expectDestroyed(
      "interfaceLost", after: ["advise interfaceLost"], cause: "graceEnded")
    try lab.outside.ip("link set wlan0 up")
    #expect(try lab.event().to == "wifi")
    try self.wide(lab, "destroy")
  }

  @Test("I2 the cable is pulled → no grace period, which only Wi-Fi has")
  func cablePulled() throws {
    let lab = try self.laboratory(["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.outside.ip("link set eth0 down")
    #expect(try lab.event().to == "none")
    try self.wide(lab, "destroy")
    try flow.expectDestroyed("interfaceLost", cause: "carrierLost")
  }

  @Test("I10 the default route is deleted and added again → nothing is destroyed")
  func routeBack() throws {
    let lab = try self.laboratory(["eth0"], configuration: "grace: {route: 20s}\n")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("route del default")
    #expect(try lab.event().to == "none")
    try self.wide(lab, "advise")
    try lab.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    #expect(try lab.event().to == "wired")
    try self.wide(lab, "advise")
    try flow.expectSpared {
      try lab.namespace.ipBatch(["address del 10.0.0.2/24 dev eth0", "link set eth0 down"])
    }
  }

  @Test(
    "I10 the default route does not come back → the flow is destroyed at the end of the grace period"
  )
  func routeGone() throws {
    let lab = try self.laboratory(["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("route del default")
    try flow.expectDestroyed(
      "interfaceLost", after: ["advise interfaceLost"], cause: "graceEnded")
  }

  @Test("I10 another path takes over during the grace period → it ends immediately")
  func takenOver() throws {
    let lab = try self.laboratory(
      ["wlan0", "wwan0"], routes: ["wlan0"], configuration: "grace: {wifi: 60s}\n")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.outside.ip("link set wlan0 down")
    #expect(try lab.event().to == "none")
    try flow.expectAdvice("interfaceLost")
    try lab.ip("route add default via 10.1.0.1 dev wwan0 metric 50")
    #expect(try lab.event().to == "cellular")
    try flow.expectDestroyed("interfaceLost")
  }

  // MARK: Links, addresses, gateways

  @Test("I2 the link is deleted → its flow is destroyed")
  func linkDeleted() throws {
    let lab = try self.laboratory(["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("link del eth0")
    // The kernel reports the link as down, and then its address as removed. connd may read both
    // together (I9).
    try flow.expectDestroyed("interfaceLost", "sourceAddressLost")
  }

  @Test("I1 the address is replaced and the route stays → the flow is destroyed")
  func addressReplaced() throws {
    let lab = try self.laboratory(["eth0"])
    try lab.ip("address add 10.0.0.3/24 dev eth0")
    try lab.namespace.set("net/ipv4/conf/eth0/promote_secondaries", "1")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.ip("address del 10.0.0.2/24 dev eth0")
    try flow.expectDestroyed("sourceAddressLost", cause: "addressRemoved")
  }

  @Test("I4 the carrier was lost, and another router has the gateway's address → another network")
  func gatewayReplaced() throws {
    let lab = try self.laboratory(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.outside.ip("link set wlan0 down")
    #expect(try lab.event().to == "none")
    // The kernel has known the gateway since the connection was made. Its successor knows nothing
    // of the connection.
    try lab.outside.ip("link set wlan0 address 02:00:00:00:00:99")
    try lab.outside.ip("address del \(Self.server)/32 dev lo")
    try lab.outside.ip("link set wlan0 up")
    #expect(try lab.event().to == "wifi")
    try lab.namespace.ip(
      "neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev wlan0 nud reachable")
    let watcher = try #require(lab.watcher)
    var narrow = try watcher.nextInvalidation()
    while narrow.reason != "networkChanged" { narrow = try watcher.nextInvalidation() }
    #expect(narrow.severity == "destroy")
    #expect(narrow.scope.interface == "wlan0")
    try flow.expectDestroyed("networkChanged", after: nil, cause: "gatewayChanged")
  }

  @Test("I4 the gateway is confirmed again and again → nothing is reported")
  func gatewayConfirmed() throws {
    let lab = try self.laboratory(["eth0"])
    let flow = try GuardedFlow(lab, to: Self.server)
    let words = try lab.namespace.ip("neighbour show 10.0.0.1").split(separator: " ")
    let address = try #require(words.drop { $0 != "lladdr" }.dropFirst().first)
    for state in ["stale", "reachable", "delay", "stale", "reachable"] {
      try lab.namespace.ip("neighbour replace 10.0.0.1 lladdr \(address) dev eth0 nud \(state)")
    }
    try flow.expectAlive(in: lab, on: "eth0")
  }

  // MARK: Changes that concern only some destinations

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

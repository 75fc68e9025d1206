import TestKit
import TestTraits
import Testing

/// Which connections connd gives up, and which not, compared with TCP itself.
@Suite("Flows", .needsNamespaces, .blocking)
struct FlowsScenario {
  static let server = Uplinks.server
  static let media = Uplinks.media

  func laboratory(
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
}

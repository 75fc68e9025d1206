import TestKit
import TestTraits
import Testing

/// Connections that fall silent after a change although their lookup holds (E2).
@Suite("Silence after a change", .needsNamespaces, .blocking)
struct SilenceScenario {
  @Test("E2 a shaper's ifb below the path is set down → its connections are found")
  func redirected() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    // connd ignores other links that come later.
    try lab.namespace.ip("link add ifb4eth0 type ifb")
    try lab.namespace.ip("link set ifb4eth0 up")
    for words in [
      "qdisc add dev eth0 ingress",
      "filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 "
        + "action mirred egress redirect dev ifb4eth0",
    ] {
      try lab.namespace.run("sh", "-c", "tc \(words)")
    }
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic()
    defer { traffic.stop() }
    try traffic.awaitAnswers()
    try lab.namespace.ip("link set ifb4eth0 down")
    try flow.expectDestroyed("silent", after: nil)
  }

  /// Makes a change that affects no lookup, at the moment when the outside begins to drop packets.
  private func losePackets(
    _ lab: Laboratory, _ share: Int, change: (() throws -> Void)? = nil
  ) throws {
    let chance = share < 100 ? "numgen random mod 100 < \(share)" : ""
    try lab.outside.nft(
      """
      table ip loss {
        chain pre { type filter hook prerouting priority raw;
          ip daddr \(Uplinks.server) \(chance) drop; }
        chain out { type filter hook output priority raw;
          ip saddr \(Uplinks.server) \(chance) drop; }
      }
      """)
    if let change { return try change() }
    // A rule may concern any flow.
    try lab.namespace.ip("rule add from 192.0.2.99 lookup 99")
  }

  @Test("E2 the address moves to another router, and data waits for the MAC of the old one → lives")
  func failover() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [])
    try lab.namespace.ip("address add 198.51.100.7/32 dev lo")
    func route(_ router: Int) throws {
      try lab.namespace.ip(
        "route replace default src 198.51.100.7 via 10.\(router).0.1 dev eth\(router) metric 20")
      try lab.outside.ip("route replace 198.51.100.7 via 10.\(router).0.2")
    }
    try route(0)
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic()
    try traffic.awaitAnswers()
    try lab.unplug("eth0")
    try flow.expectAdvice("interfaceLost")
    try route(1)
    // The kernel gives up the old router after three seconds. TCP then waits for its timeout.
    try traffic.awaitAnswers(50)
    traffic.stop()
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 198.51.100.7/32 dev lo")
    }
  }

  @Test("E2 the router is silent for 3.5 s, and the machine gets another address → lives")
  func unrelated() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic()
    try traffic.awaitAnswers()
    try self.losePackets(lab, 100) { try lab.namespace.ip("address add 10.0.0.77/24 dev eth0") }
    let end = ContinuousClock.now + .milliseconds(3500)
    while ContinuousClock.now < end { _ = try lab.status() }
    try lab.outside.nft("delete table ip loss")
    try traffic.awaitAnswers(50)
    traffic.stop()
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test(
    "E2 a change interrupts the path for up to three seconds → what speaks is not destroyed",
    .needsAll("half a minute"), arguments: [500, 1000, 2000, 2900])
  func interrupted(milliseconds: Int) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let gaps = [20, 100, 500, 900]
    let flows = try gaps.map { _ in try GuardedFlow(lab, to: Uplinks.server) }
    var traffic: [Traffic] = []
    for (flow, gap) in zip(flows, gaps) {
      traffic.append(
        try #require(flow.connection).startTraffic(every: .milliseconds(gap)))
    }
    for each in traffic { try each.awaitAnswers() }
    try self.losePackets(lab, 100)
    let end = ContinuousClock.now + .milliseconds(milliseconds)
    while ContinuousClock.now < end { _ = try lab.status() }
    try lab.outside.nft("delete table ip loss")
    for each in traffic {
      try each.awaitAnswers()
      each.stop()
    }
    try GuardedFlow.expectSpared(flows) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test("E2 all packets are lost silently after a change → advised, then destroyed as silent")
  func silent() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try waitUntil("the user learns it") { flow.remarks.contains("lookup is proof: if it fails") }
    let traffic = try #require(flow.connection).startTraffic()
    try traffic.awaitAnswers()
    try self.losePackets(lab, 100)
    try flow.expectDestroyed("silent", after: nil)
    traffic.stop()
  }

  @Test("E2 W4 a box on the way has lost a connection → a new one shows that, and the calls end")
  func contrasted() throws {
    let bench = try CallBench(["eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let calls = try client.open(CallBench.far)
    try bench.settled()
    let port = try #require(calls.local.split(separator: ":").last)
    try bench.lab.outside.nft(
      "table ip loss { chain in { type filter hook prerouting priority -300; tcp sport \(port) drop; }; }"
    )
    // The connection's route changes, but not its path.
    try bench.lab.namespace.ip("route replace default via 10.0.0.1 dev eth0 metric 100 advmss 1400")
    let moment = CallProbe.now
    try client.send("write \(CallBench.far) \(calls.ids["bidi"] ?? "")")
    try client.expectEnded(calls, ["silent"], since: moment, "a box has lost the connection")
    try client.expectNextCall(CallBench.far, from: "10.0.0.2", "the next call")
    try client.quit()
    try server.end()
  }

  @Test("E2 10 % of all packets are lost after a change → nothing is destroyed")
  func lossy() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic()
    try traffic.awaitAnswers()
    try self.losePackets(lab, 10)
    try traffic.awaitAnswers(500)
    try lab.outside.nft("delete table ip loss")
    traffic.stop()
    try flow.expectSpared {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  /// A host with one link that has this round-trip time.
  private func slowLaboratory(roundTrip: Duration) throws -> (Laboratory, DelayedLink) {
    let lab = try Uplinks.laboratory([])
    let link = try DelayedLink(
      "eth0", in: lab, "10.0.0.2", via: "10.0.0.1", delay: roundTrip / 2)
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0")
    try lab.start()
    return (lab, link)
  }

  @Test(
    "E2 a round trip takes 300 ms or a second, and something changes → nothing is destroyed",
    .enabled(if: TunDevice.isAvailable), .needsAll("half a minute"), arguments: [300, 1000])
  func slow(milliseconds: Int) throws {
    let (lab, link) = try self.slowLaboratory(roundTrip: .milliseconds(milliseconds))
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic(every: .milliseconds(20))
    try traffic.awaitAnswers()
    try lab.namespace.ip("rule add from 192.0.2.99 lookup 99")
    try traffic.awaitAnswers(200)
    traffic.stop()
    try flow.expectSpared { try lab.namespace.ip("address del 10.0.0.2/24 dev eth0") }
    link.end()
  }

  @Test(
    "E2 a slow link of a tunnel falls silent after a change → its flow is advised",
    .enabled(if: TunDevice.isAvailable))
  func slowAndDead() throws {
    let (lab, link) = try self.slowLaboratory(roundTrip: .milliseconds(300))
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic(every: .milliseconds(20))
    try traffic.awaitAnswers()
    link.fallSilent()
    try lab.namespace.ip("rule add from 192.0.2.99 lookup 99")
    // It is destroyed 30 s later; by then a VPN would have moved its tunnel.
    try flow.expectAdvice("silent")
    traffic.stop()
    link.end()
  }

  @Test("E2 a peer takes long to answer, and something changes → nothing is destroyed")
  func slowPeer() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let connection = try #require(flow.connection)
    #expect(connection.carries(within: .seconds(10)))
    #expect(connection.send())
    try lab.namespace.ip("rule add from 192.0.2.99 lookup 99")
    let end = ContinuousClock.now + .seconds(3)
    while ContinuousClock.now < end { _ = try lab.status() }
    try flow.expectSpared { try lab.namespace.ip("address del 10.0.0.2/24 dev eth0") }
  }

  @Test("E2 the peer's window is closed at a change → nothing is destroyed")
  func closedWindow() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let connection = try #require(flow.connection)
    #expect(connection.carries(within: .seconds(10)))
    connection.fillWindow()
    try lab.namespace.ip("rule add from 192.0.2.99 lookup 99")
    // Longer than three timeouts.
    let end = ContinuousClock.now + .seconds(4)
    while ContinuousClock.now < end { _ = try lab.status() }
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    let told = try flow.invalidation()
    #expect(told.reason == "sourceAddressLost")
  }

  @Test("E2 a half-closed connection whose FIN is never acknowledged → found dead")
  func halfClosed() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let connection = try #require(flow.connection)
    #expect(connection.carries(within: .seconds(10)))
    try self.losePackets(lab, 100)
    connection.endSending()
    let told = try flow.invalidation()
    #expect(told.reason == "silent")
  }
}

extension Laboratory {
  /// Takes a link's carrier at its other end.
  func unplug(_ link: String) throws { try self.outside.ip("link set \(link) down") }
}

extension NetworkNamespace {
  /// Loads rules in the syntax of nft(8).
  func nft(_ rules: String) throws {
    try TestSize.needsAll("nftables")
    try self.run("nft", rules)
  }
}

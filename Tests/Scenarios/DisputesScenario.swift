import TestKit
import TestTraits
import Testing

/// Connections that a lookup calls dead although they live, or that a program brings back soon.
@Suite("Disputed connections", .needsNamespaces, .blocking)
struct DisputesScenario {
  /// A host with one link, and a service address that netfilter redirects to this machine.
  private func redirectingLaboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.namespace.ip("link set lo up")
    try lab.namespace.nft(
      """
      table ip redirects {
        chain out { type nat hook output priority -100; ip daddr 10.96.0.1 redirect; }
      }
      """)
    try lab.start()
    return lab
  }

  private func redirected(_ lab: Laboratory) throws -> GuardedFlow {
    try GuardedFlow(
      lab, to: "10.96.0.1", .init(source: "10.0.0.2", listen: "127.0.0.1"), in: lab.namespace)
  }

  @Test(
    "E0 E1 a connection is redirected to this machine, and the cable is pulled → lives, whatever its pauses",
    arguments: [20, 100, 200, 500, 900])
  func redirected(milliseconds: Int) throws {
    let lab = try self.redirectingLaboratory()
    let flow = try self.redirected(lab)
    let traffic = try #require(flow.connection).startTraffic(every: .milliseconds(milliseconds))
    try traffic.awaitAnswers()
    try lab.unplug("eth0")
    try flow.expectAdvice("interfaceLost")
    // The time of every decision
    try traffic.awaitAnswers(2500 / milliseconds)
    traffic.stop()
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test("E1 I10 the cable is out, and a connection to this machine is made and registered → lives")
  func redirectedInDoubt() throws {
    let lab = try self.redirectingLaboratory()
    try lab.unplug("eth0")
    _ = try lab.event()
    let connection = try TCPConnection(
      from: lab.namespace, to: lab.namespace, at: "10.96.0.1",
      .init(source: "10.0.0.2", listen: "127.0.0.1"))
    let command = try lab.namespace.spawn([
      Programs.connctl, "--socket", lab.socket, "guard", "--json", connection.remoteEndpoint,
      "--local", connection.localEndpoint,
    ])
    let first: InvalidationReport = try decode(try #require(try command.nextLine()))
    #expect("\(first.severity) \(first.reason)" == "advise interfaceLost")
    let traffic = connection.startTraffic(every: .milliseconds(50))
    try traffic.awaitAnswers(60)
    traffic.stop()
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    var last: InvalidationReport
    repeat {
      last = try decode(try #require(try command.nextLine()))
      #expect(last.reason == "sourceAddressLost")
    } while last.severity != "destroy"
  }

  @Test("E1 netfilter tracks connections, and the cable of an active one is pulled → destroyed")
  func trackedAndDead() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"])
    try lab.namespace.nft(
      """
      table ip counts {
        chain out { type filter hook output priority 0; ct state new counter; }
      }
      """)
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let traffic = try #require(flow.connection).startTraffic()
    try traffic.awaitAnswers()
    try lab.unplug("eth0")
    try flow.expectDestroyed("interfaceLost")
    traffic.stop()
  }

  @Test("I3 a better default route is there for a moment → the flow drains, and lives")
  func strayDefault() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 10")
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain betterPath")
    try lab.namespace.ip("route del default via 10.1.0.1 dev eth1 metric 10")
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test(
    "I1 a VPN's link is closed and made again with its address → its flow is advised, and lives")
  func madeAgain() throws {
    let lab = try Uplinks.laboratory(["eth0"], configuration: "grace: {route: 3s}\n")
    func make() throws {
      try lab.addLink("veth9", "10.9.0.2")
      try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.9.0.1 dev veth9")
    }
    try make()
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    #expect(flow.path.interface == "veth9")
    try lab.namespace.ip("link del veth9")
    try flow.expectAdvice("sourceAddressLost")
    try make()
    // Until the route is back, the traffic would take the other link.
    try flow.expectSpared(atMost: .drain) {
      try lab.namespace.ip("address del 10.9.0.2/24 dev veth9")
    }
  }

  @Test("E5 a server's address is on a link that fails, and its answers leave by another → advised")
  func strandedLater() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"])
    // Answers leave by eth0, whatever address they have.
    for link in ["all", "eth0", "eth1"] {
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "10.1.0.2"))
    #expect(flow.path.interface == "eth0")
    try lab.unplug("eth1")
    try flow.expectAdvice("interfaceLost")
  }
}

import TestKit
import TestTraits
import Testing

/// Addresses that disappear, briefly while a network manager takes a link over, or for good. The
/// tests check what TCP still carries.
@Suite("Address loss", .needsNamespaces, .blocking)
struct AddressLossScenario {
  private static let server = Uplinks.server

  private func laboratory(grace: String = "1s") throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0"], configuration: "grace: {route: \(grace)}\n")
    try lab.start()
    return lab
  }

  /// Removes the address, and its routes with it.
  private func take(_ lab: Laboratory, from link: String = "eth0") throws {
    try lab.namespace.ip("address del 10.0.0.2/24 dev \(link)")
    #expect(try lab.event().to == "none")
  }

  /// Expects the next two invalidations of the stream: for the address, and for the category.
  private func expectInvalidations(
    _ severity: String, in lab: Laboratory, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let watcher = try #require(lab.watcher)
    for reason in ["sourceAddressLost", "categoryChanged"] {
      let told = try watcher.nextInvalidation()
      #expect(
        "\(told.severity) \(told.reason)" == "\(severity) \(reason)",
        sourceLocation: sourceLocation)
    }
  }

  @Test("I1 the address and its route come back within the grace period → nothing is destroyed")
  func comesBack() throws {
    let lab = try self.laboratory(grace: "20s")
    let flow = try GuardedFlow(lab, to: Self.server)
    try self.take(lab)
    try self.expectInvalidations("advise", in: lab)
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ip("address add 10.0.0.2/24 dev eth0")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    #expect(try lab.events { $0.to == "wired" }.count <= 2)
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try flow.expectSpared {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
      try lab.namespace.ip("link set eth0 down")
    }
  }

  @Test("I1 a bridge takes over the uplink and its address → nothing is destroyed")
  func bridgeTakesOver() throws {
    let lab = try self.laboratory(grace: "20s")
    let flow = try GuardedFlow(lab, to: Self.server)
    try lab.namespace.ip("link add br0 type bridge forward_delay 0")
    try self.take(lab)
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ipBatch([
      "link set eth0 master br0", "link set br0 up", "address add 10.0.0.2/24 dev br0",
      "route add default via 10.0.0.1 dev br0 metric 100",
    ])
    let back = try #require(try lab.events { $0.status.category == "wired" }.last)
    #expect(back.status.ipv4.chain == ["br0", "eth0"])
    try flow.expectSpared {
      try lab.namespace.ip("address del 10.0.0.2/24 dev br0")
      try lab.namespace.ip("link set br0 down")
    }
  }

  @Test("I1 the address does not come back → its flow is destroyed at the end of the grace period")
  func staysAway() throws {
    let lab = try self.laboratory()
    let flow = try GuardedFlow(lab, to: Self.server)
    try self.take(lab)
    try self.expectInvalidations("advise", in: lab)
    try self.expectInvalidations("destroy", in: lab)
    try flow.expectDestroyed(
      "sourceAddressLost", after: ["advise sourceAddressLost"], cause: "graceEnded")
  }

  @Test("I1 another address of the subnet replaces the lost one → destroyed immediately")
  func replaced() throws {
    let lab = try self.laboratory(grace: "60s")
    let flow = try GuardedFlow(lab, to: Self.server)
    try self.take(lab)
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ip("address add 10.0.0.3/24 dev eth0")
    // Otherwise connd might find the route while it handles the address, and name that as cause.
    try lab.awaitEvaluation()
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    try flow.expectDestroyed("sourceAddressLost", cause: "routeAdded")
  }

  @Test("I1 the link goes down while the address is away → destroyed immediately")
  func linkFollows() throws {
    let lab = try self.laboratory(grace: "60s")
    let flow = try GuardedFlow(lab, to: Self.server)
    try self.take(lab)
    try flow.expectAdvice("sourceAddressLost")
    try lab.namespace.ip("link set eth0 down")
    try flow.expectDestroyed("sourceAddressLost", cause: "linkDown")
  }

  @Test("I3 the default route's source moves to another address with the same router → advise")
  func sourceMoves() throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("address add 198.51.100.7/32 dev eth0")
    try lab.outside.ip("route add 198.51.100.7/32 via 10.0.0.2")
    let flow = try GuardedFlow(lab, to: Self.server)
    for source in ["198.51.100.7", "10.0.0.2", "198.51.100.7"] {
      try lab.ip("route replace default via 10.0.0.1 dev eth0 src \(source) metric 100")
      let moved = try lab.event()
      #expect(moved.event == "path" && moved.status.ipv4.source == source)
      if source == "10.0.0.2" { continue }
      let told = try #require(lab.watcher).nextInvalidation()
      #expect("\(told.severity) \(told.reason)" == "advise betterPath")
      try flow.expectAdvice("betterPath")
      let next = try GuardedFlow(lab, to: Self.server)
      #expect(next.connection?.local == source)
      #expect(next.connection?.carries(within: .seconds(10)) == true)
    }
    try flow.expectAlive(in: lab, on: "eth0")
  }

  @Test("T2 one of two prefixes of an address is removed → no bounce")
  func onePrefixOfTwo() throws {
    let lab = try self.laboratory()
    let flow = try GuardedFlow(lab, to: Self.server)
    for step in ["add", "del"] {
      try lab.namespace.ip("address \(step) 10.0.0.2/32 dev eth0")
      // The next event is this one.
      try lab.namespace.ip("route add default via 10.0.0.254 dev eth0 metric 50")
      let moved = try lab.event()
      #expect(moved.event == "path" && moved.status.ipv4.gateway == "10.0.0.254", "\(moved)")
      try lab.namespace.ip("route del default via 10.0.0.254 dev eth0 metric 50")
      #expect(try lab.event().status.ipv4.gateway == "10.0.0.1")
    }
    try flow.expectAlive(in: lab, on: "eth0")
  }
}

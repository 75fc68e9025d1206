import TestKit
import TestTraits
import Testing

/// Strict reverse path filtering (RFC 3704) on the machine itself: a packet is dropped if its
/// answer would leave by another link.
@Suite("Reverse path filtering", .needsNamespaces, .blocking)
struct ReversePathScenario {
  /// Two links, of which only eth1 leads anywhere. The greater of a link's setting and the global
  /// one applies.
  private func laboratory(_ all: Int, _ link: Int, grace: String = "1s") throws -> Laboratory {
    let lab = try Uplinks.laboratory(
      ["eth0", "eth1"], routes: [], configuration: "grace: {route: \(grace)}\n")
    for (name, value) in [("all", all), ("eth0", 0), ("eth1", link)] {
      try lab.namespace.set("net/ipv4/conf/\(name)/rp_filter", "\(value)")
    }
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 200")
    try lab.start()
    return lab
  }

  private static let preferred = "default via 10.0.0.1 dev eth0 metric 100"

  @Test(
    "I2 I10 a bound connection whose replies are dropped drains, and is destroyed after the route's grace period",
    arguments: [(0, 0), (0, 1), (1, 0), (0, 2), (1, 2)])
  func preferred(all: Int, link: Int) throws {
    let lab = try self.laboratory(all, link)
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(link: "eth1"))
    try lab.namespace.ip("route add \(Self.preferred)")
    if max(all, link) == 1 {
      try flow.expectDestroyed("interfaceLost", after: ["drain interfaceLost"])
    } else {
      try flow.expectAlive(in: lab, on: "eth1")
    }
  }

  @Test("I10 replies are accepted again within the grace period → nothing ends")
  func back() throws {
    let lab = try self.laboratory(0, 1)
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(link: "eth1"))
    try lab.namespace.ip("route add \(Self.preferred)")
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain interfaceLost")
    try lab.namespace.ip("route del \(Self.preferred)")
    try flow.expectAlive(in: lab, on: "eth1")
  }

  @Test(
    "I2 the filter is switched on while another link is preferred → it counts from the next route change"
  )
  func switchedOn() throws {
    // The kernel reports the setting, and the connection still receives data afterwards. If that is
    // less than a second before the end of the grace period, the socket spares it (E1).
    let lab = try self.laboratory(0, 0, grace: "5s")
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(link: "eth1"))
    try lab.namespace.ip("route add \(Self.preferred)")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try lab.awaitEvaluation()
    try lab.namespace.set("net/ipv4/conf/eth1/rp_filter", "1")
    // The socket caches the route of received packets.
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 300")
    try flow.expectDestroyed("interfaceLost", after: ["drain interfaceLost"])
  }

  @Test("I0 a connection routed by a rule is judged by that rule, as the filter does")
  func rule() throws {
    let lab = try self.laboratory(0, 1)
    try lab.namespace.ip("rule add from 10.1.0.2 lookup 100")
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth1 table 100")
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "10.1.0.2", link: "eth1"))
    try lab.namespace.ip("route add \(Self.preferred)")
    try flow.expectAlive(in: lab, on: "eth1")
  }
}

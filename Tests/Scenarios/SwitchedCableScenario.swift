import TestKit
import TestTraits
import Testing

/// The remote end of a cable moves to another network so fast that the kernel never shows the lost
/// carrier, and still trusts the former router.
@Suite("Switched cables", .needsNamespaces, .blocking)
struct SwitchedCableScenario {
  private static let router = "02:00:00:00:00:99"

  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory(configuration: Uplinks.media + "grace: {wired: 60s}\n")
    try lab.outside.ip("address add \(Uplinks.server)/32 dev lo")
    // Like real links, it reports its carrier at most once a second: its ends have equal indexes
    // (net/core/link_watch.c).
    try lab.namespace.ip(
      "link add eth0 index 11 type veth peer name eth0 index 11 netns \(lab.outside.name)")
    for (namespace, host) in [(lab.namespace, "10.0.0.2"), (lab.outside, "10.0.0.1")] {
      try namespace.ip("address add \(host)/24 dev eth0")
      try namespace.ip("link set eth0 up")
    }
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    // Otherwise the kernel refuses another MAC address within a second.
    try lab.namespace.set("net/ipv4/neigh/eth0/locktime", "0")
    try lab.start()
    return lab
  }

  /// Loses and regains the carrier within the second after another link's loss.
  ///
  /// - Parameter meanwhile: changes at the other end.
  private func bounce(_ lab: Laboratory, _ meanwhile: [String] = []) throws {
    try lab.namespace.ip(
      "link add other index 99 type veth peer name other index 99 netns \(lab.outside.name)")
    for namespace in [lab.namespace, lab.outside] { try namespace.ip("link set other up") }
    try lab.outside.ip("link set other down")
    try waitUntil("the kernel has seen that") {
      try lab.namespace.ip("link show other").contains("state DOWN")
    }
    try lab.outside.ipBatch(["link set eth0 down"] + meanwhile + ["link set eth0 up"])
    let bounced = try lab.events { $0.to == "wired" }
    #expect(bounced.last?.status.category == "wired")
    try lab.namespace.ip("link del other")
  }

  /// Lets the router send, so that the kernel learns its MAC address.
  private func speak(_ lab: Laboratory) throws {
    try lab.outside.ip("neighbour flush dev eth0")
    try lab.outside.exchange(with: "10.0.0.2")
  }

  @Test("I4 the carrier counter moved between two MACs of the gateway → destroyed")
  func otherNetwork() throws {
    let lab = try self.laboratory()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    // The other network's router knows nothing of the connection.
    try self.bounce(
      lab, ["address del \(Uplinks.server)/32 dev lo", "link set eth0 address \(Self.router)"])
    try self.speak(lab)
    try flow.expectDestroyed("networkChanged", after: nil, cause: "gatewayChanged")
  }

  @Test("I4 the carrier counter moved, and the router was confirmed since → another MAC is advised")
  func sameNetwork() throws {
    let lab = try self.laboratory()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try self.bounce(lab)
    // The connection's traffic confirms the router; connd checks when something else happens.
    try waitUntil("the kernel has confirmed the router since") {
      #expect(flow.connection?.carries(within: .seconds(10)) == true)
      return try lab.namespace.ip("-s neighbour show 10.0.0.1").contains(/used \d+\/0\//)
    }
    try lab.ip("route add default via 10.0.0.1 dev eth0 metric 200")
    try lab.ip("route del default via 10.0.0.1 dev eth0 metric 100")
    try lab.outside.ip("link set eth0 address \(Self.router)")
    try self.speak(lab)
    var advice = try flow.invalidation()
    while advice.reason != "networkChanged" { advice = try flow.invalidation() }
    #expect(advice.severity == "advise")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try flow.expectSpared { try lab.namespace.ip("address del 10.0.0.2/24 dev eth0") }
  }
}

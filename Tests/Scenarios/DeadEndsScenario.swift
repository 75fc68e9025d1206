import TestKit
import TestTraits
import Testing

/// Routes with a carrier and an address that lead nowhere, and tunnels whose remote end is part of
/// the route.
@Suite("Dead ends", .needsNamespaces, .blocking)
struct DeadEndsScenario {
  @Test("K3 a link-local IPv4 address and a default route without a gateway → no network")
  func linkLocal() throws {
    let lab = try Laboratory(configuration: Uplinks.media)
    try lab.addLink("eth0")
    #expect(try lab.start().category == "none")
    // As dhcpcd does without a server.
    try lab.ip("address add 169.254.7.7/16 dev eth0")
    try lab.ip("route add default dev eth0 scope link src 169.254.7.7")
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.ipv4.status == "requiresConnection")
    #expect(event.status.ipv4.reason == "noSourceAddress")
    #expect(try lab.connctl("is", "online").status == 1)
    // Neighbours are reachable.
    try lab.outside.ip("address add 169.254.9.9/16 dev eth0")
    let neighbour = try GuardedFlow(lab, to: "169.254.9.9")
    #expect(neighbour.path.status == "satisfied")

    // The DHCP server is back.
    try lab.namespace.ip("address add 10.0.0.2/24 dev eth0")
    try lab.outside.ip("address add 10.0.0.1/24 dev eth0")
    try lab.ip("route replace default via 10.0.0.1 dev eth0")
    #expect(try lab.events { $0.status.category == "wired" }.last?.to == "wired")
    try neighbour.expectSpared { try lab.namespace.ip("address del 169.254.7.7/16 dev eth0") }
  }

  @Test(
    "K3 I10 a default route into a link without an exit → a blackhole, and explain names the kill switch"
  )
  func killSwitch() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.namespace.ip("link add ks0 type ifb")
    try lab.namespace.ip("link set ks0 up")
    #expect(try lab.start().category == "wired")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.namespace.ip("address add 192.0.2.2/24 dev ks0")
    try lab.namespace.ip("route add default dev ks0 metric 50")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.status == "unsatisfied")
    #expect(loss.last?.status.ipv4.reason == "blackhole")
    #expect(try lab.connctl("explain").output.contains("kill switch: ks0"))
    try flow.expectDestroyed("interfaceLost", after: nil)
    try lab.namespace.ip("route del default dev ks0")
    #expect(try lab.events { $0.status.category == "wired" }.last?.to == "wired")
  }

  /// A vxlan without a remote end of its own.
  private func tunnel() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.namespace.ip("link add vx0 type vxlan external dstport 4789")
    try lab.namespace.ip("link set vx0 up")
    try lab.namespace.ip("address add 10.9.0.2/24 dev vx0")
    try lab.namespace.ip("neighbour add 10.9.0.1 lladdr 02:00:00:00:00:09 dev vx0")
    try lab.outside.ip(
      "link add vx0 address 02:00:00:00:00:09 type vxlan id 7 remote 10.0.0.2 dstport 4789")
    try lab.outside.ip("link set vx0 up")
    try lab.outside.ip("address add 10.9.0.1/24 dev vx0")
    return lab
  }

  @Test("K6 a route encapsulates its packets → the path continues where the outer header leads")
  func encapsulation() throws {
    let lab = try self.tunnel()
    try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.0.0.1 dev eth0")
    try lab.namespace.ip(
      "route add default encap ip id 7 dst 10.0.0.1 via 10.9.0.1 dev vx0 metric 1")
    let status = try lab.start()
    #expect(status.ipv4.chain == ["vx0", "eth0"])
    #expect(status.category == "wired")
    try lab.step("unplug") { try lab.outside.ip("link set eth0 down") }
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.reason == "noCarrier")

    // The route to the outer destination matters, too.
    try lab.ip("route add 10.0.0.1/32 via 10.1.0.1 dev wlan0")
    let moved = try lab.events { $0.status.category == "wifi" }
    #expect(moved.last?.status.ipv4.chain == ["vx0", "wlan0"])
  }

  @Test("K6 segment routing names a link → the path still leads to the first segment")
  func segments() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], ipv6: true)
    try lab.namespace.ip("-6 route add fc00:1::1/128 via 2001:db8:1::1 dev wlan0")
    try lab.namespace.ip("-6 route add fc00:2::1/128 via 2001:db8:0::1 dev eth0")
    try lab.start()
    #expect(try lab.status().ipv6.chain == ["eth0"])
    try lab.ip("-6 route add default encap seg6 mode encap segs fc00:2::1 dev eth0 metric 2")
    #expect(try lab.status().ipv6.chain == ["eth0"])
    try lab.ip("-6 route add default encap seg6 mode encap segs fc00:1::1 dev eth0 metric 1")
    #expect(try lab.status().ipv6.chain == ["eth0", "wlan0"])
  }
}

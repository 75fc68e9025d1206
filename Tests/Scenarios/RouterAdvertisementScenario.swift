import TestKit
import TestTraits
import Testing

/// Default routes as IPv6 routers announce them: with a lifetime, and for a source.
@Suite("Router advertisements", .needsNamespaces, .blocking)
struct RouterAdvertisementScenario {
  private static let gateway = "2001:db8:0::1"

  private func laboratory(_ links: [String]) throws -> Laboratory {
    let lab = try Uplinks.laboratory(links, routes: [], ipv6: true)
    for link in links { try lab.namespace.set("net/ipv6/conf/\(link)/accept_ra", "2") }
    return lab
  }

  enum Origin: CaseIterable { case command, router }

  @Test("D9 a default route expires → reported in time", arguments: Origin.allCases)
  func expiry(origin: Origin) throws {
    let lab = try self.laboratory(["eth0"])
    try lab.start()
    let beginning = ContinuousClock.now
    switch origin {
    case .command:
      try lab.namespace.ip("-6 route add default via \(Self.gateway) dev eth0 expires 2")
    case .router: try RouterAdvertisement(lifetime: 2).announce(to: lab, by: "eth0")
    }
    #expect(try lab.events { $0.status.category != "none" }.last?.to == "wired")
    #expect(try lab.connctl("is", "online").status == 0)
    let loss = try lab.event()
    let duration = beginning.duration(to: .now)
    #expect(loss.to == "none")
    #expect(loss.status.ipv6.reason == "noRoute")
    #expect(duration > .milliseconds(1500), "\(duration)")
    Timings.expect(duration, below: .seconds(3.5), "end of a route of two seconds")
    #expect(try lab.connctl("is", "online").status == 1)
    try lab.step("the route's time is over") {}
  }

  @Test(
    "D9 a router renews its advertisement by very little → its end is reported in time",
    arguments: [18, 20, 22, 24, 26, 28, 30, 32])
  func renewedByLittle(milliseconds: Int) throws {
    let lab = try self.laboratory(["eth0"])
    try RouterAdvertisement(lifetime: 60).announce(to: lab, by: "eth0")
    #expect(try lab.start().category == "wired")
    try RouterAdvertisement(lifetime: 0).send(from: lab.outside, by: "eth0")
    #expect(try lab.event().to == "none")
    let announcement = RouterAdvertisement(lifetime: 2)
    try announcement.send(from: lab.outside, by: "eth0")
    // In its last 10 ms, the kernel reports that the route never expires.
    let again = ContinuousClock.now + .milliseconds(milliseconds)
    while .now < again {}
    try announcement.send(from: lab.outside, by: "eth0")
    #expect(try lab.event().to == "wired")
    #expect(try lab.event().to == "none")
    Timings.expect(again.duration(to: .now), below: .seconds(3.5), "end of a renewed route")
  }

  @Test("D9 T3 a router advertises itself again in time → nothing is reported")
  func renewed() throws {
    let lab = try self.laboratory(["eth0"])
    try RouterAdvertisement(lifetime: 2).announce(to: lab, by: "eth0")
    #expect(try lab.start().category == "wired")
    let beginning = ContinuousClock.now
    try RouterAdvertisement(lifetime: 4).send(from: lab.outside, by: "eth0")
    // The next event is the end of the second lifetime.
    #expect(try lab.event().to == "none")
    #expect(beginning.duration(to: .now) > .seconds(3))
  }

  @Test(
    "K2 only a source-specific default route → the path is satisfied, and a connection is guarded")
  func sourceSpecific() throws {
    let lab = try self.laboratory(["eth0"])
    try lab.start()
    try lab.namespace.ip(
      "-6 route add default from 2001:db8:0::/64 via \(Self.gateway) dev eth0")
    let gain = try lab.event()
    #expect(gain.to == "wired")
    #expect(gain.status.ipv6.status == "satisfied")
    #expect(gain.status.ipv6.source == "2001:db8::2")
    #expect(gain.status.ipv6.gateway == "2001:db8::1")
    #expect(try lab.connctl("is", "online").status == 0)
    let flow = try GuardedFlow(lab, to: Uplinks.server6)
    #expect(flow.path.interface == "eth0")
    #expect(flow.connection?.local == "2001:db8::2")
    try lab.namespace.ip("link set eth0 mtu 1400")
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 2001:db8:0::2/64 dev eth0")
    }
  }

  @Test(
    "K2 I0 two links, each with a default route for its own source → each connection has its own way"
  )
  func multihomed() throws {
    let lab = try self.laboratory(["eth0", "eth1"])
    for number in 0...1 {
      let prefix = "2001:db8:\(number)::"
      try lab.namespace.ip("-6 route add default from \(prefix)/64 via \(prefix)1 dev eth\(number)")
    }
    #expect(try lab.start().ipv6.status == "satisfied")
    let flows = try (0...1).map {
      try GuardedFlow(lab, to: Uplinks.server6, .init(source: "2001:db8:\($0)::2"))
    }
    #expect(flows.map(\.path.interface) == ["eth0", "eth1"])
    try lab.namespace.ip("link set eth1 mtu 1400")
    #expect(flows[1].connection?.carries(within: .seconds(10)) == true)
    // The loss of one does not affect the other.
    try lab.namespace.ip("link set eth0 down")
    try flows[0].expectDestroyed("interfaceLost", "sourceAddressLost", after: nil)
    try flows[1].expectSpared { try lab.namespace.ip("address del 2001:db8:1::2/64 dev eth1") }
  }
}

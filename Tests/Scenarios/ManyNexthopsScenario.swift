import TestKit
import TestTraits
import Testing

/// Routes with more next hops than the kernel shows in one answer: 235 in IPv4, 132 in IPv6.
@Suite("Routes with very many next hops", .needsNamespaces, .blocking)
struct ManyNexthopsScenario {
  /// For each link; `ip` accepts no more.
  private static let routers4 = 2...126
  private static let routers6 = 2...71

  /// A host with two links, and this many routers on each.
  private func laboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [], ipv6: true)
    for link in 0...1 {
      try lab.outside.ipBatch(
        Self.routers4.flatMap {
          [
            "address add 10.\(link).0.\($0 + 1)/24 dev eth\(link)",
            "address add 2001:db8:\(link)::\($0 + 1)/64 dev eth\(link) nodad",
          ]
        })
    }
    return lab
  }

  private func nexthops(
    _ links: ClosedRange<Int>, _ routers: ClosedRange<Int>, _ router: (Int) -> String
  ) -> String {
    links.flatMap { link in
      routers.map { "nexthop via \(router(link))\($0 + 1) dev eth\(link)" }
    }.joined(separator: " ")
  }

  private func nexthops4(_ links: ClosedRange<Int>) -> String {
    self.nexthops(links, Self.routers4) { "10.\($0).0." }
  }

  private func nexthops6(_ links: ClosedRange<Int>) -> String {
    self.nexthops(links, Self.routers6) { "2001:db8:\($0)::" }
  }

  @Test(
    "K8 a default route with 250 next hops → a path in both families, and its connections are judged"
  )
  func defaultRoute() throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("route add default \(self.nexthops4(0...1))")
    try lab.namespace.ip("-6 route add default \(self.nexthops6(0...1))")
    let status = try lab.start()
    #expect(status.category == "wired")
    #expect(status.ipv4.status == "satisfied" && status.ipv6.status == "satisfied")
    let remotes = [Uplinks.server, Uplinks.server6]
    let flows = try remotes.flatMap { remote in
      try (0..<4).map { _ in try GuardedFlow(lab, to: remote) }
    }
    // Another default route over the same links: each connection is still on a leg.
    try lab.namespace.ip(
      "route replace default \(self.nexthops4(0...1)) nexthop via 10.0.0.1 dev eth0")
    try GuardedFlow.expectSpared(flows) {
      for link in 0...1 {
        try lab.namespace.ip("address del 10.\(link).0.2/24 dev eth\(link)")
        try lab.namespace.ip("address del 2001:db8:\(link)::2/64 dev eth\(link)")
      }
    }
    #expect(try lab.connctl("stats", "--json").output.contains("\"kernelLosses\": 0"))
  }

  @Test(
    "K8 D4 one user's destination with 250 next hops changes nothing for the others",
    .enabled(if: Users.areMany))
  func destination() throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0")
    try lab.namespace.ip("-6 route add default via 2001:db8:0::1 dev eth0")
    try lab.namespace.ip("route add 198.18.0.0/24 \(self.nexthops4(0...1))")
    try lab.namespace.ip("-6 route add 2001:db8:18::/64 \(self.nexthops6(0...1))")
    try lab.start()
    let strange = try ["198.18.0.9", "2001:db8:18::9"].map {
      try GuardedFlow(lab, $0, as: Programs.asNobody)
    }
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    for flow in strange { #expect(flow.path.status == "satisfied") }
    // The default path moves; nothing else is reported.
    try lab.ip("route add 192.0.2.0/24 via 10.0.0.1")
    try lab.ip("route replace default via 10.0.0.7 dev eth0")
    #expect(try lab.event().status.ipv4.gateway == "10.0.0.7")
    try flow.expectAlive(in: lab, on: "eth0")
  }
}

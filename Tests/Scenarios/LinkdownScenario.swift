import TestKit
import TestTraits
import Testing

/// Effects of kernel settings, and of the loss of a route alone.
@Suite("Linkdown", .needsNamespaces, .blocking)
struct LinkdownScenario {
  @Test(
    "K2 the kernel ignores routes of links without a carrier → another link takes over immediately",
    arguments: [4, 6])
  func ignored(version: Int) throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], ipv6: version == 6)
    if version == 6 { try lab.namespace.ip("-4 route flush 0/0") }
    #expect(try lab.start().interface == "eth0")
    try lab.outside.ip("link set eth0 down")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.interface == "eth0")
    try lab.step("routes of links without a carrier are ignored") {
      try lab.namespace.set("net/ipv\(version)/conf/eth0/ignore_routes_with_linkdown", "1")
    }
    let gain = try lab.event()
    #expect(gain.to == "wired")
    #expect(gain.status.interface == "eth1")
    let path = version == 4 ? gain.status.ipv4 : gain.status.ipv6
    #expect(path.status == "satisfied")
    #expect(try lab.connctl("is", "online").status == 0)
  }

  @Test("I9 I10 only the default route is lost → the invalidation spares the link's own neighbours")
  func offLink() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    let far = try GuardedFlow(lab, to: Uplinks.server)
    let watcher = try #require(lab.watcher)
    try lab.ip("route del default")
    try far.expectDestroyed("interfaceLost", after: ["advise interfaceLost"], cause: "graceEnded")
    var severities: [String] = []
    while severities.last != "destroy" {
      let told = try watcher.nextInvalidation()
      guard told.reason == "interfaceLost" else { continue }
      severities.append(told.severity)
      #expect(
        told.scope
          == .init(
            interface: "eth0", family: "ipv4", localAddresses: nil, destination: "offLink"),
        "\(told)")
    }
    #expect(severities == ["advise", "destroy"])
    try near.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test("I9 the link goes down → the invalidation includes its neighbours")
  func wholeLink() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let near = try GuardedFlow(lab, to: "10.0.0.1")
    try lab.ip("link set eth0 down")
    let told = try #require(lab.watcher).nextInvalidation()
    #expect(told.reason == "interfaceLost" && told.severity == "destroy")
    #expect(told.scope.interface == "eth0")
    #expect(told.scope.destination == nil)
    try near.expectDestroyed("interfaceLost", cause: "linkDown")
  }
}

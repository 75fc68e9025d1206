import TestKit
import TestTraits
import Testing

@Suite("Links", .needsNamespaces, .blocking)
struct LinksScenario {
  /// A laboratory whose default route uses eth0, and a watcher.
  private func online(configuration: String = "") throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    #expect(try lab.start().category != "none")
    return lab
  }

  @Test("K3 the carrier is lost and regained at the peer, while the kernel still names the link")
  func carrier() throws {
    let lab = try self.online()
    try lab.step("the peer goes down") { try lab.outside.ip("link set eth0 down") }
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.change == "carrierLost")
    #expect(loss.cause?.message == "RTM_NEWLINK")
    #expect(loss.cause?.interface == "eth0")
    #expect(loss.status.flags.reachable)
    #expect(loss.status.flags.connectionRequired)
    #expect(loss.status.ipv4.status == "requiresConnection")
    #expect(loss.status.ipv4.reason == "noCarrier")
    // K7: the out-link is named all the same.
    #expect(loss.status.interface == "eth0")

    try lab.step("the peer comes up") { try lab.outside.ip("link set eth0 up") }
    let gain = try lab.event()
    #expect(gain.to == "other")
    #expect(gain.cause?.change == "linkUp")
    #expect(gain.status.ipv4.gateway == "192.0.2.1")
  }

  @Test("K3 the carrier is lost and regained in IPv6")
  func carrierIPv6() throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", ipv6: "2001:db8::2")
    try lab.namespace.ip("-6 route add default via 2001:db8::1 metric 100")
    #expect(try lab.start().category == "other")
    try lab.step("the peer goes down") { try lab.outside.ip("link set eth0 down") }
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv6.reason == "noCarrier")
    #expect(loss.last?.cause?.change == "carrierLost")
    try lab.step("the peer comes up") { try lab.outside.ip("link set eth0 up") }
    let gain = try lab.events { $0.status.category == "other" }
    #expect(gain.last?.status.ipv6.gateway == "2001:db8::1")
  }

  @Test("K2 the kernel ignores routes of links without a carrier → another link takes over")
  func ignoredWithoutCarrier() throws {
    let lab = try Laboratory()
    try lab.namespace.set("net/ipv4/conf/all/ignore_routes_with_linkdown", "1")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    try lab.namespace.ip("route add default via 198.51.100.1 metric 200")
    #expect(try lab.start().interface == "eth0")
    try lab.step("the peer goes down") { try lab.outside.ip("link set eth0 down") }
    let moved = try lab.event()
    #expect(moved.event == "path")
    #expect(moved.status.interface == "eth1")
    try lab.step("the peer comes up") { try lab.outside.ip("link set eth0 up") }
    #expect(try lab.event().status.interface == "eth0")
  }

  @Test("K3 a link goes down → its routes are lost without a message, and it is noticed")
  func downAndUp() throws {
    let lab = try self.online()
    try lab.ip("link set eth0 down")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.count == 1)
    #expect(loss.last?.cause?.trigger == "link")
    #expect(loss.last?.cause?.interface == "eth0")
    #expect(loss.last?.status.ipv4.reason == "noRoute")

    // The address stayed, the route did not.
    try lab.ip("link set eth0 up")
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    #expect(gain.to == "other")
  }

  @Test("K2 T5 a link is deleted → none, and the cause is the removal")
  func deleted() throws {
    let lab = try self.online()
    try lab.ip("link del eth0")
    let loss = try lab.event()
    #expect(loss.to == "none")
    // The kernel has set it down before.
    #expect(loss.cause?.change == "linkRemoved")
    #expect(loss.cause?.interface == "eth0")
    #expect(loss.status.ipv4.status == "unsatisfied")

    // Another link of the same name is another link.
    try lab.addLink("eth0", "192.0.2.3")
    try lab.ip("route add default via 192.0.2.1")
    #expect(try lab.event().status.ipv4.source == "192.0.2.3")
  }

  @Test("K2 the path's link is renamed → the path has the new name")
  func renamed() throws {
    let lab = try self.online()
    try lab.ip("link set eth0 name uplink")
    let renamed = try lab.event()
    #expect(renamed.event == "path")
    #expect(renamed.status.interface == "uplink")
    #expect(renamed.status.ipv4.chain == ["uplink"])
  }

  @Test("K5 a link is renamed and matches another rule → another medium")
  func renamedToAnotherMedium() throws {
    let lab = try self.online(
      configuration: """
        links:
          - {match: "eth*", medium: wired}
          - {match: "wlan*", medium: wifi}
        """)
    try lab.ip("link set eth0 name wlan0")
    let renamed = try lab.event()
    #expect(renamed.event == "transition")
    #expect(renamed.from == "wired")
    #expect(renamed.to == "wifi")
  }

  @Test("K2 a link moves to another namespace and back → lost and regained")
  func moved() throws {
    let lab = try self.online()
    let elsewhere = try NetworkNamespace()
    try lab.ip("link set eth0 netns \(elsewhere.name)")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.interface == "eth0")

    try elsewhere.ip("link set eth0 netns \(lab.namespace.name)")
    try lab.ip("link set eth0 up")
    try lab.ip("address add 192.0.2.2/24 dev eth0")
    try lab.ip("route add default via 192.0.2.1")
    #expect(try lab.event().to == "other")
  }

  @Test(
    "K1 K5 the configured medium determines the category",
    arguments: [
      ("wired", "wired", "wifi", false), ("wifi", "wifi", "wifi", false),
      ("cellular", "cellular", "cellular", true), ("bluetooth", "other", "wifi", true),
      ("tunnel", "other", "wifi", false),
    ])
  func media(medium: String, category: String, threeWay: String, expensive: Bool) throws {
    let lab = try Laboratory(
      configuration: """
        links:
          - {match: "eth0", medium: \(medium), constrained: true}
          - {match: "*", medium: cellular}
        """)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.start()
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    #expect(gain.to == category)
    #expect(gain.status.threeWay == threeWay)
    #expect(gain.status.medium == medium)
    #expect(gain.status.flags.isWWAN == (medium == "cellular"))
    #expect(gain.status.expensive == expensive)
    #expect(gain.status.constrained)
    #expect(try lab.connctl("is", "expensive").status == (expensive ? 0 : 1))
    #expect(try lab.connctl("is", category).status == 0)
    #expect(try lab.connctl("is", "not-\(category)").status == 1)
  }

  @Test("K5 a link can be configured as not expensive")
  func costsNothing() throws {
    let lab = try self.online(
      configuration: "links: [{match: eth0, medium: cellular, expensive: false}]")
    let status = try lab.status()
    #expect(status.category == "cellular")
    #expect(!status.expensive)
  }

  @Test("T1 cellular takes over from Wi-Fi, and gives back")
  func takeOver() throws {
    let lab = try Laboratory(
      configuration: """
        links:
          - {match: "eth0", medium: wifi}
          - {match: "eth1", medium: cellular}
        """)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    try lab.namespace.ip("route add default via 198.51.100.1 metric 200")
    try lab.start()
    try lab.ip("link set eth0 down")
    let down = try lab.event()
    #expect(down.from == "wifi")
    #expect(down.to == "cellular")
    #expect(down.status.expensive)
    try lab.ip("link set eth0 up")
    try lab.ip("route add default via 192.0.2.1 metric 100")
    let up = try lab.event()
    #expect(up.from == "cellular")
    #expect(up.to == "wifi")
    #expect(!up.status.expensive)
  }
}

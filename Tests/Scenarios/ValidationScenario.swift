import Glibc
import TestKit
import TestTraits
import Testing

/// The reports of NetworkManager and routers about the way to the internet.
@Suite("Validation", .needsNamespaces, .blocking)
struct ValidationScenario {
  private static let portal = "https://portal.example/api"

  @Test("V1 V2 NetworkManager checks → reported with its cause; a flow lives, and a wait ends")
  func networkManager() throws {
    let bus = try NetworkManagerBus()
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start(prefix: bus.prefix)
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try bus.startService()
    // It does not check, so its word means nothing.
    try bus.tell(
      #"{"device": [1, {"Interface": "eth0", "IpInterface": "", "Ip4Connectivity": 4}]}"#)
    #expect(try lab.connctl("is", "validated").status == 1)
    #expect(try lab.connctl("is", "not-validated").status == 1)
    try bus.tell(#"{"check": true}"#)
    let checked = try lab.event()
    #expect(checked.event == "path" && checked.cause?.change == "validationChanged")
    #expect(checked.status.ipv4.validation == .init(state: "full", source: "networkManager"))
    try bus.tell(#"{"set": [1, {"Ip4Connectivity": 2}]}"#)
    #expect(try lab.event().status.ipv4.validation?.state == "portal")
    #expect(try lab.connctl("status").output.contains("captive portal"))
    #expect(try lab.connctl("explain").output.contains("captive portal: NetworkManager says so"))
    let waiting = try lab.namespace.spawn([
      Programs.connctl, "--socket", lab.socket, "wait", "validated",
    ])
    try bus.tell(#"{"set": [1, {"Ip4Connectivity": 4}]}"#)
    #expect(try waiting.wait() == 0)
    try bus.killService()
    try waitUntil("it is unknown") { try lab.status().ipv4.validation == nil }
    try flow.expectSpared(atMost: .nothing) {
      try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test(
    "V1 a router advertises a portal → reported as a fact until the link loses its carrier; nothing is validated"
  )
  func advertised() throws {
    let lab = try Uplinks.laboratory(["eth0"], ipv6: true)
    try lab.namespace.set("net/ipv6/conf/eth0/accept_ra", "2")
    try lab.start()
    let advertisement = RouterAdvertisement(lifetime: 0, portal: Self.portal)
    try advertisement.announce(to: lab, by: "eth0") {
      try lab.status().ipv4.validation != nil
    }
    let told = try lab.events { $0.status.ipv4.validation != nil }.last
    #expect(
      told?.status.ipv4.validation
        == .init(state: "unknown", source: "routerAdvertisement", portal: Self.portal))
    for condition in ["validated", "not-validated"] {
      #expect(try lab.connctl("is", condition).status == 1)
    }
    let status = try lab.connctl("status").output
    #expect(status.contains(", has a portal (since"), "\(status)")
    #expect(status.contains("  portal  \(Self.portal)\n"), "\(status)")
    try lab.step("the carrier goes") { try lab.outside.ip("link set eth0 down") }
    #expect(try lab.event().status.ipv4.validation == nil)
  }
}

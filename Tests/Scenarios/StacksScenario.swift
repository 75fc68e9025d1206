import TestKit
import TestTraits
import Testing

@Suite("Stacks", .needsNamespaces, .blocking)
struct StacksScenario {
  private static let media = "links: [{match: eth0, medium: wired}, {match: eth1, medium: wifi}]"

  @Test("K6 a macvlan takes the medium and the failures of the link below it")
  func macvlan() throws {
    let lab = try Laboratory(configuration: Self.media)
    try lab.addLink("eth0")
    try lab.start()
    try lab.ip("link add mac0 link eth0 type macvlan mode bridge")
    try lab.ip("link set mac0 up")
    try lab.ip("address add 192.0.2.2/24 dev mac0")
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    #expect(gain.to == "wired")
    #expect(gain.status.interface == "mac0")
    #expect(gain.status.ipv4.chain == ["mac0", "eth0"])

    try lab.step("the carrier below is lost") { try lab.outside.ip("link set eth0 down") }
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.reason == "noCarrier")
    #expect(loss.last?.status.interface == "mac0")
    try lab.step("the carrier below is back") { try lab.outside.ip("link set eth0 up") }
    #expect(try lab.events { $0.status.category != "none" }.last?.to == "wired")
  }

  @Test("K6 a bridge takes the medium of its port")
  func bridge() throws {
    let lab = try Laboratory(configuration: Self.media)
    try lab.addLink("eth0")
    try lab.addLink("eth1")
    try lab.namespace.ip("link add br0 type bridge")
    try lab.namespace.ip("link set br0 up")
    try lab.namespace.ip("link set eth0 master br0")
    try lab.namespace.ip("address add 192.0.2.2/24 dev br0")
    try lab.start()
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.events { $0.status.category == "wired" }
    #expect(gain.last?.status.ipv4.chain == ["br0", "eth0"])

    // A bridge that lost its last port has no carrier.
    try lab.ip("link set eth0 nomaster")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv4.reason == "noCarrier")
    #expect(loss.last?.status.interface == "br0")

    try lab.ip("link set eth1 master br0")
    let other = try lab.events { $0.status.category == "wifi" }
    #expect(other.last?.status.ipv4.chain == ["br0", "eth1"])
  }

  /// Everything goes into a tunnel, whose remote end is a neighbour on eth0.
  private func tunnel() throws -> Laboratory {
    let lab = try Laboratory(configuration: Self.media)
    try lab.addLink("eth0", "198.51.100.2")
    try lab.addLink("eth1", "203.0.113.2")
    try lab.namespace.ip("link add vx0 type vxlan id 7 remote 198.51.100.1 dstport 4789")
    try lab.namespace.ip("link set vx0 up")
    try lab.namespace.ip("address add 192.0.2.2/24 dev vx0")
    try lab.namespace.ip("route add default via 192.0.2.1")
    let status = try lab.start()
    #expect(status.category == "wired")
    #expect(status.interface == "vx0")
    #expect(status.ipv4.chain == ["vx0", "eth0"])
    return lab
  }

  @Test("K6 a vxlan takes the medium of the path to its remote end")
  func vxlan() throws {
    let lab = try self.tunnel()
    try lab.ip("route add 198.51.100.1/32 via 203.0.113.1")
    try lab.ip("link set eth0 down")
    let moved = try lab.events { $0.status.category == "wifi" }
    #expect(moved.last?.status.ipv4.chain == ["vx0", "eth1"])
  }

  @Test("I0 K6 a tunnel's own packets follow a rule for their port")
  func vxlanByRule() throws {
    let lab = try self.tunnel()
    try lab.ip("route add default via 203.0.113.1 table 100")
    try lab.ip("rule add ipproto udp dport 4789 lookup 100")
    let moved = try lab.events { $0.status.category == "wifi" }
    #expect(moved.last?.status.ipv4.chain == ["vx0", "eth1"])
    // Without the rule, the only way to the remote end is the tunnel itself.
    try lab.namespace.ip("link set eth0 down")
    try lab.ip("rule del ipproto udp dport 4789 lookup 100")
    #expect(try lab.events { $0.status.category == "none" }.last?.status.ipv4.reason == "noRoute")
  }

  @Test(
    "K5 K6 a tun device stays a tun, whatever ARPHRD type it takes",
    .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"),
    arguments: [UInt16(512), 519, 801])
  func tun(hardwareType: UInt16) throws {
    let lab = try Laboratory()
    let tun = try TunDevice("tun0", in: lab.namespace)
    try tun.setHardwareType(hardwareType)
    try lab.namespace.ip("link set tun0 up")
    try lab.namespace.ip("address add 192.0.2.2/24 dev tun0")
    try lab.namespace.ip("route add default dev tun0")
    let status = try lab.start()
    #expect(status.category == "other")
    #expect(status.medium == "tunnel")
    #expect(status.ipv4.gateway == nil)

    try lab.step("the carrier is lost") { try tun.setCarrier(false) }
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.change == "carrierLost")
    #expect(loss.status.ipv4.reason == "noCarrier")
    try lab.step("the carrier is back") { try tun.setCarrier(true) }
    #expect(try lab.event().to == "other")
  }

  @Test("K5 explain shows the evidence of each link")
  func evidence() throws {
    let lab = try Laboratory(configuration: Self.media)
    try lab.addLink("eth0")
    try lab.namespace.ip("link add mac0 link eth0 type macvlan mode bridge")
    try lab.namespace.ip("link set mac0 up")
    try lab.namespace.ip("address add 192.0.2.2/24 dev mac0")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    let explanation: ExplanationReport = try decode(try lab.connctl("explain", "--json").output)
    #expect(explanation.links.map(\.name) == ["mac0", "eth0"])
    #expect(explanation.links.map(\.kind) == ["macvlan", "veth"])
    #expect(explanation.links.map(\.evidence?.source) == ["kind", "configuration"])
    #expect(explanation.links.map(\.state) == ["up", "up"])
    #expect(explanation.rules.map(\.table) == [254])
    #expect(explanation.category == "wired")
  }
}

import CLinux
import Connectivity
import Testing

@testable import Netlink

@Suite("Bridge ports, and tunnel ends")
struct PortTests {
  @Test("K3 a bridge reports whether its port forwards")
  func states() throws {
    let port = try self.link(PortCaptures.listening)
    #expect(port.index == 10 && port.name == "eth0")
    #expect(port.bridgePort == BridgePort(forwards: false))
    #expect(try self.link(PortCaptures.forwarding).bridgePort == BridgePort())
    let link = try self.link(PortCaptures.link)
    #expect(link.kind == "veth")
    #expect(link.bridgePort == BridgePort())
  }

  @Test("K6 a route's encapsulation gives the outer destination")
  func encapsulation() throws {
    func outer(_ capture: Capture) throws -> Destination? {
      try withMessage(capture.bytes) { RouteMessage(message: $0)?.outer }
    }
    #expect(try outer(PortCaptures.routeByTunnel4)?.address == IPAddress("10.0.0.1"))
    #expect(try outer(PortCaptures.routeBySegments6)?.address == IPAddress("fc00::2"))
    #expect(try outer(RouteCaptures.defaultRoute4) == nil)
  }

  @Test("K6 a truncated encapsulation is ignored")
  func truncated() throws {
    for capture in [PortCaptures.routeByTunnel4, PortCaptures.routeBySegments6] {
      for count in 0..<capture.bytes.count {
        let bytes = capture.truncated(to: count, isConsistent: true)
        _ = try? withMessage(bytes) { RouteMessage(message: $0)?.outer }
      }
    }
  }

  @Test("K6 a tunnel without a fixed end finds it by the rule of its kind")
  func openEnds() throws {
    let local = try #require(IPAddress("192.0.2.7"))
    #expect(
      try self.tunnel("gre", [(6, local.bytes), (20, raw(UInt32(7)))])
        == OpenEnd(.hardwareAddress(.ipv4), source: local, mark: 7))
    #expect(try self.tunnel("ip6gre", []) == OpenEnd(.hardwareAddress(.ipv6)))
    #expect(try self.tunnel("ipip", [(3, [0, 0, 0, 0])]) == OpenEnd(.nextHop(.ipv4)))
    #expect(try self.tunnel("ip6tnl", []) == OpenEnd(.nextHop(.ipv6)))
    #expect(try self.tunnel("sit", []) == OpenEnd(.embedded(nil)))
    let prefix = try #require(IPAddress("2001:db8::"))
    let relay = try #require(IPAddress("10.0.0.0"))
    let domain = EmbeddedIPv4(
      prefix: try #require(IPPrefix(prefix, length: 32)),
      relay: try #require(IPPrefix(relay, length: 8)))
    #expect(
      try self.tunnel(
        "sit",
        [(11, prefix.bytes), (12, relay.bytes), (13, raw(UInt16(32))), (14, raw(UInt16(8)))])
        == OpenEnd(.embedded(domain)))
    // With a fixed end, with metadata, or with Ethernet frames, the route does not determine it.
    #expect(try self.tunnel("gre", [(7, local.bytes)]) == nil)
    #expect(try self.tunnel("gre", [(18, [])]) == nil)
    #expect(try self.tunnel("ipip", [(19, [])]) == nil)
    #expect(try self.tunnel("gretap", []) == nil)
    #expect(try self.tunnel("vxlan", []) == nil)
  }

  private func link(_ capture: Capture) throws -> Link {
    guard case .link(let link) = try #require(capture.events.first) else {
      throw NetlinkError(operation: "RTM_NEWLINK", code: 74)
    }
    return link
  }

  private func tunnel(_ kind: String, _ data: [(Int, [UInt8])]) throws -> OpenEnd? {
    func attribute(_ type: Int, _ payload: [UInt8]) -> [UInt8] {
      raw(UInt16(4 + payload.count)) + raw(UInt16(type)) + payload
        + Array(repeating: 0, count: -payload.count & 3)
    }
    let information =
      attribute(Int(IFLA_INFO_KIND), Array(kind.utf8) + [0])
      + attribute(Int(IFLA_INFO_DATA), data.flatMap { attribute($0.0, $0.1) })
    var message = MessageBuilder(
      type: Int(RTM_NEWLINK),
      header: [0, 0] + raw(UInt16(768)) + raw(Int32(9)) + raw(UInt32(0x91)) + raw(UInt32(0)))
    message.put(Int(IFLA_IFNAME), Array("tunnel".utf8) + [0])
    message.put(Int(IFLA_LINKINFO), information)
    return try self.link(Capture(bytes: message.bytes)).openEnd
  }
}

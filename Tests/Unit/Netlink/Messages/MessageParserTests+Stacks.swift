import CLinux
import Connectivity
import Testing

@testable import Netlink

/// Links that stand on other links.
extension MessageParserTests {
  @Test("K6 the links below a stacked link are parsed")
  func stacks() throws {
    let vlan = try #require(LinkCaptures.vlan.events.first?.link)
    #expect(vlan.kind == "vlan")
    #expect(vlan.lower == 2)

    let bond = try #require(LinkCaptures.bond.events.first?.link)
    #expect(bond.kind == "bond")
    #expect(bond.activePort == 7)

    let port = try #require(LinkCaptures.bondPort.events.first?.link)
    #expect(port.kind == "veth")
    #expect(port.master == 5)
    #expect(port.lower == 6)

    let vxlan = try #require(LinkCaptures.vxlan.events.first?.link)
    #expect(vxlan.kind == "vxlan")
    #expect(
      try vxlan.outer
        == Destination(address("192.0.2.99"), transport: Transport(17, remotePort: 4789)))
    #expect(try #require(LinkCaptures.vxlanGroup.events.first?.link).outer == nil)
  }

  @Test(
    "K6 a tunnel's remote end is parsed",
    arguments: [
      ("gre", 7, "192.0.2.77"), ("gretap", 7, "192.0.2.77"), ("ip6gre", 7, "2001:db8::77"),
      ("ipip", 3, "192.0.2.77"), ("sit", 3, "192.0.2.77"), ("ip6tnl", 3, "2001:db8::77"),
      ("vxlan", 2, "192.0.2.77"), ("vxlan", 16, "2001:db8::77"),
    ])
  func remotes(kind: String, attribute: Int, remote: String) throws {
    #expect(try self.tunnel(kind, attribute, remote).outer?.address == address(remote))
    // Tunnels without a remote end.
    let other = remote.contains(":") ? "::" : "0.0.0.0"
    #expect(try self.tunnel(kind, attribute, other).outer == nil)
    #expect(try self.tunnel(kind, attribute + 40, remote).outer == nil)
  }

  @Test("I0 K6 the routing keys of a tunnel's own packets are parsed")
  func outer() throws {
    let remote: IPAddress = try address("192.0.2.77")
    let local = try address("192.0.2.7")
    func outer(_ kind: String, _ attributes: [(Int, [UInt8])]) throws -> Destination? {
      try self.tunnel(kind, attributes.flatMap { self.attribute($0.0, $0.1) }).outer
    }
    for (kind, localType, remoteType) in [("gre", 6, 7), ("ipip", 2, 3), ("sit", 2, 3)] {
      #expect(
        try outer(
          kind, [(localType, local.bytes), (remoteType, remote.bytes), (20, raw(UInt32(7)))])
          == Destination(remote, mark: 7, source: local))
    }
    #expect(
      try outer("vxlan", [(2, remote.bytes), (4, local.bytes), (15, [0x21, 0x18])])
        == Destination(remote, source: local, transport: Transport(17, remotePort: 8472)))
    #expect(
      try outer("geneve", [(2, remote.bytes), (5, [0x17, 0xC1])])
        == Destination(remote, transport: Transport(17, remotePort: 6081)))
    // It has no fixed source address.
    #expect(
      try outer("gre", [(6, [0, 0, 0, 0]), (7, remote.bytes)]) == Destination(remote))
  }

  private func tunnel(_ kind: String, _ attribute: Int, _ remote: String) throws -> Link {
    try self.tunnel(kind, self.attribute(attribute, address(remote).bytes))
  }

  private func tunnel(_ kind: String, _ data: [UInt8]) throws -> Link {
    let information =
      self.attribute(Int(IFLA_INFO_KIND), Array(kind.utf8) + [0])
      + self.attribute(Int(IFLA_INFO_DATA), data)
    var message = MessageBuilder(type: Int(RTM_NEWLINK), header: self.header(index: 9))
    message.put(Int(IFLA_IFNAME), Array("tunnel".utf8) + [0])
    message.put(Int(IFLA_LINK), raw(UInt32(0)))
    // Newer messages mark nested attributes.
    message.put(Int(IFLA_LINKINFO) | 0x8000, information)
    let link = try #require(Capture(bytes: message.bytes).events.first?.link)
    #expect(link.kind == kind)
    #expect(link.lower == nil)
    return link
  }

  private func attribute(_ type: Int, _ payload: [UInt8]) -> [UInt8] {
    raw(UInt16(4 + payload.count)) + raw(UInt16(type)) + payload
      + Array(repeating: 0, count: -payload.count & 3)
  }

  func header(index: Int32) -> [UInt8] {
    [0, 0] + raw(UInt16(1)) + raw(index) + raw(UInt32(0x1043)) + raw(UInt32(0))
  }

  @Test("An index in another namespace is not a lower link")
  func lowerElsewhere() throws {
    var message = MessageBuilder(type: Int(RTM_NEWLINK), header: self.header(index: 9))
    message.put(Int(IFLA_IFNAME), Array("ve0".utf8) + [0])
    message.put(Int(IFLA_LINK), raw(UInt32(4)))
    #expect(try #require(Capture(bytes: message.bytes).events.first?.link).lower == 4)
    message.put(Int(IFLA_LINK_NETNSID), raw(Int32(0)))
    #expect(try #require(Capture(bytes: message.bytes).events.first?.link).lower == nil)
  }
}

import Connectivity
import Testing

@testable import ConndServer
@testable import ConnectivityRules
@testable import Connectivity

/// Gateways behind bridges, other links and families, and modems.
extension GatewayTableTests {
  @Test("I4 K6 the gateway is behind a bridge → the port's carrier counts")
  func lowerPort() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2])
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "192.0.2.8"))
    self.kernel.neighbours[self.gateway] = self.router(7, on: 4)
    let before = try self.identity()
    try self.replug()
    self.kernel.neighbours[self.gateway] = self.router(8, on: 4)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 K6 a port that is gone counts as lost, even before its message arrives")
  func remadePort() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2])
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "192.0.2.8"))
    self.kernel.neighbours[self.gateway] = self.router(7, on: 4)
    let before = try self.identity()
    self.kernel.linkTable[2] = nil
    self.kernel.addLink(5, "eth0")
    self.kernel.addStack(4, "br0", kind: "bridge", over: [5])
    self.kernel.neighbours[self.gateway] = self.router(8, on: 4)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a link without a known gateway begins no epoch")
  func otherLink() throws {
    let before = try self.identity()
    self.kernel.addLink(3, "eth1")
    try self.replug(3)
    self.tell(8)
    #expect(try self.fate(since: before) == "failover")
  }

  @Test(
    "I4 on a link without MAC addresses, a removed address of the other family changes nothing")
  func otherFamily() throws {
    self.kernel.linkTable[2]?.link.flags.insert(.pointToPoint)
    let before = try self.identity()
    let other = try IPAddress(spelt: "2001:db8::7")
    self.networks.note([.addressRemoved(Address(other, prefixLength: 64, link: 2))])
    #expect(try self.identity() == before)
    let own = try IPAddress(spelt: "192.0.2.7")
    self.networks.note([.addressRemoved(Address(own, prefixLength: 24, link: 2))])
    #expect(try self.identity() != before)
  }

  @Test(
    "I4 a modem has no MAC addresses: after a link loss, its gateway and prefix identify the network"
  )
  func modem() throws {
    self.kernel.linkTable[2]?.link.hardwareAddress = []
    let before = try self.identity()
    #expect(!before.hasHardwareAddresses && !self.networks.isNew)
    // A lost link alone is not another network, if gateway and prefix are the same afterwards.
    try self.replug()
    #expect(try self.fate(since: before) == "same")
    let after = try self.identity()
    let redialled = RouteAnswer.over(2, via: "192.0.2.2", from: "192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, redialled)
    #expect(try self.fate(since: after) == "same", "another route, on a link that never went")
    #expect(try self.fate(since: before) == "other")
    try self.replug()
    #expect(try self.fate(since: after) == "other")
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(try self.fate(since: after) == "same")
  }

  @Test("I4 a modem re-dials → flows on another modem are not affected")
  func otherModem() throws {
    self.kernel.linkTable[2]?.link.hardwareAddress = []
    let before = try self.identity()
    self.kernel.addLink(3, "wwan1")
    self.kernel.linkTable[3]?.link.hardwareAddress = []
    try self.kernel.lead("203.0.113.0", 24, .over(3, via: "192.0.2.9", from: "192.0.2.8"))
    let other = try self.identity()
    try self.replug(3)
    try self.kernel.cut("203.0.113.0", 24)
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.2", from: "192.0.2.7"))
    #expect(try self.fate(since: before) == "same")
    try self.kernel.lead("203.0.113.0", 24, .over(3, via: "192.0.2.2", from: "192.0.2.8"))
    #expect(try self.fate(since: other) == "other")
  }
}

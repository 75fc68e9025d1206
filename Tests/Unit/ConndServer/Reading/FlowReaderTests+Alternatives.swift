import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// The way that new connections get instead.
extension FlowReaderTests {
  /// A rule keeps the flow on its way, and new connections use eth1.
  private func keep() throws {
    try self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
  }

  @Test("I3 a flow that a rule keeps on its link has an alternative, and is kept")
  func kept() throws {
    try self.keep()
    let alternative = try self.reading().alternative
    #expect(
      alternative == .init(link: 3, source: IPAddress("198.51.100.7"), isKept: true))
  }

  @Test("I3 a link without carrier is not an alternative")
  func deadAlternative() throws {
    try self.keep()
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.reading().alternative == nil)
  }

  @Test("I0 another leg of the flow's own route is not an alternative")
  func leg() throws {
    try self.kernel.spread("0.0.0.0", 0, over: [self.eth1, self.eth0])
    let reading = try self.reading()
    #expect(reading.path.interface == "eth0")
    #expect(reading.formerLink == nil && reading.alternative == nil)
  }

  /// Another subnet on the flow's link, and whether the flow keeps its way beside it.
  struct OtherSubnet: CustomTestStringConvertible, Sendable {
    let testDescription: String
    var router = "10.0.0.1"
    var hasOwnTable = false
    var isKept = true

    static let all = [
      Self(testDescription: "by the same router", router: "192.0.2.1"),
      Self(testDescription: "by another router", isKept: false),
      Self(testDescription: "by another router, beside a table of its own", hasOwnTable: true),
    ]
  }

  @Test(
    "I3 another subnet is preferred on the same link → kept with a table of its own, or the same router",
    arguments: OtherSubnet.all)
  func subnet(_ row: OtherSubnet) throws {
    if row.hasOwnTable {
      try self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    }
    let other = RouteAnswer.over(2, via: row.router, from: "10.0.0.7")
    try self.kernel.lead("0.0.0.0", 0, other, metric: 100)
    let alternative = try self.reading().alternative
    #expect(alternative == .init(link: 2, source: IPAddress("10.0.0.7"), isKept: row.isKept))
    // An address of the same subnet is not an alternative (T3).
    let near = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.8")
    try self.kernel.lead("0.0.0.0", 0, near, metric: 100)
    #expect(try self.reading().alternative == nil)
  }

  @Test(
    "I0 I3 another prefix is preferred → the flow is kept if the same IPv6 router announces it",
    arguments: ["fe80::1", "fe80::2"])
  func prefix(router: String) throws {
    try self.kernel.give("2001:db8:1::7", to: 2)
    try self.kernel.give("2001:db8:2::7", to: 2)
    self.flow.address = try IPAddress(spelt: "2001:db8:9::9")
    self.flow.source = try IPAddress(spelt: "2001:db8:1::7")
    try self.kernel.lead("::", 0, .over(2, via: "fe80::1", from: "2001:db8:1::7"), metric: 100)
    let made = try self.reader.flowPath(to: self.flow).judged
    try self.kernel.lead("::", 0, .over(2, via: router, from: "2001:db8:2::7"), metric: 50)
    let reader = self.reader
    var flowPath = try reader.flowPath(to: self.flow)
    // This also holds if the router was known before the address became usable.
    for path in [made, flowPath.judged] {
      let reading = try reader.reading(of: self.flow, madeOn: path, by: made.gateway, &flowPath)
      #expect(reading.alternative?.source == IPAddress("2001:db8:2::7"))
      #expect(reading.alternative?.isKept == (router == "fe80::1"))
    }
  }

  @Test(
    "I0 I3 another subnet on one of several legs → kept, because each connection takes one leg and its address"
  )
  func subnetOfLeg() throws {
    let other = RouteAnswer.over(2, via: "192.0.2.1", from: "10.0.0.7")
    try self.kernel.spread("0.0.0.0", 0, over: [other, self.eth1])
    #expect(
      try self.reading().alternative
        == .init(link: 2, source: IPAddress("10.0.0.7"), isKept: true))
  }

  @Test("I0 a source address that is not on any link is the application's own choice")
  func anyIP() throws {
    self.kernel.localBlocks = [try IPPrefix(spelt: "10.9.0.0", 16)]
    self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    self.flow.source = try IPAddress(spelt: "10.9.0.1")
    let reading = try self.reading()
    #expect(!reading.isSourceGone && reading.formerLink == nil && reading.alternative == nil)
  }
}

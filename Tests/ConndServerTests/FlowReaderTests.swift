import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// What there is to see of a flow: 192.0.2.7 is eth0's and 198.51.100.7 is eth1's.
@Suite("Flow reader")
final class FlowReaderTests {
  private let kernel = ModelKernel()
  private var interests = Interests()
  private let eth0 = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private let eth1 = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")
  private var flow: Destination
  /// What the flow was made on.
  private var made: Path {
    var path = Path(status: .satisfied, chain: [PathLink(index: 2, name: "eth0")])
    path.source = IPAddress("192.0.2.7")
    return path
  }

  init() throws {
    self.kernel.addLink(2, "eth0")
    self.kernel.addLink(3, "eth1")
    try self.kernel.lead("0.0.0.0", 0, self.eth0, metric: 100)
    try self.kernel.give("198.51.100.7", to: 3)
    self.flow = Destination(try IPAddress(spelt: "203.0.113.9"))
    self.flow.source = try IPAddress(spelt: "192.0.2.7")
    self.flow.transport = Transport(6, localPort: 4711, remotePort: 443)
  }

  /// What belongs to one turn.
  private var reader: FlowReader {
    FlowReader(
      PathReader(
        destinations: Configuration().destinations, classifier: PathClassifier()),
      KernelView(self.kernel, self.interests))
  }

  private func reading(madeOn path: Path? = nil) throws -> FlowReading {
    let reader = self.reader
    defer { self.interests = reader.view.interests }
    var way = try reader.way(to: self.flow)
    return try reader.reading(of: self.flow, madeOn: path ?? self.made, &way)
  }

  @Test("I0 a flow whose own question leads its own way has left nothing, and there is no other")
  func present() throws {
    let reading = try self.reading()
    #expect(reading.formerLink == nil && reading.alternative == nil && !reading.isSourceGone)
    #expect(reading.path.interface == "eth0")
  }

  @Test("I2 only of a flow that is bound or marked it is asked whether its answers are taken")
  func replies() throws {
    self.kernel.refusingReplies = [2]
    #expect(try !self.reading().areRepliesRefused)
    #expect(!self.kernel.asked.contains { $0.hasPrefix("reply") })
    self.flow.outLink = 2
    #expect(try self.reading().areRepliesRefused)
    self.kernel.refusingReplies = []
    #expect(try !self.reading().areRepliesRefused)
    self.flow.outLink = nil
    self.flow.mark = 7
    self.kernel.refusingReplies = [2]
    #expect(try self.reading().areRepliesRefused)
  }

  // MARK: - The link that it was made on

  @Test("I2 a link that was left because it failed", arguments: [LinkState.down, .noCarrier, nil])
  func failed(_ state: LinkState?) throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    if let state { self.kernel.setState(of: 2, state) } else { self.kernel.linkTable[2] = nil }
    #expect(try self.reading().formerLink == .failed)
    // Without another way only that it is down, or gone, is sure.
    self.kernel.routes = []
    #expect(try self.reading().formerLink == (state == .noCarrier ? nil : .failed))
  }

  @Test("I10 a link that was left because its route went")
  func withoutRoute() throws {
    try self.kernel.cut("0.0.0.0", 0, metric: 100)
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try self.reading().formerLink == .withoutRoute)
    // The kernel makes one up for IPv4 traffic that is bound to a link.
    self.kernel.bound[2] = .over(2, from: "192.0.2.7", table: 0)
    #expect(try self.reading().formerLink == .withoutRoute)
  }

  @Test("I3 a link that was left because another route is preferred")
  func withRoute() throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try self.reading().formerLink == .withRoute)
  }

  @Test(
    "I3 an address that no link to elsewhere has ties a flow to its link all the same",
    arguments: ["lo", "dummy"])
  func addressElsewhere(_ name: String) throws {
    self.kernel.take("192.0.2.7")
    try self.kernel.give("192.0.2.7", to: 7)
    self.kernel.addLink(7, name, kind: name == "dummy" ? name : nil)
    if name == "lo" { self.kernel.linkTable[7]?.link.flags.insert(.loopback) }
    #expect(try self.reading().formerLink == nil)
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try self.reading().formerLink == .withRoute)
    try self.kernel.cut("0.0.0.0", 0, metric: 100)
    #expect(try self.reading().formerLink == .withoutRoute)
    // Its link has not failed with the one that the traffic left by.
    self.kernel.setState(of: 2, .down)
    #expect(try self.reading().formerLink == .withoutRoute)
    // By the new way it is what others get, too.
    try self.kernel.lead("0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "192.0.2.7"))
    #expect(try self.reading().formerLink == .untied)
  }

  @Test(
    "I0 I3 an address of the link that was left goes with the route where that says so, and not where the kernel borrows it",
    arguments: [true, false])
  func givenAddress(isSet: Bool) throws {
    let other = RouteAnswer.over(3, via: "198.51.100.1", from: "192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, other)
    if isSet { self.kernel.setSources = [try IPAddress(spelt: "192.0.2.7")] }
    #expect(try self.reading().formerLink == (isSet ? .untied : .withRoute))
  }

  @Test(
    "I0 an address is given by a VPN where it is of no subnet, and a route in a table of its own sets it",
    arguments: [(100, 32, true), (254, 32, true), (100, 24, true), (100, 32, false)])
  func givenByVPN(table: UInt32, length: Int, isSet: Bool) throws {
    let address = try IPAddress(spelt: "10.9.0.5")
    self.kernel.addressTable.append(Address(address, prefixLength: length, link: 3))
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
    if isSet { self.kernel.setSources = [address] }
    self.flow.source = address
    let made = try self.reader.way(to: self.flow).judged
    let isGiven = table == 100 && length == 32 && isSet
    #expect(try self.reading(madeOn: made).isSourceGiven == isGiven)
    // Who is bound to a link, or for whose address there is a rule, has his own way.
    self.flow.outLink = 2
    #expect(try !self.reading(madeOn: made).isSourceGiven)
    self.flow.outLink = nil
    self.kernel.pin(.over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
    try self.kernel.lead("0.0.0.0", 0, self.eth0)
    #expect(try !self.reading(madeOn: made).isSourceGiven)
  }

  @Test(
    "I10 a route that was removed, over whose link a worse one leads, is no better path's matter")
  func withWorseRoute() throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    func formerLink(
      after prefix: String, _ length: Int, on link: UInt32?
    ) throws -> FlowReading.FormerLink? {
      let route = MatchedRoute(
        prefix: try IPPrefix(spelt: prefix, length), table: 254, priority: 0)
      let removals = Removals(
        .events([.routeRemoved(RouteChange(route, outLink: link, gateway: nil))]))
      let reader = FlowReader(self.reader.reader, self.reader.view, removals: removals)
      var way = try reader.way(to: self.flow)
      return try reader.reading(of: self.flow, madeOn: self.made, &way).formerLink
    }
    #expect(try formerLink(after: "203.0.113.0", 24, on: 2) == .withWorseRoute)
    #expect(try formerLink(after: "203.0.113.0", 24, on: nil) == .withWorseRoute)
    #expect(try formerLink(after: "203.0.112.0", 24, on: 2) == .withRoute)
    #expect(try formerLink(after: "203.0.113.0", 24, on: 3) == .withRoute)
    for (event, former) in [
      (.ruleRemoved(.ipv4), .withWorseRoute), (.ruleRemoved(.ipv6), .withRoute),
      (.nexthopRemoved(id: 7), .withWorseRoute), (.overrun, .withRoute),
    ] as [(KernelEvent, FlowReading.FormerLink)] {
      let reader = FlowReader(
        self.reader.reader, self.reader.view, removals: Removals(.events([event])))
      var way = try reader.way(to: self.flow)
      #expect(
        try reader.reading(of: self.flow, madeOn: self.made, &way).formerLink == former, "\(event)")
    }
  }

  @Test("I0 a link that the flow does not depend on", arguments: ["address", "legs"])
  func untied(_ why: String) throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    if why == "address" {
      // It is where the flow leaves now.
      try self.kernel.give("192.0.2.7", to: 3)
    } else {
      // Before 6.15 Linux went by the ports alone.
      try self.kernel.spread("0.0.0.0", 0, over: [self.eth0, self.eth1])
      self.kernel.take("192.0.2.7")
      self.kernel.localBlocks = [try IPPrefix(spelt: "192.0.2.0", 24)]
      self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    }
    #expect(try self.reading().formerLink == .untied)
  }

  @Test(
    "I0 I3 of several legs each is right, unless the flow's ports are known and its address is the old one's",
    arguments: [true, false])
  func anotherLeg(knowsPorts: Bool) throws {
    self.kernel.choosesLegBySource = false
    try self.kernel.spread("0.0.0.0", 0, over: [self.eth1, self.eth0])
    self.flow.transport?.localPort = knowsPorts ? 4712 : 0
    let reading = try self.reading()
    #expect(reading.path.interface == "eth1")
    #expect(reading.formerLink == (knowsPorts ? .withRoute : .untied))
  }

  @Test(
    "I0 of several IPv6 legs each that carries is right: which is taken changes with what routers seem to do"
  )
  func anotherIPv6Leg() throws {
    let legs = [
      RouteAnswer.over(3, via: "fe80::1", from: "2001:db8:3::7"),
      .over(2, via: "fe80::1", from: "2001:db8:2::7"),
    ]
    self.kernel.choosesLegBySource = false
    try self.kernel.spread("::", 0, over: legs)
    self.flow.address = try IPAddress(spelt: "2001:db8:f::9")
    self.flow.source = try IPAddress(spelt: "2001:db8:2::7")
    self.flow.transport?.localPort = 4712
    let reading = try self.reading()
    #expect(reading.path.interface == "eth1")
    #expect(reading.formerLink == .leg)
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try self.reading().formerLink == .failed)
  }

  @Test("I0 I1 of a flow whose address is gone nothing else matters")
  func nothingElse() throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    self.kernel.take("192.0.2.7")
    let gone = try self.reading()
    #expect(gone.isSourceGone && gone.formerLink == nil)
  }

  @Test(
    "I3 I10 an address that moves from another machine to this one, and the other way, may move back"
  )
  func takenOver() throws {
    self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    let made = try self.reader.way(to: self.flow).judged
    try self.kernel.give("203.0.113.9", to: 3)
    var way = try self.reader.way(to: self.flow)
    let here = way.judged
    let local = try self.reader.reading(of: self.flow, madeOn: made, &way)
    #expect(local.isLocal && local.formerLink == .withoutRoute && local.alternative == nil)
    // What begins as it is here has left nothing.
    #expect(try self.reader.reading(of: self.flow, madeOn: here, &way).formerLink == nil)
    self.kernel.take("203.0.113.9")
    way = try self.reader.way(to: self.flow)
    let gone = try self.reader.reading(of: self.flow, madeOn: here, &way)
    #expect(!gone.isLocal && gone.formerLink == .withoutRoute)
  }

  @Test("I10 a flow that has no address yet has left nothing, whatever it would have been sent by")
  func notBegun() throws {
    self.kernel.setState(of: 2, .noCarrier)
    let expected = try self.reader.way(to: self.flow).judged
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    self.flow.source = nil
    let reading = try self.reading(madeOn: expected)
    #expect(reading.formerLink == nil && reading.path.interface == "eth1")
  }

  // MARK: - What new connections get

  /// A rule keeps the flow on its way, and what is new goes by eth1.
  private func keep() throws {
    self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
  }

  @Test("I3 a flow that a rule keeps on its link has an alternative, and is kept")
  func kept() throws {
    try self.keep()
    let alternative = try self.reading().alternative
    #expect(
      alternative == .init(link: 3, source: IPAddress("198.51.100.7"), isKept: true))
  }

  @Test("I3 a link that carries nothing is no alternative")
  func deadAlternative() throws {
    try self.keep()
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.reading().alternative == nil)
  }

  @Test("I0 another leg of the flow's own route is no alternative")
  func leg() throws {
    try self.kernel.spread("0.0.0.0", 0, over: [self.eth1, self.eth0])
    let reading = try self.reading()
    #expect(reading.path.interface == "eth0")
    #expect(reading.formerLink == nil && reading.alternative == nil)
  }

  @Test("I3 another subnet that is preferred on the same link", arguments: [false, true])
  func subnet(hasOwnTable: Bool) throws {
    if hasOwnTable {
      self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    }
    let other = RouteAnswer.over(2, via: "192.0.2.1", from: "10.0.0.7")
    try self.kernel.lead("0.0.0.0", 0, other, metric: 100)
    let alternative = try self.reading().alternative
    #expect(
      alternative == .init(link: 2, source: IPAddress("10.0.0.7"), isKept: hasOwnTable))
    // Of the same it is none (T3).
    let near = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.8")
    try self.kernel.lead("0.0.0.0", 0, near, metric: 100)
    #expect(try self.reading().alternative == nil)
  }

  @Test(
    "I0 I3 another prefix of the same IPv6 router is no better way; of another router it is",
    arguments: ["fe80::1", "fe80::2"])
  func prefix(router: String) throws {
    try self.kernel.give("2001:db8:1::7", to: 2)
    try self.kernel.give("2001:db8:2::7", to: 2)
    self.flow.address = try IPAddress(spelt: "2001:db8:9::9")
    self.flow.source = try IPAddress(spelt: "2001:db8:1::7")
    try self.kernel.lead("::", 0, .over(2, via: "fe80::1", from: "2001:db8:1::7"), metric: 100)
    let made = try self.reader.way(to: self.flow).judged
    try self.kernel.lead("::", 0, .over(2, via: router, from: "2001:db8:2::7"), metric: 50)
    let reader = self.reader
    var way = try reader.way(to: self.flow)
    // Also where the router was seen before the address was good.
    for path in [made, way.judged] {
      let reading = try reader.reading(of: self.flow, madeOn: path, by: made.gateway, &way)
      #expect(reading.alternative?.source == IPAddress("2001:db8:2::7"))
      #expect(reading.alternative?.isKept == (router == "fe80::1"))
    }
  }

  @Test("I0 I3 another subnet on one of several legs: each connection takes one, and its address")
  func subnetOfLeg() throws {
    let other = RouteAnswer.over(2, via: "192.0.2.1", from: "10.0.0.7")
    try self.kernel.spread("0.0.0.0", 0, over: [other, self.eth1])
    #expect(
      try self.reading().alternative
        == .init(link: 2, source: IPAddress("10.0.0.7"), isKept: true))
  }

  @Test("I0 who sends from an address that no link has, has chosen that himself")
  func anyIP() throws {
    self.kernel.localBlocks = [try IPPrefix(spelt: "10.9.0.0", 16)]
    self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    self.flow.source = try IPAddress(spelt: "10.9.0.1")
    let reading = try self.reading()
    #expect(!reading.isSourceGone && reading.formerLink == nil && reading.alternative == nil)
  }

  // MARK: - Ways

  @Test("D6 flows with the same answer share their way, and what it costs")
  func shared() throws {
    let reader = self.reader
    let way = try reader.way(to: self.flow)
    let before = self.kernel.questions
    for last in 1...100 {
      var other = self.flow
      other.address = try IPAddress(spelt: "198.18.0.\(last)")
      #expect(try reader.way(to: other) === way)
      var same = way
      _ = try reader.reading(of: other, madeOn: self.made, &same)
    }
    // One for each, whose address it is, and once what new connections get.
    #expect(self.kernel.questions - before <= 100 + 4)
  }

  @Test("K6 neighbours behind a bridge may be behind different ports, and share no way")
  func neighbours() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2, 3])
    try self.kernel.lead("10.0.0.0", 24, .over(4, from: "10.0.0.7"))
    for (last, port) in [(1, 2), (2, 3)] as [(UInt8, UInt32)] {
      let address = try IPAddress(spelt: "10.0.0.\(last)")
      self.kernel.neighbours[address] = Neighbour(address, link: 4, hardwareAddress: [last])
      self.kernel.learnt[[last]] = port
    }
    let reader = self.reader
    let ways = try ["10.0.0.1", "10.0.0.2", "10.0.0.1"].map {
      try reader.way(to: Destination(try IPAddress(spelt: $0)))
    }
    #expect(ways[0] !== ways[1] && ways[0] === ways[2])
    #expect(ways.map { $0.shown.chain.last?.name } == ["eth0", "eth1", "eth0"])
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// Readings of a flow: eth0 has 192.0.2.7, and eth1 has 198.51.100.7.
@Suite("Flow reader")
final class FlowReaderTests {
  private let kernel = ModelKernel()
  private var subscriptions = KernelSubscriptions()
  private let eth0 = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private let eth1 = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")
  private var flow: Destination
  /// The path that the flow was made on.
  private var made: Path {
    var path = Path(status: .satisfied, chain: [PathLink(index: 2, name: "eth0")])
    (path.source, path.gateway) = (IPAddress("192.0.2.7"), IPAddress("192.0.2.1"))
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

  /// A reader for one turn.
  private var reader: FlowReader {
    FlowReader(
      PathReader(
        destinations: Configuration().destinations, classifier: PathClassifier()),
      KernelView(self.kernel, self.subscriptions))
  }

  private func reading(madeOn path: Path? = nil) throws -> FlowReading {
    let reader = self.reader
    defer { self.subscriptions = reader.view.subscriptions }
    var way = try reader.way(to: self.flow)
    return try reader.reading(of: self.flow, madeOn: path ?? self.made, &way)
  }

  @Test(
    "I0 the flow's own lookup leads the same way → it has left no link, and there is no alternative"
  )
  func present() throws {
    let reading = try self.reading()
    #expect(reading.formerLink == nil && reading.alternative == nil && !reading.isSourceGone)
    #expect(reading.path.interface == "eth0")
  }

  @Test("I2 only for a bound or marked flow connd checks whether its replies are accepted")
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

  // MARK: - The link that the flow was made on

  @Test(
    "I2 traffic moved because the link failed → the former link is failed",
    arguments: [LinkState.down, .noCarrier, nil])
  func failed(_ state: LinkState?) throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    if let state { self.kernel.setState(of: 2, state) } else { self.kernel.linkTable[2] = nil }
    #expect(try self.reading().formerLink == .failed)
    // Without another way, only a link that is down or gone counts as failed.
    self.kernel.routes = []
    #expect(try self.reading().formerLink == (state == .noCarrier ? nil : .failed))
  }

  @Test("I10 traffic moved because the route was removed → the former link is without route")
  func withoutRoute() throws {
    try self.kernel.cut("0.0.0.0", 0, metric: 100)
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try self.reading().formerLink == .withoutRoute)
    // For IPv4 traffic bound to a link, the kernel makes up a route.
    self.kernel.bound[2] = .over(2, from: "192.0.2.7", table: 0)
    #expect(try self.reading().formerLink == .withoutRoute)
  }

  @Test("I3 traffic moved because another route is preferred → the former link still has a route")
  func withRoute() throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try self.reading().formerLink == .withRoute)
  }

  @Test(
    "I3 the flow's address is on lo or a dummy → the flow is still tied to its link",
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
    // The link that the traffic left has failed, but not the link of the address.
    self.kernel.setState(of: 2, .down)
    #expect(try self.reading().formerLink == .withoutRoute)
    // The new way uses the address that other connections get, too.
    try self.kernel.lead("0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "192.0.2.7"))
    #expect(try self.reading().formerLink == .untied)
  }

  @Test(
    "I0 I3 the new route sets the former link's address → untied; the kernel only borrows the address → the link still has a route",
    arguments: [true, false])
  func givenAddress(isSet: Bool) throws {
    let other = RouteAnswer.over(3, via: "198.51.100.1", from: "192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, other)
    if isSet { self.kernel.setSources = [try IPAddress(spelt: "192.0.2.7")] }
    #expect(try self.reading().formerLink == (isSet ? .untied : .withRoute))
  }

  @Test(
    "I0 an address comes from a VPN if it has no subnet and a route in its own table sets it",
    arguments: [(100, 32, true), (254, 32, true), (100, 24, true), (100, 32, false)])
  func givenByVPN(table: UInt32, length: Int, isSet: Bool) throws {
    let address = try IPAddress(spelt: "10.9.0.5")
    self.kernel.addressTable.append(Address(address, prefixLength: length, link: 3))
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
    if isSet { self.kernel.setSources = [address] }
    self.flow.source = address
    let made = try self.reader.way(to: self.flow).judged
    let isGiven = table == 100 && length == 32 && isSet
    #expect(try self.reading(madeOn: made).isSourceAssignedByVPN == isGiven)
    // A flow that is bound to a link, or for whose address there is a rule, has its own way.
    self.flow.outLink = 2
    #expect(try !self.reading(madeOn: made).isSourceAssignedByVPN)
    self.flow.outLink = nil
    self.kernel.pin(.over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
    try self.kernel.lead("0.0.0.0", 0, self.eth0)
    #expect(try !self.reading(madeOn: made).isSourceAssignedByVPN)
  }

  @Test(
    "I10 the route was removed and a worse one uses the same link → worse route, not a better path"
  )
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

  @Test(
    "I0 a flow that does not depend on the former link has not left it",
    arguments: ["address", "legs"])
  func untied(_ why: String) throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    if why == "address" {
      // The flow now leaves by the link that has its address.
      try self.kernel.give("192.0.2.7", to: 3)
    } else {
      // Before version 6.15, Linux hashed on the ports alone.
      try self.kernel.spread("0.0.0.0", 0, over: [self.eth0, self.eth1])
      self.kernel.take("192.0.2.7")
      self.kernel.localBlocks = [try IPPrefix(spelt: "192.0.2.0", 24)]
      self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    }
    #expect(try self.reading().formerLink == .untied)
  }

  @Test(
    "I0 I3 any leg of a multipath route is right, unless the flow's ports are known and its address is the old leg's",
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
    "I0 any working leg of an IPv6 multipath route is right: the choice depends on router reachability"
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

  @Test("I0 I1 the flow's address is gone → nothing else is checked")
  func nothingElse() throws {
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    self.kernel.take("192.0.2.7")
    let gone = try self.reading()
    #expect(gone.isSourceGone && gone.formerLink == nil)
  }

  @Test(
    "I1 the address is gone → it may return, unless its link failed or the address was replaced")
  func sourceLoss() throws {
    let made = try self.reader.way(to: self.flow).judged
    func loss() throws -> FlowReading.SourceLoss? {
      let reader = self.reader
      var way = try reader.way(to: self.flow)
      return try reader.reading(of: self.flow, madeOn: made, &way).sourceLoss
    }
    self.kernel.routes = []
    #expect(try loss() == nil)
    self.kernel.take("192.0.2.7")
    #expect(try loss() == .mayReturn)
    // Another subnet, on the same link and on another one.
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "10.0.0.1", from: "10.0.0.7"))
    #expect(try loss() == .mayReturn)
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    #expect(try loss() == .mayReturn)
    // Another address of the same subnet: first unused, then chosen for new connections.
    try self.kernel.give("192.0.2.8", to: 2)
    #expect(try loss() == .mayReturn)
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.8"))
    #expect(try loss() == .final)
    // On a modem, all addresses of the link count as one subnet.
    try self.kernel.lead("0.0.0.0", 0, .over(2, from: "10.0.0.7"))
    self.kernel.linkTable[2]?.link.hardwareAddress = []
    #expect(try loss() == .final)
    self.kernel.routes = []
    #expect(try loss() == .mayReturn)
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try loss() == .final)
    self.kernel.linkTable[2] = nil
    #expect(try loss() == .final)
  }

  @Test(
    "I3 I10 an address that moves to this machine, or away from it, may move back"
  )
  func takenOver() throws {
    self.kernel.linkTable[1] = LinkFacts(Link(index: 1, name: "lo", flags: [.up, .loopback]))
    let made = try self.reader.way(to: self.flow).judged
    try self.kernel.give("203.0.113.9", to: 3)
    var way = try self.reader.way(to: self.flow)
    let here = way.judged
    let local = try self.reader.reading(of: self.flow, madeOn: made, &way)
    #expect(local.isLocal && local.formerLink == .withoutRoute && local.alternative == nil)
    // A flow that begins while the address is local has left nothing.
    #expect(try self.reader.reading(of: self.flow, madeOn: here, &way).formerLink == nil)
    self.kernel.take("203.0.113.9")
    way = try self.reader.way(to: self.flow)
    let gone = try self.reader.reading(of: self.flow, madeOn: here, &way)
    #expect(!gone.isLocal && gone.formerLink == .withoutRoute)
  }

  @Test("I10 a flow without an address has left nothing, whatever link was expected")
  func notBegun() throws {
    self.kernel.setState(of: 2, .noCarrier)
    let expected = try self.reader.way(to: self.flow).judged
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    self.flow.source = nil
    let reading = try self.reading(madeOn: expected)
    #expect(reading.formerLink == nil && reading.path.interface == "eth1")
  }

  // MARK: - What new connections get

  /// A rule keeps the flow on its way, and new connections use eth1.
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

  @Test(
    "I3 another subnet is preferred on the same link → kept with a table of its own, or the same router",
    arguments: [(false, "192.0.2.1", true), (false, "10.0.0.1", false), (true, "10.0.0.1", true)])
  func subnet(hasOwnTable: Bool, router: String, isKept: Bool) throws {
    if hasOwnTable {
      self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    }
    let other = RouteAnswer.over(2, via: router, from: "10.0.0.7")
    try self.kernel.lead("0.0.0.0", 0, other, metric: 100)
    let alternative = try self.reading().alternative
    #expect(alternative == .init(link: 2, source: IPAddress("10.0.0.7"), isKept: isKept))
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
    let made = try self.reader.way(to: self.flow).judged
    try self.kernel.lead("::", 0, .over(2, via: router, from: "2001:db8:2::7"), metric: 50)
    let reader = self.reader
    var way = try reader.way(to: self.flow)
    // This also holds if the router was known before the address became usable.
    for path in [made, way.judged] {
      let reading = try reader.reading(of: self.flow, madeOn: path, by: made.gateway, &way)
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

  // MARK: - Ways

  @Test("D6 flows with the same answer share their way and its queries")
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
    // One query for each flow, for the owner of its address, and one for what new connections get.
    #expect(self.kernel.questions - before <= 100 + 4)
  }

  @Test("K6 neighbours behind a bridge may be behind different ports, so their flows share no way")
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

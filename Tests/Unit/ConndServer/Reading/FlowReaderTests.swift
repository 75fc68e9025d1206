import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// Readings of a flow: eth0 has 192.0.2.7, and eth1 has 198.51.100.7.
@Suite("Flow reader")
final class FlowReaderTests {
  let kernel = ModelKernel()
  private var subscriptions = KernelSubscriptions()
  let eth0 = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  let eth1 = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")
  var flow: Destination
  /// The path that the flow was made on.
  var made: KernelPath {
    var path = KernelPath(status: .satisfied, chain: [KernelPath.Link(index: 2, name: "eth0")])
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
  var reader: FlowReader {
    FlowReader(
      PathReader(
        destinations: Configuration().destinations, classifier: PathClassifier()),
      KernelView(self.kernel, ReadingContext(subscriptions: self.subscriptions)))
  }

  func reading(madeOn path: KernelPath? = nil) throws -> FlowReading {
    let reader = self.reader
    defer { self.subscriptions = reader.view.subscriptions }
    var flowPath = try reader.flowPath(to: self.flow)
    return try reader.reading(of: self.flow, madeOn: path ?? self.made, &flowPath)
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

  /// An address that a VPN may have assigned, and the route that uses it.
  struct AssignedAddress: CustomTestStringConvertible, Sendable {
    let testDescription: String
    var table: UInt32 = 100
    var prefixLength = 32
    var isSetByRoute = true
    var isByVPN = false

    static let all = [
      Self(testDescription: "a VPN's", isByVPN: true),
      Self(testDescription: "used by the main table", table: 254),
      Self(testDescription: "with a subnet", prefixLength: 24),
      Self(testDescription: "not set by its route", isSetByRoute: false),
    ]
  }

  @Test(
    "I0 an address comes from a VPN if it has no subnet and a route in its own table sets it",
    arguments: AssignedAddress.all)
  func givenByVPN(_ row: AssignedAddress) throws {
    let (address, table) = (try IPAddress(spelt: "10.9.0.5"), row.table)
    self.kernel.addressTable.append(Address(address, prefixLength: row.prefixLength, link: 3))
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
    if row.isSetByRoute { self.kernel.setSources = [address] }
    self.flow.source = address
    let made = try self.reader.flowPath(to: self.flow).judged
    #expect(try self.reading(madeOn: made).isSourceAssignedByVPN == row.isByVPN)
    // A flow that is bound to a link, or for whose address there is a rule, has its own way.
    self.flow.outLink = 2
    #expect(try !self.reading(madeOn: made).isSourceAssignedByVPN)
    self.flow.outLink = nil
    try self.kernel.pin(.over(2, via: "192.0.2.1", from: "10.9.0.5", table: table))
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
      var flowPath = try reader.flowPath(to: self.flow)
      return try reader.reading(of: self.flow, madeOn: self.made, &flowPath).formerLink
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
      var flowPath = try reader.flowPath(to: self.flow)
      #expect(
        try reader.reading(of: self.flow, madeOn: self.made, &flowPath).formerLink == former,
        "\(event)")
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
    let made = try self.reader.flowPath(to: self.flow).judged
    func loss() throws -> FlowReading.SourceLoss? {
      let reader = self.reader
      var flowPath = try reader.flowPath(to: self.flow)
      return try reader.reading(of: self.flow, madeOn: made, &flowPath).sourceLoss
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
    let made = try self.reader.flowPath(to: self.flow).judged
    try self.kernel.give("203.0.113.9", to: 3)
    var flowPath = try self.reader.flowPath(to: self.flow)
    let here = flowPath.judged
    let local = try self.reader.reading(of: self.flow, madeOn: made, &flowPath)
    #expect(local.isLocal && local.formerLink == .withoutRoute && local.alternative == nil)
    // A flow that begins while the address is local has left nothing.
    #expect(try self.reader.reading(of: self.flow, madeOn: here, &flowPath).formerLink == nil)
    self.kernel.take("203.0.113.9")
    flowPath = try self.reader.flowPath(to: self.flow)
    let gone = try self.reader.reading(of: self.flow, madeOn: here, &flowPath)
    #expect(!gone.isLocal && gone.formerLink == .withoutRoute)
  }

  @Test("I10 a flow without an address has left nothing, whatever link was expected")
  func notBegun() throws {
    self.kernel.setState(of: 2, .noCarrier)
    let expected = try self.reader.flowPath(to: self.flow).judged
    try self.kernel.lead("0.0.0.0", 0, self.eth1)
    self.flow.source = nil
    let reading = try self.reading(madeOn: expected)
    #expect(reading.formerLink == nil && reading.path.interface == "eth1")
  }
}

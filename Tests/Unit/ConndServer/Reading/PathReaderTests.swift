import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Path reader")
final class PathReaderTests {
  private let kernel = ModelKernel()
  private let reader = PathReader(
    destinations: Configuration().destinations, classifier: PathClassifier())
  /// A view as at the beginning of a turn.
  private var view: KernelView {
    KernelView(self.kernel, ReadingContext(subscriptions: self.subscriptions))
  }
  private var subscriptions = KernelSubscriptions()
  private let remote: IPAddress
  private let before = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private let after = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")

  init() throws {
    self.remote = try IPAddress(spelt: "203.0.113.9")
    self.kernel.addLink(2, "eth0")
    self.kernel.addLink(3, "eth1")
    try self.kernel.lead("0.0.0.0", 0, self.before)
  }

  /// Removes the address, and with it the route.
  private func move() throws {
    self.kernel.take("192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, self.after)
  }

  @Test("I1 K3 an answer whose source address is gone is queried again")
  func addressGone() throws {
    self.kernel.happens(after: 1) { #expect(throws: Never.self) { try self.move() } }
    let facts = try self.reader.facts(about: Destination(self.remote), self.view)
    #expect(facts.answer == self.after)
    #expect(facts.links.map(\.link.name) == ["eth1"])
    #expect(facts.source?.address == IPAddress("198.51.100.7"))
  }

  @Test(
    "K2 no table has a route for traffic bound to a link → no route, except to link-local hosts")
  func assumedNeighbour() throws {
    self.kernel.bound[3] = .over(3, from: "198.51.100.7", table: 0)
    func status(_ address: String, by link: UInt32) throws -> KernelPath.Reason? {
      let destination = Destination(try IPAddress(spelt: address), outLink: link)
      return try self.reader.path(to: destination, self.view).path.reason
    }
    try self.kernel.give("198.51.100.7", to: 3)
    #expect(try status("203.0.113.9", by: 3) == .noRoute)
    #expect(try status("169.254.0.9", by: 3) != .noRoute)
    self.kernel.bound[3] = .over(3, from: "198.51.100.7", table: 254)
    #expect(try status("203.0.113.9", by: 3) == nil)
  }

  @Test("K3 the source address and all routes are gone → no route")
  func allGone() throws {
    self.kernel.take("192.0.2.7")
    self.kernel.happens(after: 1) { self.kernel.routes = [] }
    let facts = try self.reader.facts(about: Destination(self.remote), self.view)
    #expect(facts.answer == .noRoute(.noRoute))
    #expect(facts.links.isEmpty)
  }

  @Test("I3 a batch answer with a lost source address → each destination is queried again")
  func wayOfOne() throws {
    let other = try IPAddress(spelt: "203.0.113.10")
    try self.kernel.lead("203.0.113.10", 32, .noRoute(.prohibited))
    try self.move()
    let look = FlowReader(self.reader, self.view)
    // All were queried together, and the address went afterwards.
    let flowPath = try look.flowPath(to: Destination(self.remote), self.before)
    #expect(flowPath.shown.interface == "eth1")
    #expect(try look.flowPath(to: Destination(other), self.before).shown.status == .unsatisfied)
    #expect(try look.flowPath(to: Destination(self.remote), self.after) === flowPath)
  }

  @Test("D6 the answer of a link that borrows its address is kept, for one more query")
  func unnumbered() throws {
    func questions() throws -> Int {
      let before = self.kernel.questions
      let facts = try self.reader.facts(about: Destination(self.remote), self.view)
      #expect(facts.answer == self.before)
      return self.kernel.questions - before
    }
    let numbered = try questions()
    self.kernel.take("192.0.2.7")
    #expect(try questions() == numbered + 1)
  }

  @Test("T3 probes that all disagree are queried a second time, but not a third")
  func disagreement() throws {
    let probes = self.reader.destinations.ipv4
    try #require(probes.count == 3)
    try self.kernel.lead("\(probes[1])", 32, self.after)
    try self.kernel.lead("\(probes[2])", 32, .noRoute(.prohibited))
    let (first, answers) = try self.reader.probe(.ipv4, self.view)
    #expect(first == 0 && answers == [self.before, self.after, .noRoute(.prohibited)])
    #expect(self.kernel.questions == 6)

    self.kernel.happens(after: 3) {
      #expect(throws: Never.self) { try self.kernel.lead("\(probes[0])", 32, self.after) }
    }
    let (settled, now) = try self.reader.probe(.ipv4, self.view)
    #expect(settled == 0 && now == [self.after, self.after])
  }

  @Test("K2 two equal default routes, and lookups alternate → both routers are followed")
  func equalDefaults() throws {
    let kernel = self.kernel
    kernel.happens(after: 1) {
      #expect(throws: Never.self) { try kernel.lead("0.0.0.0", 0, self.after) }
    }
    let view = self.view
    let reader = DefaultPathReader(reader: self.reader)
    let paths = try reader.paths(view)
    _ = try reader.channels(paths, of: ChangeDetector(), view, Removals())
    #expect(paths.observation.ipv4.path.interface == "eth1")
    #expect(
      view.subscriptions.gateways.gateways.map(\.address)
        == [IPAddress("192.0.2.1"), IPAddress("198.51.100.1")])
  }

  // MARK: - Ports (K6)

  private static let router: [UInt8] = [2, 0, 0, 0, 1, 1]

  /// br0 has as ports the tap of a virtual machine, eth0 and eth1.
  private func lead(overBridgeOf ports: [UInt32] = [5, 2, 3]) throws {
    self.kernel.addLink(5, "tap0", kind: "tun")
    self.kernel.addStack(4, "br0", kind: "bridge", over: ports)
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "10.0.0.7"))
  }

  private func chain() throws -> [String] {
    let view = self.view
    let (path, facts) = try self.reader.path(to: Destination(self.remote), view)
    // The network is identified in each turn.
    _ = try view.identity(of: path, facts)
    self.subscriptions = view.subscriptions
    return path.chain.map(\.name)
  }

  private func learn(_ port: UInt32?) throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    self.kernel.neighbours[gateway] = Neighbour(
      gateway, link: 4, hardwareAddress: port.map { _ in Self.router })
    self.kernel.learnt[Self.router] = port
  }

  @Test("K6 below a bridge is the port behind which the gateway is learnt, or was last")
  func learntPort() throws {
    try self.lead()
    #expect(try self.chain() == ["br0", "eth0"])
    try self.learn(3)
    #expect(try self.chain() == ["br0", "eth1"])
    // The bridge forgets the entry after five minutes; the kernel forgets neighbours when the link
    // is lost.
    try self.learn(nil)
    #expect(try self.chain() == ["br0", "eth1"])
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.chain() == ["br0", "eth1"], "it is lost with its port")
    // A message names another port.
    self.subscriptions.bridgePorts.note([.bridgeEntry(BridgeEntry(Self.router, port: 2, bridge: 4))]
    )
    #expect(try self.chain() == ["br0", "eth0"])
    // That port leaves the bridge, so that frames for the gateway are flooded to all ports.
    self.kernel.linkTable[2]?.link.master = nil
    self.kernel.linkTable[4]?.device.lowerLinks = [5, 3]
    #expect(try self.chain() == ["br0", "eth1"])
    // A guest does not pass it on.
    self.kernel.linkTable[4]?.device.lowerLinks = [5]
    #expect(try self.chain() == ["br0"])
    let path = try self.reader.path(to: Destination(self.remote), self.view).path
    #expect(path.reason == .noCarrier)
  }

  @Test("K6 a guest's port is not taken for the uplink, even if the uplink has no carrier")
  func guests() throws {
    try self.lead(overBridgeOf: [5, 2])
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try self.chain() == ["br0", "eth0"])
    let (path, _) = try self.reader.path(to: Destination(self.remote), self.view)
    #expect(path.status == .requiresConnection && path.reason == .noCarrier)
  }

  @Test("K6 a bridge that has not learnt its gateway → the likeliest port, until it has")
  func assumedPort() throws {
    try self.lead()
    #expect(try self.facts().knownLinks == 1)
    try self.learn(nil)
    let gateway = try IPAddress(spelt: "192.0.2.1")
    self.kernel.neighbours[gateway]?.hardwareAddress = Self.router
    #expect(try self.chain() == ["br0", "eth0"])
    #expect(self.subscriptions.bridgePorts.hardwareAddresses == [Self.router])
    self.subscriptions.bridgePorts.note([.bridgeEntry(BridgeEntry(Self.router, port: 5, bridge: 4))]
    )
    #expect(try self.chain() == ["br0", "tap0"])
    #expect(try self.facts().knownLinks == nil)
  }

  /// br0 has as ports the tap of a virtual machine and va. The other end vb is a port of br1, which
  /// also has eth0 and another tap.
  private func leadOverPair(kind: String = "veth") throws {
    self.kernel.addLink(6, "va", kind: kind)
    self.kernel.addLink(7, "vb", kind: kind)
    self.kernel.linkTable[6]?.link.lower = 7
    self.kernel.linkTable[7]?.link.lower = 6
    self.kernel.addLink(9, "tap1", kind: "tun")
    self.kernel.addStack(8, "br1", kind: "bridge", over: [9, 7, 2])
    try self.lead(overBridgeOf: [5, 6])
  }

  @Test(
    "K6 a bridge's port is one end of a pair in this namespace → the path goes on at the other end",
    arguments: ["veth", "netkit"])
  func pair(kind: String) throws {
    try self.leadOverPair(kind: kind)
    let links = ["br0", "va", "vb", "br1", "eth0"]
    #expect(try self.chain() == links)
    let (path, facts) = try self.reader.path(to: Destination(self.remote), self.view)
    #expect(path.status == .satisfied && path.medium == .wired)
    #expect(facts.knownLinks == 1)
    try self.learn(6)
    #expect(try self.chain() == links)
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try self.chain() == links)
    #expect(
      try self.reader.path(to: Destination(self.remote), self.view).path.reason == .noCarrier)
  }

  @Test("K6 the address is on one end of a pair, the other end is a bridge's port → the uplink")
  func addressOnPair() throws {
    try self.leadOverPair()
    self.kernel.linkTable[6]?.link.master = nil
    try self.kernel.lead("0.0.0.0", 0, .over(6, via: "192.0.2.1", from: "10.0.0.7"))
    #expect(try self.chain() == ["va", "vb", "br1", "eth0"])
    #expect(try self.facts().brokenBelow == nil)
    // No other link gets what the pair sends.
    self.kernel.linkTable[7]?.link.master = nil
    #expect(try self.chain() == ["va", "vb"])
    // The other end moves to another namespace.
    self.kernel.linkTable[6]?.link.lower = nil
    #expect(try self.chain() == ["va"])
  }

  @Test("K3 the other end of a pair is a port that does not forward → dormant")
  func blockedPair() throws {
    try self.leadOverPair()
    self.kernel.linkTable[7]?.link.bridgePort = BridgePort(forwards: false)
    #expect(try self.facts().brokenBelow == .dormant)
  }

  @Test("K6 the second bridge reaches the gateway by the port the path came by → no carrier")
  func gatewayBehindPair() throws {
    try self.leadOverPair()
    self.kernel.linkTable[8]?.device.lowerLinks = [9, 7]
    self.kernel.linkTable[2]?.link.master = nil
    try self.learn(7)
    // br0 has never had that port either.
    #expect(try self.facts().brokenBelow == .noCarrier)
  }

  @Test("K6 a pair's port is likelier than a guest's, and less likely than a cable's")
  func likelihoodOfPair() throws {
    try self.leadOverPair()
    self.kernel.addStack(4, "br0", kind: "bridge", over: [5, 6, 3])
    #expect(try self.chain() == ["br0", "eth1"])
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.chain() == ["br0", "eth1"])
  }

  private func facts() throws -> PathFacts {
    try self.reader.facts(about: Destination(self.remote), self.view)
  }

  @Test("K3 a bridge's port that does not forward → dormant, and another one is likelier")
  func blockedPort() throws {
    try self.lead(overBridgeOf: [2, 3])
    self.kernel.linkTable[2]?.link.bridgePort = BridgePort(forwards: false)
    #expect(try self.chain() == ["br0", "eth1"])
    try self.learn(2)
    #expect(try self.chain() == ["br0", "eth0"])
    #expect(try self.facts().brokenBelow == .dormant)
  }

  @Test("K3 a locked port, with the gateway not learnt behind it → dormant")
  func locked() throws {
    try self.lead(overBridgeOf: [2])
    self.kernel.linkTable[2]?.link.bridgePort = BridgePort(isLocked: true)
    #expect(try self.facts().brokenBelow == .dormant)
    try self.learn(2)
    #expect(try self.facts().brokenBelow == nil)
    try self.learn(nil)
    self.kernel.linkTable[4]?.link.filtersVLANs = true
    #expect(try self.facts().brokenBelow == nil)
  }

  @Test(
    "K3 a link with a master is not a path by itself, except for its VLANs or in a VRF",
    arguments: [
      ("bridge", false), ("bond", false), ("team", false), ("openvswitch", false), ("vrf", true),
      ("batadv", true),
    ])
  func taken(master: String, isUsed: Bool) throws {
    self.kernel.addStack(4, "master", kind: master, over: [2])
    self.kernel.addLink(6, "eth0.7", kind: "vlan")
    self.kernel.linkTable[6]?.link.lower = 2
    func path() throws -> KernelPath {
      try self.reader.path(to: Destination(self.remote), self.view).path
    }
    #expect(try path().reason == (isUsed ? nil : .noSourceAddress))
    #expect(try path().chain.map(\.name) == ["eth0"])
    // The master is watched, although no route leads there.
    var subscriptions = KernelSubscriptions()
    subscriptions.ignoredLinks.beginToDrain()
    subscriptions.ignoredLinks.endDraining()
    subscriptions.use(try self.facts())
    var link = Link(index: 4, name: "master", kind: master)
    link.isNew = true
    let isHeard = subscriptions.ignoredLinks.mayMatter([.link(link)])
    #expect(isHeard)

    self.kernel.setState(of: 4, .down)
    let reasons: [String: KernelPath.Reason?] = ["vrf": .linkDown, "batadv": nil]
    #expect(try path().reason == reasons[master, default: .noSourceAddress])

    try self.kernel.lead("0.0.0.0", 0, .over(6, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(try path().status == .satisfied)
    #expect(try path().chain.map(\.name) == ["eth0.7", "eth0"])
  }

  @Test("K3 a PPPoE session on a bridge's port gets no answer")
  func takenSession() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2])
    self.kernel.addLink(6, "ppp0", kind: "ppp")
    self.kernel.linkTable[6]?.device.lowerLinks = [2]
    try self.kernel.lead("0.0.0.0", 0, .over(6, from: "10.0.0.7"))
    let path = try self.reader.path(to: Destination(self.remote), self.view).path
    #expect(path.chain.map(\.name) == ["ppp0", "eth0"])
    #expect(path.reason == .noSourceAddress)
  }

  @Test("K6 the uplink of Open vSwitch is the port that is neither a guest's nor a tunnel's")
  func openVSwitch() throws {
    self.kernel.addLink(5, "tap0", kind: "tun")
    self.kernel.addTunnel(7, "gre_sys", to: "198.51.100.9")
    self.kernel.addStack(4, "ovs-system", kind: "openvswitch", over: [3, 5, 7])
    self.kernel.addLink(6, "br-ex", kind: "openvswitch")
    self.kernel.linkTable[6]?.device.lowerLinks = [5, 7, 3]
    try self.kernel.lead("0.0.0.0", 0, .over(6, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(try self.chain() == ["br-ex", "eth1"])
    #expect(try self.facts().knownLinks == 1)
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.chain() == ["br-ex", "eth1"])
    #expect(
      try self.reader.path(to: Destination(self.remote), self.view).path.reason == .noCarrier)
  }

  @Test("K3 K6 a tunnel's packets are routed to a dummy link → a blackhole")
  func tunnelIntoSink() throws {
    self.kernel.addTunnel(6, "gre0", to: "198.51.100.9")
    self.kernel.addLink(7, "dummy0", kind: "dummy")
    try self.kernel.lead("198.51.100.9", 32, .over(7, from: "192.0.2.8"))
    try self.kernel.lead("0.0.0.0", 0, .over(6, from: "10.0.0.7"))
    let path = try self.reader.path(to: Destination(self.remote), self.view).path
    #expect(path.status == .requiresConnection && path.reason == .blackhole)
  }

  @Test("K3 only a default route without a gateway makes every destination a neighbour")
  func neighbours() throws {
    func takesAll(_ prefix: String, _ length: Int, _ flowPath: RouteAnswer) throws -> Bool {
      try self.kernel.lead(prefix, length, flowPath)
      return try self.facts().takesAllForNeighbours
    }
    #expect(try takesAll("0.0.0.0", 0, .over(2, from: "169.254.7.7")))
    #expect(try !takesAll("0.0.0.0", 0, .over(2, via: "169.254.1.1", from: "169.254.7.7")))
    #expect(try !takesAll("0.0.0.0", 0, .over(2, from: "192.0.2.7")))
    #expect(try !takesAll("203.0.113.0", 24, .over(2, from: "169.254.7.7")))
  }

  @Test(
    "K6 the active port of a bond has failed → another port carries the traffic",
    arguments: [false, true])
  func bond(hasOther: Bool) throws {
    self.kernel.addStack(4, "bond0", kind: "bond", over: [2, 3])
    self.kernel.linkTable[4]?.link.activePort = 2
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "10.0.0.7"))
    #expect(try self.chain() == ["bond0", "eth0"])
    self.kernel.setState(of: 2, .noCarrier)
    if !hasOther { self.kernel.setState(of: 3, .noCarrier) }
    #expect(try self.chain() == ["bond0", hasOther ? "eth1" : "eth0"])
    let (path, _) = try self.reader.path(to: Destination(self.remote), self.view)
    #expect(path.status == (hasOther ? .satisfied : .requiresConnection))
  }
}

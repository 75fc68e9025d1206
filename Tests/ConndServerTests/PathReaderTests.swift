import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Path reader")
final class PathReaderTests {
  private let kernel = ModelKernel()
  private let reader = PathReader(
    destinations: Configuration().destinations, classifier: PathClassifier())
  /// As it is at the beginning of a turn.
  private var view: KernelView { KernelView(self.kernel, self.interests) }
  private var interests = Interests()
  private let remote: IPAddress
  private let before = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private let after = RouteAnswer.over(3, via: "198.51.100.1", from: "198.51.100.7")

  init() throws {
    self.remote = try IPAddress(spelt: "203.0.113.9")
    self.kernel.addLink(2, "eth0")
    self.kernel.addLink(3, "eth1")
    try self.kernel.lead("0.0.0.0", 0, self.before)
  }

  /// The address goes, and with it the route.
  private func move() throws {
    self.kernel.take("192.0.2.7")
    try self.kernel.lead("0.0.0.0", 0, self.after)
  }

  @Test("I1 K3 an answer whose address has gone is asked for again")
  func addressGone() throws {
    self.kernel.happens(after: 1) { #expect(throws: Never.self) { try self.move() } }
    let facts = try self.reader.facts(about: Destination(self.remote), self.view)
    #expect(facts.answer == self.after)
    #expect(facts.links.map(\.link.name) == ["eth1"])
    #expect(facts.source?.address == IPAddress("198.51.100.7"))
  }

  @Test("K3 an answer whose address has gone, and all else with it, leads nowhere")
  func allGone() throws {
    self.kernel.take("192.0.2.7")
    self.kernel.happens(after: 1) { self.kernel.routes = [] }
    let facts = try self.reader.facts(about: Destination(self.remote), self.view)
    #expect(facts.answer == .noRoute(.noRoute))
    #expect(facts.links.isEmpty)
  }

  @Test("I3 an answer whose address has gone is that of one destination only")
  func wayOfOne() throws {
    let other = try IPAddress(spelt: "203.0.113.10")
    try self.kernel.lead("203.0.113.10", 32, .noRoute(.prohibited))
    try self.move()
    let look = FlowReader(self.reader, self.view)
    // All are asked for at once, and the address went afterwards.
    let way = try look.way(to: Destination(self.remote), self.before)
    #expect(way.shown.interface == "eth1")
    #expect(try look.way(to: Destination(other), self.before).shown.status == .unsatisfied)
    #expect(try look.way(to: Destination(self.remote), self.after) === way)
  }

  @Test("D6 the answer of a link that borrows its address is kept, for one question more")
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

  @Test("T3 probes that all say something else are asked a second time, and no third")
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

  // MARK: - Ports (K6)

  private static let router: [UInt8] = [2, 0, 0, 0, 1, 1]

  /// br0 is above a virtual machine's tap, eth0 and eth1.
  private func lead(overBridgeOf ports: [UInt32] = [5, 2, 3]) throws {
    self.kernel.addLink(5, "tap0", kind: "tun")
    self.kernel.addStack(4, "br0", kind: "bridge", over: ports)
    try self.kernel.lead("0.0.0.0", 0, .over(4, via: "192.0.2.1", from: "10.0.0.7"))
  }

  private func chain() throws -> [String] {
    let view = self.view
    let (path, facts) = try self.reader.path(to: Destination(self.remote), view)
    // Networks are told apart in each turn.
    _ = try view.interests.networks.identity(of: path, facts, view)
    self.interests = view.interests
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
    // The bridge forgets after five minutes, the kernel its neighbours when the link went.
    try self.learn(nil)
    #expect(try self.chain() == ["br0", "eth1"])
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try self.chain() == ["br0", "eth1"], "it is lost with its port")
    // It is told where else it is.
    self.interests.networks.note([.bridgeEntry(BridgeEntry(Self.router, port: 2, bridge: 4))])
    #expect(try self.chain() == ["br0", "eth0"])
    // That one leaves the bridge: what goes to the gateway goes out of all ports now.
    self.kernel.linkTable[2]?.link.master = nil
    self.kernel.linkTable[4]?.device.lowerLinks = [5, 3]
    #expect(try self.chain() == ["br0", "eth1"])
    // A guest does not pass it on.
    self.kernel.linkTable[4]?.device.lowerLinks = [5]
    #expect(try self.chain() == ["br0"])
    let path = try self.reader.path(to: Destination(self.remote), self.view).path
    #expect(path.reason == .noCarrier)
  }

  @Test("K6 a guest is not taken for the uplink, also where that has lost its carrier")
  func guests() throws {
    try self.lead(overBridgeOf: [5, 2])
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try self.chain() == ["br0", "eth0"])
    let (path, _) = try self.reader.path(to: Destination(self.remote), self.view)
    #expect(path.status == .requiresConnection && path.reason == .noCarrier)
  }

  @Test("K6 of a bond whose active port has failed another one carries", arguments: [false, true])
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

  // MARK: - Links whose gain is held back (T1)

  @Test("T1 while a link is held the best of the others is the path, by its metric")
  func held() throws {
    self.kernel.addLink(6, "wlan0")
    self.kernel.addLink(7, "wlan1")
    try self.kernel.lead("0.0.0.0", 0, self.after, metric: 700)
    try self.kernel.lead("0.0.0.0", 0, .over(6, from: "10.6.0.7"), metric: 600)
    try self.kernel.lead("0.0.0.0", 0, .over(7, from: "10.7.0.7"), metric: 500)
    self.kernel.setState(of: 7, .noCarrier)
    var reader = self.reader
    reader.held = ["eth0"]
    func path() throws -> Path { try reader.path(to: Destination(self.remote), self.view).path }
    #expect(try path().interface == "wlan0")
    #expect(try path().status == .satisfied)
    reader.held = ["eth0", "wlan0"]
    #expect(try path().interface == "eth1")
    reader.held = ["wlan0"]
    #expect(try path().interface == "eth0")
  }

  @Test(
    "T1 where no other link carries, the one that is held is flapping", arguments: [false, true])
  func flapping(hasMadeUpRoute: Bool) throws {
    // To IPv4 traffic that is bound to a link the kernel gives a route where there is none.
    if hasMadeUpRoute { self.kernel.bound[3] = .over(3, from: "198.51.100.7", table: 0) }
    var reader = self.reader
    reader.held = ["eth0"]
    let (path, _) = try reader.path(to: Destination(self.remote), self.view)
    #expect(path.interface == "eth0")
    #expect(path.status == .requiresConnection && path.reason == .flapping)
    let observed = try reader.defaultPath(.ipv4, self.view)
    #expect(observed.present.status == .satisfied, "new connections have it")
    #expect(observed.observed.path == path)
  }
}

import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink
import Testing

@testable import ConndServer

/// The links below a tunnel that does not name its remote end (K6), in a kernel that a test writes.
@Suite("Guesses below tunnels")
struct GuessTests {
  private static let inTunnel = RouteAnswer.over(5, from: "10.8.0.2", table: 51820)
  private static let byCable = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private static let byModem = RouteAnswer.over(4, via: "198.51.100.1", from: "198.51.100.7")

  /// The cable has the default route with metric 100, and wg-quick has led everything into its
  /// tunnel.
  private func startedInWireGuard() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(4, "wwan0")
      kernel.addLink(5, "wg0", kind: "wireguard")
      try kernel.lead("0.0.0.0", 0, Self.inTunnel)
      kernel.rules = [ModelRule(.exceptMark(0xca6c), table: 51820)]
    }
  }

  /// An OpenVPN client has led everything into its tunnel, in the main table.
  private func startedInOpenVPN() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(4, "wwan0")
      kernel.addLink(5, "tun0", kind: "tun")
      try kernel.lead("0.0.0.0", 0, .over(5, from: "10.8.0.2"), metric: 50)
    }
  }

  private func path(_ loop: TestLoop) -> KernelPath { loop.loop.engine.snapshot.status.path }

  @Test("K6 the link below a tunnel is guessed by its mark")
  func mark() throws {
    let loop = try self.startedInWireGuard()
    let path = self.path(loop)
    #expect(path.chain.map(\.name) == ["wg0", "eth0"])
    #expect(path.guessedLinks == 1 && path.medium == .wired && path.status == .satisfied)
    #expect(loop.loop.engine.snapshot.status.category == .wired)
    let explained = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.explain(nil)
    }.get()
    #expect(explained.guessedBy == "fwmark 0xca6c")
    #expect(explained.links.map(\.facts.link.name) == ["wg0", "eth0"])
  }

  @Test("K6 the listing names the link that a tunnel's packets leave by, and marks guesses")
  func listed() throws {
    let loop = try self.startedInWireGuard()
    loop.kernel.addLink(6, "tun0", kind: "tun")
    loop.kernel.addTunnel(7, "gre1", to: "203.0.113.5")
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem)
    try loop.kernel.lead(
      "203.0.113.5", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7", table: 51820))
    let links = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.listLinks()
    }.get()
    let below = links.compactMap { link in
      link.lower.map { "\(link.facts.link.name) \($0.name) \($0.isGuess)" }
    }
    #expect(below.sorted() == ["gre1 eth0 false", "tun0 wg0 true", "wg0 wwan0 true"])
  }

  @Test("K6 I5 I0 a guess that moves is published with its costs, and ends nothing")
  func moves() throws {
    var loop = try self.startedInWireGuard()
    #expect(try loop.guardFlow(1) == ["1 path wg0"])
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem)
    loop.kernel.addLink(2, "eth0", hasCarrier: false)
    #expect(loop.tell() == ["1 path wg0"])
    #expect(self.path(loop).chain.map(\.name) == ["wg0", "wwan0"])
    #expect(self.path(loop).isMetered)
    #expect(loop.loop.engine.snapshot.status.category == .cellular)
    #expect(loop.invalidations == ["advise categoryChanged"])

    // A link without carrier is not a guess, so that a guess never takes a machine offline.
    loop.kernel.setState(of: 4, .noCarrier)
    #expect(loop.tell() == ["1 path wg0"])
    #expect(self.path(loop).chain.map(\.name) == ["wg0"])
    // The path keeps its last cost.
    #expect(self.path(loop).status == .satisfied && self.path(loop).isMetered)
    #expect(loop.loop.engine.snapshot.status.category == .other)
    loop.kernel.setState(of: 4, .up)
    _ = loop.tell()
    #expect(loop.loop.engine.snapshot.status.category == .cellular)
    #expect(loop.invalidations == Array(repeating: "advise categoryChanged", count: 3))
    #expect(loop.turn(after: .seconds(2)) == [])
  }

  @Test("K6 T1 a guessed uplink flaps → the medium follows it, and nothing is destroyed")
  func flaps() throws {
    var loop = try self.startedInWireGuard()
    for _ in 1...3 {
      loop.kernel.setState(of: 2, .noCarrier)
      let lost = try #require(loop.kernel.linkTable[2]?.link)
      _ = loop.tell([.link(lost)])
      #expect(loop.loop.engine.snapshot.status.category == .other)
      loop.kernel.setState(of: 2, .up)
      let back = try #require(loop.kernel.linkTable[2]?.link)
      _ = loop.tell([.link(back)])
      #expect(loop.loop.engine.snapshot.status.category == .wired)
    }
    #expect(loop.invalidations.allSatisfy { $0 == "advise categoryChanged" })
  }

  @Test("I8 K6 a flow that forbids expensive paths drains if the guessed link is expensive")
  func policy() throws {
    var loop = try self.startedInWireGuard()
    let flow = Flow(Destination(try IPAddress(spelt: "203.0.113.9")), forbidsExpensive: true)
    let key = FlowTable.Key(mailbox: loop.mailbox.number, id: 1)
    loop.loop.guards.enqueue(.add(.init(key: key, flow: flow)))
    #expect(loop.turn() == ["1 path wg0"])
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem)
    #expect(loop.tell() == ["1 drain policy"])
  }

  @Test(
    "I8 K6 the tunnel's uplink is lost → its cost holds until another is known, and is still a guess"
  )
  func heldCost() throws {
    var loop = try self.startedInWireGuard()
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem)
    _ = loop.tell()
    let flow = Flow(Destination(try IPAddress(spelt: "203.0.113.9")), forbidsExpensive: true)
    let key = FlowTable.Key(mailbox: loop.mailbox.number, id: 1)
    loop.loop.guards.enqueue(.add(.init(key: key, flow: flow)))
    #expect(loop.turn() == ["1 drain policy late wg0"])
    loop.kernel.setState(of: 4, .noCarrier)
    #expect(loop.tell() == ["1 path wg0"])
    #expect(self.path(loop).isExpensive == true && self.path(loop).medium == .tunnel)
    let explained = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.explain(nil)
    }.get()
    #expect(explained.cost == CostEvidence(.yes, .lastKnown))
    // A cable takes over.
    try loop.kernel.lead("0.0.0.0", 0, Self.byCable)
    _ = loop.tell()
    #expect(self.path(loop).isExpensive == false)
    loop.kernel.setState(of: 2, .noCarrier)
    _ = loop.tell()
    #expect(self.path(loop).isExpensive == false)
  }

  @Test("K6 no link was ever known below a tunnel → its cost is unknown, not free")
  func unknownCost() throws {
    var loop = try self.startedInWireGuard()
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem)
    _ = loop.tell()
    // Overrides end when the user removes them.
    loop.loop.engine.costs = loop.loop.engine.costs
    loop.kernel.setState(of: 4, .noCarrier)
    _ = loop.tell()
    let path = self.path(loop)
    #expect(path.status == .satisfied && path.isCostUnknown && path.isExpensive == nil)
    #expect(!path.isMetered)
    // A recreated link does not inherit the former link's cost.
    loop.kernel.setState(of: 4, .up)
    _ = loop.tell()
    #expect(self.path(loop).isExpensive == true)
    let removed = try #require(loop.kernel.linkTable[5]).link
    loop.kernel.setState(of: 4, .noCarrier)
    _ = loop.tell([.linkRemoved(removed)])
    #expect(self.path(loop).isExpensive == nil)
  }

  @Test("K6 a mark that leads into the tunnel, or nowhere, gives no guess")
  func loopedMark() throws {
    for way in [RouteAnswer.over(5, from: "10.8.0.2"), .noRoute(.noRoute)] {
      var loop = try self.startedInWireGuard()
      try loop.kernel.lead("0.0.0.0", 0, way)
      try loop.kernel.cut("0.0.0.0", 0, metric: 100)
      _ = loop.tell()
      #expect(self.path(loop).chain.map(\.name) == ["wg0"])
      #expect(loop.loop.engine.snapshot.status.category == .other)
    }
  }

  @Test("K6 without a mark, the guess is the best default route beside the tunnel's")
  func defaultRoute() throws {
    var loop = try self.startedInOpenVPN()
    #expect(self.path(loop).chain.map(\.name) == ["tun0", "eth0"])
    #expect(self.path(loop).guessedLinks == 1)

    // A better route comes; only its message says which link it uses.
    try loop.kernel.lead("0.0.0.0", 0, Self.byModem, metric: 60)
    let all = try IPPrefix(spelt: "0.0.0.0", 0)
    let added = RouteChange(
      MatchedRoute(prefix: all, table: 254, priority: 60), outLink: 4,
      gateway: try IPAddress(spelt: "198.51.100.1"))
    _ = loop.tell([.route(added, replaced: false)])
    #expect(self.path(loop).chain.map(\.name) == ["tun0", "wwan0"])
    try loop.kernel.cut("0.0.0.0", 0, metric: 60)
    _ = loop.tell([.routeRemoved(added)])
    #expect(self.path(loop).chain.map(\.name) == ["tun0", "eth0"])
    #expect(loop.invalidations == ["advise categoryChanged", "advise categoryChanged"])
    let explained = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.explain(nil)
    }.get()
    #expect(explained.guessedBy == "default")
  }

  @Test("D6 K6 the cost of a guess does not depend on the number of links")
  func cost() throws {
    var loop = try self.startedInOpenVPN()
    var before = loop.kernel.questions
    _ = loop.tell([.link(try #require(loop.kernel.linkTable[2]?.link))])
    let few = loop.kernel.questions - before
    for index in 100..<1100 as Range<UInt32> {
      loop.kernel.addLink(index, "veth\(index)", kind: "veth")
    }
    before = loop.kernel.questions
    _ = loop.tell([.link(try #require(loop.kernel.linkTable[2]?.link))])
    #expect(loop.kernel.questions - before == few)
    // After a rule change the links are read once more.
    _ = loop.tell()
    before = loop.kernel.questions
    _ = loop.tell([.link(try #require(loop.kernel.linkTable[2]?.link))])
    #expect(loop.kernel.questions - before == few)
  }

  @Test("K6 below a tunnel that takes only some addresses, the guess is the default path")
  func splitTunnel() throws {
    let loop = try TestLoop.started { kernel in
      kernel.addLink(5, "wg0", kind: "wireguard")
      try kernel.lead("10.1.0.0", 16, .over(5, from: "10.8.0.2"))
    }
    let inside = Destination(try IPAddress(spelt: "10.1.2.3"))
    let path = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.path(to: inside)
    }.get()
    #expect(path.chain.map(\.name) == ["wg0", "eth0"])
    #expect(path.guessedLinks == 1 && path.medium == .wired)
  }

  @Test("K6 a tunnel inside another is followed to the bottom")
  func nested() throws {
    let loop = try TestLoop.started { kernel in
      kernel.addLink(4, "wwan0")
      kernel.addLink(5, "wg0", kind: "wireguard")
      kernel.addLink(6, "tun0", kind: "tun")
      try kernel.lead("0.0.0.0", 0, Self.inTunnel)
      kernel.rules = [ModelRule(.exceptMark(0xca6c), table: 51820)]
      try kernel.lead("0.0.0.0", 0, .over(6, from: "10.9.0.2"))
    }
    #expect(self.path(loop).chain.map(\.name) == ["wg0", "tun0", "eth0"])
    #expect(self.path(loop).guessedLinks == 2)
  }

  @Test("K6 xfrm's own lower link is only a name, because it may be lo")
  func xfrm() throws {
    let loop = try TestLoop.started { kernel in
      kernel.addLink(1, "lo")
      kernel.addLink(5, "ipsec0", kind: "xfrm")
      kernel.linkTable[5]?.link.lower = 1
      try kernel.lead("0.0.0.0", 0, .over(5, from: "10.8.0.2"), metric: 50)
    }
    #expect(self.path(loop).chain.map(\.name) == ["ipsec0", "eth0"])
    #expect(self.path(loop).guessedLinks == 1 && self.path(loop).medium == .wired)
  }

  @Test("K5 K6 the configuration says what a tunnel is → nothing is guessed")
  func configured() throws {
    let loop = try self.startedInWireGuard()
    var reader = loop.loop.engine.reader
    reader.classifier.policy = LinkPolicy([.init(match: "wg*", medium: .wifi)])
    let view = KernelView(loop.kernel, loop.loop.engine.context)
    let path = try reader.defaultPath(.ipv4, view).observed.path
    #expect(path.chain.map(\.name) == ["wg0"] && path.guessedLinks == 0 && path.medium == .wifi)
  }
}

import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Logging
import ModelRoutes
import Netlink
import TestKit
import Testing

@testable import ConndServer

/// Users' overrides for links and networks, over a kernel that a test writes. Everything goes over
/// eth0, whose router is 192.0.2.1.
@Suite("Overrides")
struct CostsTests {
  private let directory: TemporaryDirectory
  var loop: TestLoop

  init() throws {
    self.directory = try TemporaryDirectory()
    self.loop = try Self.loop(self.directory)
    self.loop.loop.start()
  }

  private static func file(_ directory: TemporaryDirectory) -> OverrideFile {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return OverrideFile(path: "\(directory.path)/networks", boot: "a", logger: logger)
  }

  static func loop(_ directory: TemporaryDirectory) throws -> TestLoop {
    let loop = try TestLoop(overrideStore: OverrideStore(Self.file(directory)))
    try Self.setRouter("192.0.2.1", on: 2, to: 1, loop)
    return loop
  }

  /// Sets the router; the last octet of its MAC address identifies it.
  static func setRouter(
    _ address: String, on link: UInt32, to octet: UInt8, _ loop: TestLoop
  ) throws {
    let address = try IPAddress(spelt: address)
    loop.kernel.neighbours[address] = Neighbour(
      address, link: link, hardwareAddress: [2, 0, 0, 0, 0, octet])
  }

  /// Moves the cable to another router with the same address.
  private mutating func moveCable() throws {
    self.loop.kernel.setState(of: 2, .down)
    _ = self.loop.tell()
    try Self.setRouter("192.0.2.1", on: 2, to: 2, self.loop)
    self.loop.kernel.setState(of: 2, .up)
    _ = self.loop.tell(self.loop.kernel.neighbours.values.map { .neighbour($0) })
  }

  @discardableResult
  mutating func set(
    _ target: CostRequest.Target, constrained: CostRequest.Value? = nil,
    expensive: CostRequest.Value? = nil, end: CostRequest.End? = nil, by user: UInt32 = 1000
  ) throws -> String? {
    let request = CostRequest.CostOverrideRequest(
      target: target, constrained: constrained, expensive: expensive, end: end, user: user)
    guard case .set(let match, _) = try self.loop.answer(.set(request)).get() else {
      return nil
    }
    return match
  }

  private mutating func forget(_ name: String) throws {
    _ = try self.loop.answer(.forget(name: name, user: 1000)).get()
  }

  /// Lists the overrides: `192.0.2.1 here constrained`, `eth0 expensive`.
  mutating func list() throws -> [String] {
    guard case .list(let networks, _) = try self.loop.answer(.list).get() else { return [] }
    return networks.map { network in
      func words(_ setting: CostOverride.Setting?, _ word: String) -> [String] {
        setting.map { [$0.isOn ? word : "not-\(word)"] } ?? []
      }
      let link = if case .link(let name) = network.subject { name } else { String?.none }
      let name = link ?? network.current?.name ?? "?"
      return
        ([name] + (network.current == nil ? [] : ["here"])
        + words(network.override?.constrained, "constrained")
        + words(network.override?.expensive, "expensive"))
        .joined(separator: " ")
    }
  }

  /// The last published change: `constrained, expensive: constrainedSet uid 1000`.
  var last: String {
    guard case .path(let change) = self.loop.loop.feed.store.past.last?.change else {
      return "none"
    }
    let status = change.snapshot.status
    let costs = [
      status.isConstrained ? "constrained" : nil, status.isMetered ? "expensive" : nil,
    ].compactMap { $0 }
    let who = change.cause.message.map { " \($0)" } ?? ""
    return "\(costs.joined(separator: ", ")): \(change.cause.change)\(who)"
  }

  @Test(
    "I8 a user's override for a link takes effect immediately, is published with the user, and beats detection"
  )
  mutating func link() throws {
    try self.set(.link("eth0"), constrained: .on)
    #expect(self.last == "constrained: constrainedSet uid 1000")
    try self.set(.link("eth0"), expensive: .on)
    #expect(self.last == "constrained, expensive: expensiveSet uid 1000")
    #expect(try self.list() == ["192.0.2.1 here", "eth0 constrained expensive"])
    // An override that changes nothing is not published.
    let before = self.loop.loop.feed.store.past.count
    try self.set(.link("eth0"), expensive: .on)
    try self.set(.link("wlan7"), expensive: .on)
    #expect(self.loop.loop.feed.store.past.count == before)
    try self.set(.link("eth0"), constrained: .auto)
    #expect(self.last == "expensive: choiceForgotten uid 1000")
    try self.forget("eth0")
    #expect(self.last == ": choiceForgotten uid 1000")
    #expect(throws: CostRequest.Refusal.self) { try self.forget("eth0") }
  }

  @Test(
    "I8 the name that a user writes for a network is kept, and shown to that user and root; an address and an identity are not kept"
  )
  mutating func names() throws {
    try self.set(.network("Home"), constrained: .on)
    try self.set(.network("192.0.2.1"), constrained: .on)
    try self.set(.network("00000000000000aa"), expensive: .on)
    guard case .list(let networks, _) = try self.loop.answer(.list).get() else {
      Issue.record("not a list")
      return
    }
    func named(_ user: UInt32) -> [String] {
      networks.map { Connectivity_V1_Network($0, for: user) }.filter(\.hasName).map(\.name).sorted()
    }
    #expect(networks.map(\.override?.name).filter { $0 != nil } == ["Home", "Home"])
    #expect(named(1000) == ["192.0.2.1", "Home", "Home"])
    #expect(named(0) == named(1000))
    #expect(named(1001) == ["192.0.2.1"])
    try self.forget("Home")
    #expect(try self.list() == ["192.0.2.1 here constrained", "? expensive"])
  }

  @Test("I8 a link is set to metered → a flow that forbids that is destroyed")
  mutating func flow() throws {
    let remote = Destination(try IPAddress(spelt: "203.0.113.9"))
    self.loop.loop.guards.enqueue(
      .add(
        .init(
          key: .init(mailbox: self.loop.mailbox.number, id: 1),
          flow: Flow(remote, forbidsExpensive: true))))
    #expect(self.loop.turn() == ["1 path eth0"])
    try self.set(.link("eth0"), expensive: .on)
    #expect(self.loop.turn() == ["1 destroy policy"])
  }

  @Test("I4 a network is recognised by its router, on any link, and after a restart")
  mutating func network() throws {
    try self.set(.network("192.0.2.1"), constrained: .on)
    #expect(self.last == "constrained: constrainedSet uid 1000")
    #expect(try self.list() == ["192.0.2.1 here constrained"])
    try self.moveCable()
    #expect(self.loop.loop.feed.store.snapshot.status.isConstrained == false)
    #expect(try self.list() == ["192.0.2.1 here", "? constrained"])

    self.loop.loop.overrides.store?.finish()
    var later = try Self.loop(self.directory)
    later.loop.start()
    #expect(later.loop.feed.store.snapshot.status.isConstrained)
  }

  @Test("two users disagree → the last authorized one wins, and the entry names that user")
  mutating func disagreement() throws {
    for (user, choice) in [(1000, .on), (1001, .off), (1000, .on), (1001, .off)]
      as [(UInt32, CostRequest.Value)]
    {
      try self.set(.network("192.0.2.1"), constrained: choice, by: user)
      let word = choice == .on ? "constrained" : ""
      #expect(self.last == "\(word): constrainedSet uid \(user)")
    }
    #expect(self.loop.loop.engine.costs.overrides.all.values.map(\.user) == [1001])
  }

  @Test(
    "1024 links and networks are stored; one more is refused"
  )
  mutating func many() throws {
    let said = CostOverride(constrained: .off, user: 1000)
    let links = (1...1023).map { (CostOverrides.Subject.link("eth\($0)"), said) }
    let overrides = CostOverrides(Dictionary(uniqueKeysWithValues: links))
    #expect(Self.file(self.directory).save(.init(overrides: overrides)))
    self.loop = try Self.loop(self.directory)
    self.loop.loop.start()
    try self.set(.network("192.0.2.1"), constrained: .on)
    #expect(throws: CostRequest.Refusal.self) { try self.set(.link("wlan7"), constrained: .on) }
    #expect(try self.list().count == 1024)
    self.loop.loop.overrides.store?.finish()
    var later = try Self.loop(self.directory)
    later.loop.start()
    #expect(later.loop.feed.store.snapshot.status.isConstrained)
    #expect(later.loop.engine.costs.overrides.all.count == 1024)
    try self.forget("eth7")
    try self.set(.link("wlan7"), constrained: .on)
  }

  enum Tunnel: CaseIterable {
    /// The mark tells what is below.
    case wireGuard
    /// The default route beside it tells what is below.
    case openVPN
    /// The kernel knows the remote end.
    case gre

    /// Leads everything into the tunnel, and the tunnel's packets over eth0.
    fileprivate func take(_ kernel: ModelKernel) throws {
      let byCable = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      switch self {
      case .wireGuard:
        kernel.addLink(5, "wg0", kind: "wireguard")
        try kernel.lead("0.0.0.0", 0, .over(5, from: "10.8.0.2", table: 51820))
        kernel.rules = [ModelRule(.exceptMark(0xca6c), table: 51820)]
      case .openVPN:
        kernel.addLink(5, "tun0", kind: "tun")
        kernel.linkTable[5]?.link.hardwareAddress = []
        try kernel.lead("0.0.0.0", 0, .over(5, via: "10.8.0.1", from: "10.8.0.2"), metric: 50)
      case .gre:
        kernel.addTunnel(5, "gre0", to: "198.51.100.77")
        try kernel.lead("198.51.100.77", 32, byCable)
        try kernel.lead("0.0.0.0", 0, .over(5, from: "10.8.0.2"), metric: 50)
      }
    }

    /// The verdict for a flow inside that forbids the link below.
    fileprivate var verdict: String { self == .gre ? "destroy policy" : "drain policy" }
  }

  @Test(
    "I8 I4 K6 an override for a network also applies below a tunnel, but not to another router's network",
    arguments: Tunnel.allCases)
  mutating func belowTunnel(_ tunnel: Tunnel) throws {
    try tunnel.take(self.loop.kernel)
    _ = self.loop.tell()
    #expect(self.loop.loop.feed.store.snapshot.status.path.chain.map(\.index) == [5, 2])
    let remote = Destination(try IPAddress(spelt: "203.0.113.9"))
    self.loop.loop.guards.enqueue(
      .add(
        .init(
          key: .init(mailbox: self.loop.mailbox.number, id: 1),
          flow: Flow(remote, forbidsExpensive: true))))
    let link = self.loop.kernel.linkTable[5]?.link.name ?? ""
    #expect(self.loop.turn() == ["1 path \(link)"])
    #expect(try self.list() == ["192.0.2.1 here"])
    try self.set(.network("192.0.2.1"), constrained: .on)
    #expect(self.last == "constrained: constrainedSet uid 1000")
    _ = self.loop.turn()
    try self.set(.network("192.0.2.1"), expensive: .on)
    #expect(self.last == "constrained, expensive: expensiveSet uid 1000")
    #expect(self.loop.turn().last == "1 \(tunnel.verdict)")
    #expect(try self.list() == ["192.0.2.1 here constrained expensive"])

    try self.moveCable()
    #expect(!self.loop.loop.feed.store.snapshot.status.isConstrained)
    #expect(!self.loop.loop.feed.store.snapshot.status.isMetered)
    #expect(try self.list() == ["192.0.2.1 here", "? constrained expensive"])
  }

  @Test("I8 the router is unknown for a moment → the network keeps its cost")
  mutating func unknownRouter() throws {
    try self.set(.network("192.0.2.1"), expensive: .on)
    let address = Address(try IPAddress(spelt: "192.0.2.8"), prefixLength: 24, link: 2)
    self.loop.kernel.neighbours = [:]
    _ = self.loop.tell([.addressRemoved(address)])
    #expect(self.loop.loop.feed.store.snapshot.status.isMetered)
  }

  @Test("the configuration takes precedence over a user's override, and the answer names the entry")
  mutating func overruled() throws {
    var configuration = Configuration()
    configuration.links = LinkPolicy([
      .init(match: "eth*", constraint: ConstraintLevel.unconstrained)
    ])
    self.loop.loop.take(.configure(configuration, .unheard))
    #expect(try self.set(.link("eth0"), constrained: .on) == "eth*")
    #expect(try self.set(.network("192.0.2.1"), constrained: .on) == "eth*")
    #expect(try self.set(.link("eth0"), expensive: .on) == nil)
    #expect(!self.loop.loop.feed.store.snapshot.status.isConstrained)
    #expect(self.loop.loop.feed.store.snapshot.status.isMetered)
  }

  @Test("network names are not listed if the configuration hides them")
  mutating func hidden() throws {
    var configuration = Configuration()
    configuration.identify = .hidden
    self.loop.loop.take(.configure(configuration, .unheard))
    try self.set(.network("192.0.2.1"), constrained: .on)
    #expect(try self.list() == ["? here constrained"])
  }
}

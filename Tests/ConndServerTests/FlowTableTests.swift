import Connectivity
import Testing

@testable import ConndServer

@Suite("Flow table")
struct FlowTableTests {
  private let kernel = ModelKernel()
  private let gateways = Gateways()
  private let reader = PathReader(
    destinations: Configuration().destinations, classifier: PathClassifier())
  private let remote: IPAddress
  private let local: IPAddress

  init() throws {
    self.remote = try #require(IPAddress("203.0.113.9"))
    self.local = try #require(IPAddress("192.0.2.7"))
    for (index, name) in [(2, "eth0"), (3, "eth1")] as [(UInt32, String)] {
      self.kernel.linkTable[index] = LinkFacts(
        Link(
          index: index, name: name, flags: [.up, .lowerUp, .running], operationalState: .up,
          carrier: true, hardwareAddress: [2, 0, 0, 0, 0, UInt8(index)]))
    }
    try self.lead(to: 2)
  }

  /// The default route leads over a link, or nowhere.
  private func lead(to link: UInt32?, gateway: String = "192.0.2.1") throws {
    let all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.kernel.routes =
      link.map {
        [
          (
            all,
            .route(
              Route(outLink: $0, gateway: IPAddress(gateway), source: self.local))
          )
        ]
      } ?? []
  }

  private func registration(
    _ id: UInt64, local: IPAddress? = nil, knownPath: Path? = nil, since: UInt64? = nil
  ) -> FlowTable.Registration {
    FlowTable.Registration(
      key: .init(guardian: 1, id: id), flow: Flow(Destination(self.remote), local: local),
      knownPath: knownPath, sinceGeneration: since)
  }

  private func add(
    _ registration: FlowTable.Registration, to table: inout FlowTable,
    past: [Invalidation] = []
  ) throws -> FlowTable.Event {
    let registrar = try FlowTable.Registrar(
      [registration.flow.destination], Look(self.reader, self.gateways, self.kernel), self.kernel,
      past: try past.map { try Published(.invalidation($0)) })
    return try table.add(
      registration, registrar, policy: InvalidationPolicy(), at: Instant(sinceStart: .zero))
  }

  private func evaluate(_ table: inout FlowTable, at second: Double = 0) throws -> [String] {
    var told: [String] = []
    while table.isBusy { told += try self.evaluateSlice(of: &table, at: second) }
    return told.sorted()
  }

  private func evaluateSlice(of table: inout FlowTable, at second: Double = 0) throws -> [String] {
    try table.evaluate(
      self.reader, self.gateways, policy: InvalidationPolicy(), from: self.kernel,
      at: Instant(sinceStart: .seconds(second))
    ).map { self.words($0.event, $0.key.id) }
  }

  private func words(_ event: FlowTable.Event, _ id: UInt64 = 1) -> String {
    switch event {
    case .path(let path): "\(id) path \(path.interface ?? "none")"
    case .invalidation(let verdict, _, _):
      "\(id) \(verdict.severity.rawValue) \(verdict.reason.rawValue)"
    }
  }

  private func invalidation(
    _ reason: Invalidation.Reason, _ scope: Invalidation.Scope
  ) -> Invalidation {
    Invalidation(
      generation: 9, reason: reason, severity: .destroy, scope: scope,
      cause: Cause(.route, "routeAdded"), time: Timestamp(microseconds: 0))
  }

  @Test("I5 what happened before a flow was added does not concern it")
  func addedAfterwards() throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    _ = try self.add(self.registration(2), to: &table)
    #expect(try self.evaluate(&table) == ["1 destroy categoryChanged"])
    #expect(table.count == 1)
  }

  @Test("I10 a flow that has no path and no connection yet has nothing to lose")
  func addedOffline() throws {
    try self.lead(to: nil)
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path none")
    #expect(table.deadline == nil)
    // What makes its first path is no change for it.
    try self.lead(to: 2)
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    try self.lead(to: 3)
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 destroy betterPath"])
  }

  @Test("I5 a flow that begins with what the kernel has yet to tell of is not concerned by it")
  func begunAhead() throws {
    try self.lead(to: nil)
    var table = FlowTable()
    _ = try self.add(self.registration(1), to: &table)
    try self.lead(to: 2)
    self.kernel.untold = [{ [] }]
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    // It is told.
    self.kernel.untold = []
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    table.isDrained()
    #expect(try self.evaluate(&table) == [])
    // What is told later is of later.
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    table.isDrained()
    #expect(try self.evaluate(&table) == ["1 destroy categoryChanged"])
  }

  @Test("I1 I3 a flow that is dead already is told so when it is added")
  func deadAlready() throws {
    var table = FlowTable()
    self.kernel.missing = [try #require(IPAddress("192.0.2.99"))]
    let gone = self.registration(1, local: IPAddress("192.0.2.99"))
    #expect(self.words(try self.add(gone, to: &table)) == "1 destroy sourceAddressLost")

    // What it was told before was another way.
    var known = Path(status: .satisfied, chain: [PathLink(index: 3, name: "eth1")])
    known.source = self.local
    known.sourcePrefixLength = 24
    let moved = self.registration(1, knownPath: known)
    #expect(self.words(try self.add(moved, to: &table)) == "1 destroy betterPath")
    known.chain = [PathLink(index: 2, name: "eth0")]
    let same = self.registration(1, knownPath: known)
    #expect(self.words(try self.add(same, to: &table)) == "1 path eth0")
  }

  @Test(
    "I3 I9 a look between the end of an address and the kernel's word of it names the address",
    arguments: [nil, 3])
  func leavingAddress(next link: UInt32?) throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    let all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.kernel.routes =
      link.map { [(all, .route(Route(outLink: $0, source: IPAddress("198.51.100.7"))))] } ?? []
    self.kernel.leaving = [self.local]
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 destroy sourceAddressLost"])
  }

  @Test("I2 I9 a flow whose link went down while connd was away lost its interface")
  func linkDownMeanwhile() throws {
    let other = try #require(IPAddress("198.51.100.7"))
    let all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.kernel.routes = [(all, .route(Route(outLink: 2, source: other)))]
    self.kernel.addressTable = [
      Address(self.local, prefixLength: 24, link: 3), Address(other, prefixLength: 24, link: 2),
    ]
    var known = Path(status: .satisfied, chain: [PathLink(index: 3, name: "eth1")])
    known.source = self.local
    known.sourcePrefixLength = 24
    let registration = self.registration(1, local: self.local, knownPath: known)
    var table = FlowTable()
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy betterPath")
    self.kernel.linkTable[3] = LinkFacts(Link(index: 3, name: "eth1", operationalState: .down))
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
    // Also where there is no other.
    self.kernel.routes = []
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
  }

  @Test("I9 what was destroyed since the generation that the client knew of is told at once")
  func destroyedSince() throws {
    var table = FlowTable()
    let cases: [(Invalidation, IPAddress?, String)] = [
      (self.invalidation(.categoryChanged, .everything), nil, "1 destroy categoryChanged"),
      (self.invalidation(.betterPath, .init(interface: "eth0")), nil, "1 destroy betterPath"),
      (
        self.invalidation(.sourceAddressLost, .init(localAddresses: [self.local])), self.local,
        "1 destroy sourceAddressLost"
      ),
      // Another link's, another family's, another address's: not this flow's.
      (self.invalidation(.betterPath, .init(interface: "eth1")), nil, "1 path eth0"),
      (
        self.invalidation(.betterPath, .init(interface: "eth0", family: .ipv6)), nil, "1 path eth0"
      ),
      (
        self.invalidation(.sourceAddressLost, .init(localAddresses: [self.remote])), self.local,
        "1 path eth0"
      ),
    ]
    for (invalidation, local, expected) in cases {
      let registration = self.registration(1, local: local, since: 8)
      let event = try self.add(registration, to: &table, past: [invalidation])
      #expect(self.words(event) == expected, "\(invalidation)")
      table.remove(registration.key)
      // What the client knew of already is none of its flow's.
      let later = self.registration(1, local: local, since: 9)
      #expect(self.words(try self.add(later, to: &table, past: [invalidation])) == "1 path eth0")
      table.remove(later.key)
    }
    #expect(table.isEmpty)
  }

  @Test("I10 a connection that is added while its route is away goes on when the route is back")
  func addedWithoutRoute() throws {
    try self.lead(to: nil)
    var table = FlowTable()
    let connected = self.registration(1, local: self.local)
    #expect(self.words(try self.add(connected, to: &table)) == "1 destroy sourceAddressLost")
    // (No link has the address here; one that has it is in doubt.)
    self.kernel.addressTable = [Address(self.local, prefixLength: 24, link: 2)]
    #expect(self.words(try self.add(connected, to: &table)) == "1 advise interfaceLost")
    try self.lead(to: 2)
    table.lookAtAll(.timer, .init(categoryChange: .returned))
    #expect(try self.evaluate(&table, at: 0.4) == ["1 advise categoryChanged"])
    try self.lead(to: 3)
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table, at: 0.5) == ["1 destroy betterPath"])
  }

  @Test("K8 a flow that is added while the kernel cannot be asked is judged when it is registered")
  func addedBlindly() throws {
    var table = FlowTable()
    #expect(self.words(table.addBlindly(self.registration(1))) == "1 path none")
    var known = Path(status: .satisfied, chain: [PathLink(index: 3, name: "eth1")])
    known.source = self.local
    known.sourcePrefixLength = 24
    _ = table.addBlindly(self.registration(2, knownPath: known))
    // What happened before is no concern of theirs.
    table.lookAtAll(.kernelBack, .init())
    #expect(try self.evaluate(&table) == [])
    let registrations = table.takeBlind()
    #expect(registrations.map(\.key.id) == [1, 2])
    // (The words are those of one flow.)
    let words = try registrations.map { self.words(try self.add($0, to: &table)) }
    #expect(words == ["1 path eth0", "1 destroy betterPath"])
  }

  @Test("I5 a flow that begins is not concerned by looks that were due before it began")
  func begunMeanwhile() throws {
    try self.lead(to: nil)
    var table = FlowTable()
    _ = try self.add(self.registration(1), to: &table)
    // The kernel's messages are ahead of the looks: the first sees what the second is about.
    table.lookAtAll(.timer, .init())
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    try self.lead(to: 2)
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    table.lookAtAll(.timer, .init(categoryChange: .changed(.destroy)))
    #expect(try self.evaluate(&table) == ["1 destroy categoryChanged"])
  }

  @Test(
    "I1 a flow that begins on another link than it would have been sent by has its address there")
  func begunElsewhere() throws {
    let other = try #require(IPAddress("198.51.100.7"))
    let all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.kernel.linkTable[3]?.link.carrier = false
    self.kernel.routes = [(all, .route(Route(outLink: 3, source: other)))]
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth1")
    try self.lead(to: 2)
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    // Another address of the subnet is preferred, and this one stays; that of the other link goes.
    self.kernel.routes = [
      (
        all,
        .route(Route(outLink: 2, gateway: IPAddress("192.0.2.1"), source: IPAddress("192.0.2.8")))
      )
    ]
    self.kernel.absent[3] = [self.local]
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 path eth0"])
  }

  /// Guards so many flows, each to a destination of its own.
  private func addMany(_ count: UInt64, to table: inout FlowTable) throws {
    for id in 1...count {
      let address = try #require(IPAddress("198.18.\(id / 256).\(id % 256)"))
      _ = try self.add(
        .init(key: .init(guardian: 1, id: id), flow: Flow(Destination(address))), to: &table)
    }
  }

  /// All of so many flows have lost their route, and are to be looked at.
  private func tableOfLost(_ count: UInt64) throws -> FlowTable {
    var table = FlowTable()
    try self.addMany(count, to: &table)
    try self.lead(to: nil)
    table.lookAtAll(.timer, .init())
    return table
  }

  @Test("I5 the kernel's next message comes before the flows that are still to be looked at")
  func interrupted() throws {
    var table = try self.tableOfLost(600)
    func told() throws -> Int { try self.evaluateSlice(of: &table).count }
    // Few at first: an event's messages come shortly after each other.
    self.kernel.happens(after: 3) { self.kernel.untold.append { [] } }
    #expect(try told() == 4)
    self.kernel.untold = []
    self.kernel.happens(after: 70) { self.kernel.untold.append { [] } }
    #expect(try told() == 8 + 16 + 32 + 32)
    #expect(try told() == 32)
    self.kernel.untold = []
    #expect(try told() == 256)
    #expect(try told() == 600 - 4 - 88 - 32 - 256)
    #expect(!table.isBusy)
  }

  @Test("I10 many whose grace is over are looked at once")
  func manyOverdue() throws {
    var table = try self.tableOfLost(600)
    #expect(table.deadline == nil, "who looks at all does not wait for some")
    #expect(try self.evaluate(&table).count == 600)
    #expect(table.deadline == Instant(sinceStart: .seconds(1)))
    let before = self.kernel.questions
    for _ in 0..<5 { table.lookAtOverdue(at: Instant(sinceStart: .seconds(2))) }
    #expect(try self.evaluate(&table, at: 2).count == 600)
    #expect(self.kernel.questions - before < 700)
    #expect(table.isEmpty && table.deadline == nil)
  }

  @Test("I10 a grace whose flow has gone is waited for once, and not again")
  func goneInDoubt() throws {
    var table = FlowTable()
    try self.addMany(2, to: &table)
    let address = try #require(IPAddress("198.18.0.2"))
    let second = try #require(IPPrefix(address, length: 32))
    self.kernel.routes = self.kernel.routes.map { (second, $0.1) }
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table) == ["1 advise interfaceLost"])
    self.kernel.routes = []
    table.lookAtAll(.timer, .init())
    #expect(try self.evaluate(&table, at: 0.5) == ["2 advise interfaceLost"])

    table.remove(.init(guardian: 1, id: 1))
    #expect(table.deadline == Instant(sinceStart: .seconds(1)))
    table.lookAtOverdue(at: Instant(sinceStart: .seconds(1)))
    #expect(!table.isBusy && table.deadline == Instant(sinceStart: .seconds(1.5)))
    table.remove(.init(guardian: 1, id: 2))
    #expect(table.deadline == nil)
  }

  @Test("I4 the gateway's successor is noticed by its hardware address, and its own return is not")
  func gateway() throws {
    let gateway = try #require(IPAddress("192.0.2.1"))
    func neighbour(_ last: UInt8) -> Neighbour {
      Neighbour(gateway, link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
    }
    self.kernel.neighbours[gateway] = neighbour(7)
    var table = FlowTable()
    _ = try self.add(self.registration(1), to: &table)
    self.gateways.note([.neighbour(neighbour(7))])
    table.lookAtAll(.events([.neighbour(neighbour(7))]), .init())
    #expect(try self.evaluate(&table) == [])
    self.gateways.note([.neighbour(neighbour(8))])
    table.lookAtAll(.events([.neighbour(neighbour(8))]), .init())
    #expect(try self.evaluate(&table) == ["1 destroy networkChanged"])
  }

  @Test("D6 ten thousand flows by one way cost one question each")
  func manyFlows() throws {
    var table = FlowTable()
    let all: [IPAddress] = (0..<10_000).compactMap { IPAddress("198.18.\($0 / 256).\($0 % 256)") }
    for (id, address) in all.enumerated() {
      _ = try self.add(
        .init(key: .init(guardian: 1, id: UInt64(id)), flow: Flow(Destination(address))),
        to: &table)
    }
    #expect(table.count(of: 1) == 10_000)
    table.lookAtAll(.timer, .init())
    let before = self.kernel.questions
    #expect(try self.evaluate(&table) == [])
    let slices = (10_000 + 255) / 256
    #expect(self.kernel.questions - before <= 10_000 + 4 * slices)
    table.removeAll(of: 1)
    #expect(table.isEmpty && table.addresses.isEmpty && table.count(of: 1) == 0)
  }
}

import Connectivity
import TestKit
import Testing

@testable import ConndServer

@Suite("Flow table")
struct FlowTableTests {
  private let kernel = ModelKernel()
  private let interests = Interests()
  private let remote: IPAddress
  private let local: IPAddress
  private let local2: IPAddress

  init() throws {
    self.remote = try IPAddress(spelt: "203.0.113.9")
    self.local = try IPAddress(spelt: "192.0.2.7")
    self.local2 = try IPAddress(spelt: "198.51.100.7")
    self.kernel.addLink(2, "eth0")
    self.kernel.addLink(3, "eth1")
    self.kernel.give(self.local2, to: 3)
    try self.lead(by: 2)
  }

  /// A default route leads over a link, too. The one of the least metric is preferred.
  private func lead(by link: UInt32, metric: UInt32 = 100) throws {
    let way =
      link == 2
      ? RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      : .over(3, via: "198.51.100.1", from: "198.51.100.7")
    try self.kernel.lead("0.0.0.0", 0, way, metric: metric)
  }

  private func leadNowhere() { self.kernel.routes = [] }

  /// What belongs to one turn.
  private var reader: FlowReader {
    FlowReader(
      PathReader(
        destinations: Configuration().destinations, classifier: PathClassifier(),
        networks: self.interests.networks), self.interests, KernelView(self.kernel))
  }

  private func registration(
    _ id: UInt64, local: IPAddress? = nil, knownPath: Path? = nil, since: UInt64? = nil
  ) -> FlowTable.Registration {
    FlowTable.Registration(
      key: .init(guardian: 1, id: id), flow: Flow(Destination(self.remote), local: local),
      knownPath: knownPath, sinceGeneration: since)
  }

  /// What a client was told before: that its flow is on eth1.
  private var pathOnEth1: Path {
    var known = Path(status: .satisfied, chain: [PathLink(index: 3, name: "eth1")])
    (known.source, known.sourcePrefixLength) = (self.local2, 24)
    return known
  }

  private func add(
    _ registration: FlowTable.Registration, to table: inout FlowTable,
    past: [Invalidation] = []
  ) throws -> FlowTable.Event {
    var question = registration.flow.destination
    question.source = registration.flow.local
    let registrar = try FlowTable.Registrar(
      [question], self.reader, past: try past.map { try Published(.invalidation($0)) })
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
      self.reader, policy: InvalidationPolicy(), at: Instant(sinceStart: .seconds(second))
    ).map { self.words($0.event, $0.key.id) }
  }

  private func look(_ table: inout FlowTable, _ occasion: Occasion = .timer) {
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    table.lookAtAll(.init(occasion: occasion, slept: slept))
  }

  private func words(_ event: FlowTable.Event, _ id: UInt64 = 1) -> String {
    switch event {
    case .path(let path): "\(id) path \(path.interface ?? "none")"
    case .invalidation(let verdict, _, _):
      "\(id) \(verdict.severity.rawValue) \(verdict.reason.rawValue)"
    }
  }

  // MARK: - Registration

  @Test("I6 a sleep before a flow was added does not concern it")
  func addedAfterwards() throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    self.look(&table, .resumed(.seconds(600)))
    _ = try self.add(self.registration(2), to: &table)
    #expect(try self.evaluate(&table) == ["1 destroy resumed"])
    #expect(table.count == 1)
  }

  @Test("I10 a flow that has no path and no connection yet has nothing to lose")
  func addedOffline() throws {
    self.leadNowhere()
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path none")
    #expect(table.deadline == nil)
    // What makes its first path is no change for it.
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    try self.lead(by: 3, metric: 0)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy betterPath"])
  }

  @Test("I1 I3 a flow that is dead already is told so when it is added")
  func deadAlready() throws {
    var table = FlowTable()
    let gone = self.registration(1, local: IPAddress("192.0.2.99"))
    #expect(self.words(try self.add(gone, to: &table)) == "1 destroy sourceAddressLost")

    // What it was told before was another way.
    try self.lead(by: 3, metric: 200)
    let moved = self.registration(1, knownPath: self.pathOnEth1)
    #expect(self.words(try self.add(moved, to: &table)) == "1 destroy betterPath")
    var known = self.pathOnEth1
    known.chain = [PathLink(index: 2, name: "eth0")]
    known.source = self.local
    let same = self.registration(1, knownPath: known)
    #expect(self.words(try self.add(same, to: &table)) == "1 path eth0")
  }

  @Test("I0 I3 a connection that has just been made is not refuted by what the kernel prefers")
  func justMade() throws {
    var table = FlowTable()
    try self.lead(by: 3, metric: 200)
    self.kernel.pin(.over(3, via: "198.51.100.1", from: "198.51.100.7", table: 100))
    let connected = self.registration(1, local: self.local2)
    #expect(self.words(try self.add(connected, to: &table)) == "1 path eth1")
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
  }

  @Test(
    "I1 I9 a look between the end of an address and the kernel's word of it names the address",
    arguments: [nil, 3] as [UInt32?])
  func leavingAddress(next link: UInt32?) throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    self.leadNowhere()
    if let link { try self.lead(by: link) }
    self.kernel.take("192.0.2.7")
    self.kernel.leaving[self.local] = 2
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy sourceAddressLost"])
  }

  @Test("I2 I9 a flow whose link went down while connd was away lost its interface")
  func linkDownMeanwhile() throws {
    try self.lead(by: 3, metric: 200)
    let registration = self.registration(1, local: self.local2, knownPath: self.pathOnEth1)
    var table = FlowTable()
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy betterPath")
    self.kernel.setState(of: 3, .down)
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
    // Also where there is no other.
    self.leadNowhere()
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
  }

  private func invalidation(
    _ reason: Invalidation.Reason, _ scope: Invalidation.Scope
  ) -> Invalidation {
    Invalidation(
      generation: 9, reason: reason, severity: .destroy, scope: scope,
      cause: Cause(.route, "routeAdded"), time: Timestamp(microseconds: 0))
  }

  @Test("I9 what was destroyed since the generation that the client knew of is told at once")
  func destroyedSince() throws {
    var table = FlowTable()
    let cases: [(Invalidation, IPAddress?, String)] = [
      (self.invalidation(.betterPath, .init(interface: "eth0")), nil, "1 destroy betterPath"),
      (
        self.invalidation(.sourceAddressLost, .init(localAddresses: [self.local])), self.local,
        "1 destroy sourceAddressLost"
      ),
      // Of a network the kernel cannot tell, whatever address there is.
      (
        self.invalidation(.networkChanged, .init(interface: "eth0")), self.local,
        "1 destroy networkChanged"
      ),
      // Of its own way it can.
      (self.invalidation(.betterPath, .init(interface: "eth0")), self.local, "1 path eth0"),
      (self.invalidation(.categoryChanged, .everything), nil, "1 path eth0"),
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
    self.leadNowhere()
    var table = FlowTable()
    let connected = self.registration(1, local: self.local)
    #expect(self.words(try self.add(connected, to: &table)) == "1 advise interfaceLost")
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table, at: 0.4) == ["1 path eth0"])
    try self.lead(by: 3, metric: 0)
    self.look(&table)
    #expect(try self.evaluate(&table, at: 0.5) == ["1 destroy betterPath"])
  }

  @Test("K8 a flow that is added while the kernel cannot be asked is judged when it is registered")
  func addedBlindly() throws {
    var table = FlowTable()
    try self.lead(by: 3, metric: 200)
    #expect(self.words(table.addBlindly(self.registration(1))) == "1 path none")
    _ = table.addBlindly(self.registration(2, knownPath: self.pathOnEth1))
    // What happened before is no concern of theirs.
    self.look(&table, .kernelBack)
    #expect(try self.evaluate(&table) == [])
    let registrations = table.takeBlind()
    #expect(registrations.map(\.key.id) == [1, 2])
    // (The words are those of one flow.)
    let words = try registrations.map { self.words(try self.add($0, to: &table)) }
    #expect(words == ["1 path eth0", "1 destroy betterPath"])
  }

  @Test(
    "I1 a flow that begins on another link than it would have been sent by has its address there")
  func begunElsewhere() throws {
    self.kernel.setState(of: 3, .noCarrier)
    self.leadNowhere()
    try self.lead(by: 3)
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth1")
    self.leadNowhere()
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    // Another address of the subnet is preferred, and this one stays; that of the other link goes.
    try self.kernel.give("192.0.2.8", to: 2)
    try self.kernel.lead(
      "0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.8"), metric: 100)
    self.kernel.take("198.51.100.7")
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
    self.kernel.take("192.0.2.7")
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy sourceAddressLost"])
  }

  // MARK: - Sweeps

  private func address(_ id: UInt64) throws -> IPAddress {
    try IPAddress(spelt: "198.18.\(id / 256).\(id % 256)")
  }

  /// Guards a flow to a destination of its own.
  private func addOne(_ id: UInt64, to table: inout FlowTable) throws {
    _ = try self.add(
      .init(key: .init(guardian: 1, id: id), flow: Flow(Destination(try self.address(id)))),
      to: &table)
  }

  private func addMany(_ count: UInt64, to table: inout FlowTable) throws {
    for id in 1...count { try self.addOne(id, to: &table) }
  }

  /// All of so many flows have lost their route, and are to be looked at.
  private func tableOfLost(_ count: UInt64) throws -> FlowTable {
    var table = FlowTable()
    try self.addMany(count, to: &table)
    self.leadNowhere()
    self.look(&table)
    return table
  }

  @Test("D6 the kernel's next message comes before the flows that are still to be looked at")
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

  /// Nobody has a path, so that each look is one question.
  @Test(
    "I9 nobody is skipped or looked at twice for one step, whoever comes and goes meanwhile",
    arguments: [1, 2, 3, 4])
  func comingAndGoing(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var table = try self.tableOfLost(100)
    var expected = Set(1...100 as ClosedRange<UInt64>)
    var looks: [String: Int] = [:]
    var next: UInt64 = 101
    // A message waits all the time: a part each.
    self.kernel.untold = [{ [] }]
    while table.isBusy {
      let before = self.kernel.questions
      _ = try self.evaluateSlice(of: &table)
      for question in self.kernel.asked[before...] where question.hasPrefix("route") {
        looks[question, default: 0] += 1
      }
      for id in expected.sorted() where Int.random(in: 0..<20, using: &random) == 0 {
        let question = "route \(try self.address(id))"
        table.remove(.init(guardian: 1, id: id))
        expected.remove(id)
        #expect(looks.removeValue(forKey: question) ?? 0 <= 1)
      }
      // Who comes has seen what happened.
      try self.addOne(next, to: &table)
      next += 1
    }
    #expect(looks.count == expected.count)
    for id in expected { #expect(looks["route \(try self.address(id))"] == 1) }
  }

  @Test("I9 a step while a sweep is under way has those looked at again that were seen")
  func stepMeanwhile() throws {
    var table = try self.tableOfLost(20)
    self.kernel.untold = [{ [] }]
    #expect(try self.evaluateSlice(of: &table).count == 4)
    try self.lead(by: 2)
    self.look(&table)
    self.kernel.untold = []
    let before = self.kernel.questions
    // The others have missed nothing: their way is there.
    #expect(
      try self.evaluate(&table) == ["1 path eth0", "2 path eth0", "3 path eth0", "4 path eth0"])
    let asked = self.kernel.asked[before...].filter { $0.hasPrefix("route") }
    #expect(Set(asked).count == 20)
  }

  @Test("K8 what would be destroyed while messages wait is looked at once more, and no third time")
  func postponed() throws {
    var table = FlowTable()
    try self.addMany(1, to: &table)
    self.kernel.take("192.0.2.7")
    self.look(&table)
    self.kernel.untold = [{ [] }]
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(table.isBusy && table.count == 1)
    // It was nothing.
    self.kernel.give(self.local, to: 2)
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(!table.isBusy)

    self.kernel.take("192.0.2.7")
    self.look(&table)
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(try self.evaluateSlice(of: &table) == ["1 destroy sourceAddressLost"])
    #expect(!table.isBusy && table.isEmpty)
  }

  @Test("K8 a kernel that fails in the middle of a sweep swallows nothing that was to be told")
  func failing() throws {
    var table = try self.tableOfLost(6)
    self.kernel.happens(after: 2) { self.kernel.isGone = true }
    #expect(throws: KernelUnavailable.self) { try self.evaluateSlice(of: &table) }
    self.kernel.isGone = false
    #expect(try self.evaluate(&table).count == 6)
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
    // Of its own way, and of the one that new connections get.
    #expect(self.kernel.questions - before < 1300)
    #expect(table.isEmpty && table.deadline == nil)
  }

  @Test("I10 of many only those whose grace is over are looked at")
  func someOverdue() throws {
    var table = FlowTable()
    try self.addMany(100, to: &table)
    let lost = try IPPrefix(spelt: "198.18.0.42", 32)
    try self.kernel.lead("198.18.0.42", 32, .noRoute(.unreachable))
    self.look(&table)
    #expect(try self.evaluate(&table) == ["42 advise interfaceLost"])
    let before = self.kernel.questions
    table.lookAtOverdue(at: Instant(sinceStart: .seconds(1)))
    #expect(try self.evaluate(&table, at: 1) == ["42 destroy interfaceLost"])
    let asked = self.kernel.asked[before...].filter { $0.hasPrefix("route") }
    #expect(Set(asked) == ["route \(lost.address)"])
    #expect(!table.isBusy && table.count == 99)
  }

  @Test("I10 a grace whose flow has gone is waited for once, and not again")
  func goneInDoubt() throws {
    var table = FlowTable()
    try self.addMany(2, to: &table)
    self.leadNowhere()
    try self.kernel.lead("198.18.0.2", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise interfaceLost"])
    self.leadNowhere()
    self.look(&table)
    #expect(try self.evaluate(&table, at: 0.5) == ["2 advise interfaceLost"])

    table.remove(.init(guardian: 1, id: 1))
    #expect(table.deadline == Instant(sinceStart: .seconds(1)))
    table.lookAtOverdue(at: Instant(sinceStart: .seconds(1)))
    #expect(!table.isBusy && table.deadline == Instant(sinceStart: .seconds(1.5)))
    table.remove(.init(guardian: 1, id: 2))
    #expect(table.deadline == nil)
  }

  @Test("I4 another router behind the same gateway's address: advise, and destroy if the link went")
  func gateway() throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    func tell(_ last: UInt8) {
      let neighbour = Neighbour(gateway, link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
      self.kernel.neighbours[gateway] = neighbour
      self.interests.note([.neighbour(neighbour)])
    }
    tell(7)
    var table = FlowTable()
    _ = try self.add(self.registration(1), to: &table)
    tell(7)
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
    tell(8)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise networkChanged"])
    self.kernel.setState(of: 2, .noCarrier)
    self.interests.note([.link(try #require(self.kernel.linkTable[2]).link)])
    self.kernel.setState(of: 2, .up)
    tell(9)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy networkChanged"])
  }

  @Test("D6 ten thousand flows by one way cost one question each")
  func manyFlows() throws {
    var table = FlowTable()
    try self.addMany(10_000, to: &table)
    #expect(table.count(of: 1) == 10_000)
    self.look(&table)
    let before = self.kernel.questions
    #expect(try self.evaluate(&table) == [])
    let slices = (10_000 + 255) / 256
    #expect(self.kernel.questions - before <= 10_000 + 8 * slices)
    table.removeAll(of: 1)
    #expect(table.isEmpty && table.addresses.isEmpty && table.count(of: 1) == 0)
  }
}

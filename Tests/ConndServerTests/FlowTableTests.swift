import Connectivity
import ConnectivityRules
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Flow table")
final class FlowTableTests {
  let kernel = ModelKernel()
  var interests = Interests()
  let remote: IPAddress
  let local: IPAddress
  let local2: IPAddress

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
  func lead(by link: UInt32, metric: UInt32 = 100) throws {
    let way =
      link == 2
      ? RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      : .over(3, via: "198.51.100.1", from: "198.51.100.7")
    try self.kernel.lead("0.0.0.0", 0, way, metric: metric)
  }

  func leadNowhere() { self.kernel.routes = [] }

  /// Does something in a turn of its own.
  private func turn<Result>(_ body: (FlowReader) throws -> Result) rethrows -> Result {
    let view = KernelView(self.kernel, self.interests)
    defer { self.interests = view.interests }
    let reader = PathReader(
      destinations: Configuration().destinations, classifier: PathClassifier())
    return try body(FlowReader(reader, view))
  }

  func registration(
    _ id: UInt64, local: IPAddress? = nil, knownPath: Path? = nil, since: UInt64? = nil
  ) -> FlowTable.Registration {
    FlowTable.Registration(
      key: .init(guardian: 1, id: id), flow: Flow(Destination(self.remote), local: local),
      knownPath: knownPath, sinceGeneration: since)
  }

  /// What a client was told before: that its flow is on eth1.
  var pathOnEth1: Path {
    var known = Path(status: .satisfied, chain: [PathLink(index: 3, name: "eth1")])
    (known.source, known.sourcePrefixLength) = (self.local2, 24)
    return known
  }

  func add(
    _ registration: FlowTable.Registration, to table: inout FlowTable,
    past: [Invalidation] = []
  ) throws -> FlowTable.Event {
    var question = registration.flow.destination
    question.source = registration.flow.local
    return try self.turn { reader in
      let registrar = try FlowTable.Registrar(
        [question], reader, past: try past.map { try Published(.invalidation($0)) })
      return try table.add(
        registration, of: .root, registrar, policy: InvalidationPolicy(),
        at: Instant(sinceStart: .zero))
    }
  }

  func evaluate(_ table: inout FlowTable, at second: Double = 0) throws -> [String] {
    var told: [String] = []
    while table.isBusy { told += try self.evaluateSlice(of: &table, at: second) }
    return told.sorted()
  }

  func evaluateSlice(of table: inout FlowTable, at second: Double = 0) throws -> [String] {
    let told = try self.turn {
      try table.evaluate(
        $0, policy: InvalidationPolicy(), at: Instant(sinceStart: .seconds(second)))
    }
    return told.map { self.words($0.event, $0.key.id) }
  }

  func look(_ table: inout FlowTable, _ occasion: Occasion = .timer) {
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    table.lookAtAll(.init(occasion: occasion, slept: slept))
  }

  func words(_ event: FlowTable.Event, _ id: UInt64 = 1) -> String {
    switch event {
    case .path(let path): "\(id) path \(path.interface ?? "none")"
    case .betterPathGone(let path): "\(id) better path gone \(path.interface ?? "none")"
    case .invalidation(let verdict, _, _):
      "\(id) \(verdict.severity.rawValue) \(verdict.reason.rawValue)"
    }
  }

  @Test(
    "I3 a flow that a rule keeps on its way is told that there is a better path, and that it is gone"
  )
  func betterPathGone() throws {
    var table = FlowTable()
    self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    _ = try self.add(self.registration(1, local: self.local), to: &table)
    try self.lead(by: 3, metric: 50)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise betterPath"])
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
    self.leadNowhere()
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 better path gone eth0"])
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
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
    #expect(self.words(table.addBlindly(self.registration(1), of: .root)) == "1 path none")
    _ = table.addBlindly(self.registration(2, knownPath: self.pathOnEth1), of: .root)
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
}

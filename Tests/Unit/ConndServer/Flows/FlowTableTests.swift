import Connectivity
import ConnectivityRules
import LinuxSupport
import TestKit
import Testing

@testable import ConndServer

@Suite("Flow table")
final class FlowTableTests {
  let kernel = ModelKernel()
  var subscriptions = KernelSubscriptions()
  var policy = LinkPolicy()
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

  /// Adds a default route over a link. The route with the lowest metric is preferred.
  func lead(by link: UInt32, metric: UInt32 = 100) throws {
    let flowPath =
      link == 2
      ? RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      : .over(3, via: "198.51.100.1", from: "198.51.100.7")
    try self.kernel.lead("0.0.0.0", 0, flowPath, metric: metric)
  }

  func leadNowhere() { self.kernel.routes = [] }

  /// Does something in a turn of its own.
  private func turn<Result>(_ body: (FlowReader) throws -> Result) rethrows -> Result {
    let view = KernelView(self.kernel, ReadingContext(subscriptions: self.subscriptions))
    defer { self.subscriptions = view.subscriptions }
    let reader = PathReader(
      destinations: Configuration().destinations, classifier: PathClassifier(policy: self.policy))
    return try body(FlowReader(reader, view))
  }

  func registration(
    _ id: UInt64, local: IPAddress? = nil, knownPath: KernelPath? = nil, since: UInt64? = nil
  ) -> FlowTable.Registration {
    FlowTable.Registration(
      key: .init(mailbox: 1, id: id), flow: Flow(Destination(self.remote), local: local),
      knownPath: knownPath, sinceGeneration: since)
  }

  /// A client's last known path: its flow is on eth1.
  var pathOnEth1: KernelPath {
    var known = KernelPath(status: .satisfied, chain: [KernelPath.Link(index: 3, name: "eth1")])
    (known.source, known.sourcePrefixLength) = (self.local2, 24)
    return known
  }

  func add(
    _ registration: FlowTable.Registration, to table: inout FlowTable,
    past: [Invalidation] = []
  ) throws -> FlowEvent {
    var question = registration.flow.destination
    question.source = registration.flow.local
    return try self.turn { reader in
      let registrar = try RegistrationContext(
        [question], reader, past: past.map { Published(.invalidation($0)) })
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

  func evaluateSlice(
    of table: inout FlowTable, isFinal: Bool = false, at second: Double = 0
  ) throws -> [String] {
    let told = try self.turn {
      try table.evaluate(
        $0, policy: InvalidationPolicy(), isFinal: isFinal,
        at: Instant(sinceStart: .seconds(second)))
    }
    return told.notifications.map { self.words($0.event, $0.key.id) }
  }

  func look(_ table: inout FlowTable, _ trigger: ReadTrigger = .timer) {
    let slept: Duration? = if case .resumed(let slept) = trigger { slept } else { nil }
    table.examineAll(.init(trigger: trigger, slept: slept))
  }

  func words(_ event: FlowEvent, _ id: UInt64 = 1) -> String {
    switch event {
    case .path(let path): "\(id) path \(path.interface ?? "none")"
    case .betterPathGone(let path): "\(id) better path gone \(path.interface ?? "none")"
    case .invalidation(let invalidation) where invalidation.migrates:
      "\(id) move \(invalidation.path?.interface ?? "none")"
    case .invalidation(let invalidation):
      "\(id) \(invalidation.severity.rawValue) \(invalidation.reason.rawValue)"
    case .refused(let refusal): "\(id) refused \(refusal.message)"
    }
  }

  @Test(
    "I3 a flow that a rule keeps on its way learns of a better path, and of its end"
  )
  func betterPathGone() throws {
    var table = FlowTable()
    try self.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
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

  @Test("I6 a sleep before a flow was added does not affect it")
  func addedAfterwards() throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    self.look(&table, .resumed(.seconds(600)))
    _ = try self.add(self.registration(2), to: &table)
    #expect(try self.evaluate(&table) == ["1 destroy resumed"])
    #expect(table.count == 1)
  }

  @Test("I10 a flow without a path and without a connection has nothing to lose")
  func addedOffline() throws {
    self.leadNowhere()
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path none")
    #expect(table.deadline == nil)
    // The event that creates its first path is not a change for the flow.
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 path eth0"])
    try self.lead(by: 3, metric: 0)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 drain betterPath"])
  }

  @Test("I1 I3 a flow that is already dead is destroyed in the answer to its registration")
  func deadAlready() throws {
    var table = FlowTable()
    let gone = self.registration(1, local: IPAddress("192.0.2.99"))
    #expect(self.words(try self.add(gone, to: &table)) == "1 destroy sourceAddressLost")

    // The path known from before was another one.
    try self.lead(by: 3, metric: 200)
    let moved = self.registration(1, knownPath: self.pathOnEth1)
    #expect(self.words(try self.add(moved, to: &table)) == "1 destroy betterPath")
    var known = self.pathOnEth1
    known.chain = [KernelPath.Link(index: 2, name: "eth0")]
    known.source = self.local
    let same = self.registration(1, knownPath: known)
    #expect(self.words(try self.add(same, to: &table)) == "1 path eth0")
  }

  @Test("I0 I3 a new connection is not refuted by the route that the kernel prefers")
  func justMade() throws {
    var table = FlowTable()
    try self.lead(by: 3, metric: 200)
    try self.kernel.pin(.over(3, via: "198.51.100.1", from: "198.51.100.7", table: 100))
    let connected = self.registration(1, local: self.local2)
    #expect(self.words(try self.add(connected, to: &table)) == "1 path eth1")
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
  }

  @Test(
    "I1 I9 an evaluation between the loss of an address and the kernel's message names the address",
    arguments: [nil, 3] as [UInt32?])
  func leavingAddress(next link: UInt32?) throws {
    var table = FlowTable()
    #expect(self.words(try self.add(self.registration(1), to: &table)) == "1 path eth0")
    self.leadNowhere()
    if let link { try self.lead(by: link) }
    self.kernel.take("192.0.2.7")
    self.kernel.leaving[self.local] = 2
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise sourceAddressLost"])
  }

  @Test("I2 I9 a link went down while connd was away → the flow lost its interface")
  func linkDownMeanwhile() throws {
    try self.lead(by: 3, metric: 200)
    let registration = self.registration(1, local: self.local2, knownPath: self.pathOnEth1)
    var table = FlowTable()
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy betterPath")
    self.kernel.setState(of: 3, .down)
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
    // Also without another link.
    self.leadNowhere()
    #expect(self.words(try self.add(registration, to: &table)) == "1 destroy interfaceLost")
  }

  private func invalidation(
    _ reason: Invalidation.Reason, _ scope: Invalidation.Scope
  ) -> Invalidation {
    Invalidation(
      generation: 9, reason: reason, severity: .destroy, scope: scope,
      cause: ChangeCause(.route, "routeAdded"), time: WallTime(microseconds: 0))
  }

  @Test("I9 an invalidation since the client's known generation is reported at registration")
  func destroyedSince() throws {
    var table = FlowTable()
    let cases: [(Invalidation, IPAddress?, String)] = [
      (self.invalidation(.betterPath, .init(interface: "eth0")), nil, "1 destroy betterPath"),
      (
        self.invalidation(.sourceAddressLost, .init(localAddresses: [self.local])), self.local,
        "1 destroy sourceAddressLost"
      ),
      // A network change cannot be checked against the kernel, whatever the address.
      (
        self.invalidation(.networkChanged, .init(interface: "eth0")), self.local,
        "1 destroy networkChanged"
      ),
      // A better path can be: the kernel knows the flow's own way.
      (self.invalidation(.betterPath, .init(interface: "eth0")), self.local, "1 path eth0"),
      (self.invalidation(.categoryChanged, .everything), nil, "1 path eth0"),
      // Another link, another family, another address: these do not concern the flow.
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
      // An invalidation that the client already knew of does not concern its new flow.
      let later = self.registration(1, local: local, since: 9)
      #expect(self.words(try self.add(later, to: &table, past: [invalidation])) == "1 path eth0")
      table.remove(later.key)
    }
    #expect(table.isEmpty)
  }

  @Test("I10 a connection is added while its route is away → it continues when the route returns")
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
    #expect(try self.evaluate(&table, at: 0.5) == ["1 drain betterPath"])
  }

  @Test("K8 a flow added while the kernel cannot be asked is judged as soon as it can")
  func addedBlindly() throws {
    var table = FlowTable()
    try self.lead(by: 3, metric: 200)
    #expect(self.words(table.addPending(self.registration(1), of: .root)) == "1 path none")
    _ = table.addPending(self.registration(2, knownPath: self.pathOnEth1), of: .root)
    // Events before the registration do not concern them.
    self.look(&table, .kernelBack)
    #expect(try self.evaluate(&table) == [])
    let registrations = table.takePending()
    #expect(registrations.map(\.key.id) == [1, 2])
    // (The words are those of one flow.)
    let words = try registrations.map { self.words(try self.add($0, to: &table)) }
    #expect(words == ["1 path eth0", "1 destroy betterPath"])
  }

  @Test(
    "I1 a flow begins on another link than expected → its address is looked for there")
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
    // Another address of the subnet is preferred and this one stays; the other link's address goes.
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

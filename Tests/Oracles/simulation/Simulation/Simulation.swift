import Connectivity
import ConnectivityRules

@testable import ConndServer
import TestKit

/// A network with random events, a connd that watches it, and clients that follow connd. One seed
/// determines everything, and time is virtual.
///
/// After each step the invariants are checked (`Simulation+Invariants.swift`). The first violation
/// is kept as `broken`, and ends the run.
final class Simulation {
  let seed: UInt64
  let mutation: Mutation?
  let kernel: FaultyKernel
  let configuration = Configuration()
  var random: SeededGenerator
  var daemon: Daemon
  var truth = Truth()
  var streams: [StreamClient]
  var guards: [GuardClient]
  var flows: [GuardedFlow] = []
  var record = Record()
  private var lastPort: UInt16 = 40_000
  private(set) var steps = 0
  private(set) var broken: String?
  /// The trace, or `nil` if it is not wanted.
  private(set) var trace: [String]?

  var now: Instant { self.kernel.now }

  /// The recorder, or `nil` for none.
  private let writer: Writer?

  /// - Parameters:
  ///   - network: the first network, or `nil` if the seed decides.
  ///   - writer: records it as bytes that connd's own code reads; the run may differ from one
  ///     without.
  init(
    seed: UInt64, mutation: Mutation? = nil, from network: ModelNetwork? = nil,
    isTraced: Bool = false, writer: Writer? = nil
  ) {
    self.seed = seed
    self.writer = writer
    let machine: ModelNetwork.Machine =
      switch seed % 5 {
      case 3: .host
      case 4: .server
      default: .laptop
      }
    self.kernel = FaultyKernel(network ?? ModelNetwork(machine))
    self.mutation = mutation
    self.random = SeededGenerator(seed: seed)
    self.trace = isTraced ? [] : nil
    self.daemon = Daemon(self.configuration, past: [], self.kernel, mutation, writer)
    self.streams = [1, 1, 7, 900].map { StreamClient(laziness: $0) }
    self.guards = [(1, 1), (2, 20), (3, 300)].map { GuardClient(number: $0.0, laziness: $0.1) }
    self.truth.follow(self.kernel.network, self.configuration.destinations)
    self.startDaemon()
  }

  /// Runs this many steps, or until an invariant is broken.
  func run(steps: Int) async {
    for _ in 0..<steps where self.broken == nil {
      await self.step()
      // Other tests of the process share these threads, and have deadlines.
      await Task.yield()
    }
  }

  func fail(_ what: String) { self.broken = self.broken ?? what }

  func note(_ what: @autoclosure () -> String) {
    self.trace?.append("\(self.now.milliseconds) ms: \(what())")
  }

  // MARK: - Steps

  private func step() async {
    self.steps += 1
    self.advance(by: .milliseconds(self.random.number(1...(self.random.oneIn(10) ? 12_000 : 700))))
    self.kernel.batch = self.random.oneIn(3) ? self.random.number(1...3) : .max
    switch self.random.number(0...99) {
    case 0...44: self.happen()
    case 45...59: self.makeNoise()
    case 60...63: self.overrun()
    case 64, 65: self.failKernel()
    case 66: if self.random.oneIn(3) { await self.restart() }
    case 67: self.suspendMachine()
    case 68...84: self.registerFlows()
    case 85...88: self.removeFlow()
    case 89...91: self.reconnect()
    default: break
    }
    if self.random.oneIn(5) { self.interfere() }
    self.turn()
    await self.readClients()
  }

  private func advance(by pause: Duration) {
    let target = self.now.advanced(by: pause)
    var wakeUps = 0
    while self.broken == nil {
      let message = self.daemon.listens ? self.kernel.nextMessage : nil
      let dues = [self.daemon.deadline, message].compactMap { $0 }
      guard let due = dues.min(), due <= target else { break }
      self.kernel.now = max(due, self.now)
      self.turn()
      wakeUps += 1
      if wakeUps > 1000 { self.fail("D7: connd wakes again and again") }
    }
    self.kernel.now = target
    self.turn()
  }

  /// connd does everything that is due.
  func turn() {
    repeat {
      self.kernel.expectQuestions()
      self.daemon.turn()
      self.look()
    } while self.broken == nil && self.daemon.listens
      && (self.kernel.nextMessage.map { $0 <= self.now } ?? false)
    // Work that became due while it was busy.
    if let due = self.daemon.deadline, due <= self.now {
      self.daemon.turn()
      self.look()
    }
    self.check()
  }

  private var delay: Duration {
    self.random.oneIn(3) ? .milliseconds(self.random.number(1...1500)) : .zero
  }

  private func happen() {
    for _ in 0..<(self.random.oneIn(3) ? self.random.number(2...4) : 1) { self.happenOnce() }
  }

  private func happenOnce() {
    self.record.isCalm = false
    self.kernel.change(delay: self.delay, isDoubled: self.random.oneIn(10)) { network in
      network.happen(using: &self.random)
    }
    self.observe()
  }

  private func makeNoise() {
    let probes = self.configuration.destinations.all
    let probe =
      self.random.oneIn(2) ? probes[0] : probes[self.configuration.destinations.ipv4.count]
    self.kernel.change(delay: self.delay, isDoubled: self.random.oneIn(5)) { network in
      // One probe at a time: with two captured ones, the majority is not the internet's any more.
      network.noise(probe, using: &self.random)
    }
    self.note("noise")
    self.observe()
  }

  private func overrun() {
    if self.random.oneIn(2) { self.happen() }
    self.note("overrun")
    self.kernel.overrun(keeping: self.random.number(0...2))
  }

  private func failKernel() {
    self.record.isCalm = false
    self.note("the kernel fails")
    self.kernel.failsAfter = self.random.oneIn(3) ? 0 : self.random.number(1...12)
    if self.random.oneIn(2) { self.happen() }
  }

  /// An event between two queries of the next step: its first answers are stale.
  private func interfere() {
    let changes = self.random.number(1...2)
    self.kernel.interference = (
      self.random.number(1...15),
      { [unowned self] in
        self.note("meanwhile")
        for _ in 0..<changes { self.happenOnce() }
      }
    )
  }

  /// The machine sleeps and wakes up (I6), in the simulation's time.
  private func suspendMachine() {
    self.record.isCalm = false
    let slept = Duration.seconds(self.random.pick([5, 60, 600]))
    self.note("slept \(slept)")
    if slept >= .seconds(300) {
      self.record.longSleepAt = self.now
      for index in self.flows.indices { self.flows[index].excuse("the machine slept") }
    }
    self.record.lastReasonToAsk = self.now
    guard self.daemon.isOpen else { return }
    let before = Set(self.flows.filter { $0.made?.path.status == .satisfied }.map(\.key))
    self.daemon.resume(after: slept)
    self.turn()
    guard self.daemon.isOpen, slept >= .seconds(300) else { return }
    for flow in self.flows where before.contains(flow.key) && !flow.isOver && !flow.isLocal {
      self.fail("I6: flow \(flow.key) outlives a long sleep")
    }
  }
}

// MARK: - connd and its clients

extension Simulation {
  private func startDaemon() {
    self.daemon.start()
    for index in self.streams.indices { self.streams[index].connect(to: self.daemon.store) }
    for index in self.guards.indices {
      self.guards[index].mailbox = GuardMailbox(self.guards[index].number)
      self.daemon.admit(self.guards[index].mailbox)
    }
    self.turn()
  }

  /// connd dies, and restarts with its stored history, if that was not lost.
  fileprivate func restart() async {
    await self.readGuards(all: true)
    let hasHistory = !self.random.oneIn(4)
    self.note(hasHistory ? "restart" : "restart without the history")
    self.record.restarted(hasHistory: hasHistory)
    self.record.isRegistering = true
    // The history is stored as bytes. Not all of them are parsed, because that takes long and they
    // are alike.
    let past = self.daemon.store.past
    let read = past.suffix(8).compactMap { try? Published(decoding: $0.message) }
    if read.map(\.change) != past.suffix(8).map(\.change) {
      self.fail("D5: read otherwise than written")
    }
    self.kernel.interference = nil
    if self.random.oneIn(2) { self.happen() }
    for index in self.streams.indices { self.streams[index].disconnect(from: nil) }
    self.daemon = Daemon(
      self.configuration, past: hasHistory ? past.dropLast(read.count) + read : [],
      after: hasHistory ? 0 : UInt64(self.now.milliseconds) * 1000, self.kernel, self.mutation,
      self.writer)
    self.startDaemon()
    self.registerAgain()
  }

  /// The clients of `Guard` register their flows again, with their last knowledge.
  private func registerAgain() {
    self.flows.removeAll(where: \.isOver)
    for index in self.flows.indices { self.flows[index].isRegisteredAgain(in: self.kernel.network) }
    let registrations = self.flows.map { flow in
      FlowTable.Registration(
        key: flow.key, flow: flow.flow, knownPath: flow.made == nil ? nil : flow.told,
        sinceGeneration: self.record.lastGeneration)
    }
    self.record.isRegistering = false
    self.register(registrations)
    if self.mutation == .restartDestroys {
      self.daemon.destroyAll()
      self.turn()
    }
  }

  fileprivate func registerFlows() {
    var registrations: [FlowTable.Registration] = []
    for _ in 0..<self.random.number(1...3) where self.flows.count(where: { !$0.isOver }) < 15 {
      guard let flow = self.randomFlow() else { continue }
      let client = self.random.number(0...self.guards.count - 1)
      let key = self.guards[client].nextKey()
      self.flows.append(GuardedFlow(key, flow))
      registrations.append(.init(key: key, flow: flow))
    }
    if !registrations.isEmpty { self.register(registrations) }
  }

  private func register(_ registrations: [FlowTable.Registration]) {
    self.note(
      "registers \(registrations.map { "\($0.key.mailbox)/\($0.key.id) \($0.flow.summary)" })"
    )
    self.record.lastReasonToAsk = self.now
    self.daemon.keys = self.flows.filter { !$0.isLocal || self.mutation == .sparesNobody }.map(
      \.key)
    self.kernel.expectQuestions()
    self.daemon.register(registrations)
    self.look()
    self.turn()
  }

  private func randomFlow() -> Flow? {
    let network = self.kernel.network
    let links = network.uplinks
    let neighbour = links.randomElement(using: &self.random)?.host(.ipv4, 99).address
    let far = IPAddress.bytes([203, 0, 113, UInt8(self.random.number(1...3))])
    let far6 = IPAddress.bytes(
      [0x20, 0x01, 0x0d, 0xb8, 0xff] + [UInt8](repeating: 0, count: 10) + [9])
    let address = self.random.pick(
      [
        far, far, far, far6, far6, ModelNetwork.elsewhere, neighbour ?? far,
        .bytes([127, 0, 0, 1]),
      ])
    var destination = Destination(address)
    if !self.random.oneIn(3) {
      self.lastPort = self.lastPort < 60_000 ? self.lastPort + 1 : 40_000
      destination.transport = Transport(
        Transport.tcp, localPort: self.lastPort, remotePort: self.random.pick([443, 443, 80]))
    }
    if self.random.oneIn(12) {
      destination.outLink = links.randomElement(using: &self.random)?.index
    }
    let path = network.path(to: destination)
    guard path.status == .satisfied || self.random.oneIn(6) else { return nil }
    let isConnected = path.status == .satisfied && !self.random.oneIn(4)
    var local = isConnected ? path.source : nil
    // A socket bound to an address of a block that is local as a whole.
    if isConnected, address.family == .ipv4, !address.isLoopback, network.local != nil,
      self.random.oneIn(6)
    {
      local = .bytes([198, 18, 0, 7])
    }
    let flow = Flow(destination, local: local, forbidsExpensive: self.random.oneIn(6))
    if flow.namesSocket {
      destination.source = local
      self.kernel.connect(destination, self.randomKind(besides: path.chain.first))
    }
    return flow
  }

  /// Half of all connections are active, and half of these take another way than the lookup's.
  private func randomKind(besides link: PathLink?) -> ModelConnection.Kind {
    let network = self.kernel.network
    let others = network.links.filter { other in
      [.wired, .wifi, .cellular].contains(other.sort) && other.master == nil
        && other.index != link?.index && network.link(other.index)?.state == .up
    }
    let isMarked = self.random.oneIn(2)
    return ModelConnection.Kind(
      isActive: !self.random.oneIn(2),
      markedLink: isMarked ? others.randomElement(using: &self.random)?.index : nil,
      hearsCopies: self.random.oneIn(4),
      roundTrip: .milliseconds(self.random.pick([1, 20, 20, 60, 300])))
  }

  fileprivate func removeFlow() {
    guard let flow = self.flows.randomElement(using: &self.random), !flow.isOver else { return }
    self.daemon.remove(flow.key)
    if let port = flow.port { self.kernel.close(port) }
    self.flows.removeAll { $0.key == flow.key }
    for index in self.guards.indices where self.guards[index].number == flow.key.mailbox {
      self.guards[index].forget(flow.key.id)
    }
  }

  /// A client of the stream reconnects, or goes away for a while.
  fileprivate func reconnect() {
    let index = self.random.number(0...self.streams.count - 1)
    if self.streams[index].isConnected {
      self.streams[index].disconnect(from: self.daemon.store)
    } else {
      self.streams[index].connect(to: self.daemon.store, asNew: self.random.oneIn(5))
    }
  }

  fileprivate func readClients() async {
    for index in self.streams.indices where self.steps % self.streams[index].laziness == 0 {
      if let wrong = self.streams[index].read(from: self.daemon.store) {
        self.fail(wrong)
      }
    }
    await self.readGuards()
  }

  private func readGuards(all: Bool = false) async {
    for index in self.guards.indices where all || self.steps % self.guards[index].laziness == 0 {
      guard self.record.waiting.remove(self.guards[index].number) != nil else { continue }
      if let wrong = await self.guards[index].take() { self.fail(wrong) }
      for flow in self.flows where flow.key.mailbox == self.guards[index].number {
        let told = self.guards[index].told[flow.key.id]
        if told != .some(flow.isOver ? .none : flow.told) {
          self.fail("I9: what the client was told of flow \(flow.key) is not what became of it")
        }
      }
    }
    // Both have received its end.
    self.flows.removeAll { $0.isOver && !self.record.waiting.contains($0.key.mailbox) }
  }
}

extension Flow {
  fileprivate var summary: String {
    "to \(self.destination.address) from \(self.local.map { "\($0)" } ?? "?")"
  }
}

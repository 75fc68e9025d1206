import Connectivity
import ConnectivityRules
import TestKit

@testable import ConndServer

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
  var lastPort: UInt16 = 40_000
  private(set) var steps = 0
  private(set) var broken: String?
  /// The trace, or `nil` if it is not wanted.
  private(set) var trace: [String]?

  var now: Instant { self.kernel.now }

  /// The recorder, or `nil` for none.
  let writer: Writer?

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
    self.kernel.tracksConnections = seed % 2 == 0
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

  func happen() {
    for _ in 0..<(self.random.oneIn(3) ? self.random.number(2...4) : 1) { self.happenOnce() }
  }

  private func happenOnce() {
    self.record.isCalm = false
    let (delay, isDoubled) = (self.delay, self.random.oneIn(10))
    let isAnnounced = delay == .zero && self.random.oneIn(4)
    self.kernel.change(delay: delay, isAnnounced: isAnnounced, isDoubled: isDoubled) { network in
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
    for index in self.flows.indices { self.flows[index].isTouched(at: self.now) }
    let before = Set(self.flows.filter { $0.made?.path.status == .satisfied }.map(\.key))
    self.daemon.resume(after: slept)
    self.turn()
    guard self.daemon.isOpen, slept >= .seconds(300) else { return }
    for flow in self.flows where before.contains(flow.key) && !flow.isOver && !flow.isLocal {
      self.fail("I6: flow \(flow.key) outlives a long sleep")
    }
  }
}

import Connectivity
import TestKit
import TestTraits
import Testing

@testable import ConnectivityRules

/// Properties of all histories. A failure names the seed that repeats it.
@Suite("Invalidations of random histories", .blocking)
struct RandomInvalidationTests {
  @Test("I1 I2 I3 I4 I5 I9 I10 K8 hold in random histories", arguments: [0, 1] as [UInt64])
  func histories(half: UInt64) {
    for seed in 0..<1200 {
      var history = InvalidationHistory(seed: half << 32 | UInt64(seed))
      for _ in 0..<8 {
        history.step()
        if let broken = history.broken {
          Issue.record("seed \(history.seed) at \(history.now.text): \(broken)")
          return
        }
      }
    }
  }
}

/// A kernel, a daemon, and flows that are registered now and then.
private struct InvalidationHistory {
  let seed: UInt64
  private(set) var now = Instant(milliseconds: 0)
  private(set) var broken: String?
  private var random: SeededGenerator
  private var scene = Scene.anything
  private var daemon: TestDaemon
  private var flows: [FlowOracle] = []
  /// The category under which subscribers of the stream believe that their channels were made.
  private var believed: NetworkCategory?

  init(seed: UInt64) {
    self.seed = seed
    self.random = SeededGenerator(seed: seed)
    let soft = InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)
    self.daemon = TestDaemon(
      ChangeDetector(
        preferred: seed % 3 == 0 ? .ipv6 : .ipv4,
        policy: seed % 5 == 0 ? soft : InvalidationPolicy()))
    for _ in 0..<Int.random(in: 0...6, using: &self.random) {
      self.scene.happen(using: &self.random)
    }
    let scene = self.scene
    self.check { daemon, now in daemon.read(scene, [], on: .start, at: now) }
    self.register()
  }

  /// Plays one batch at a random instant, and the deadlines before it.
  mutating func step() {
    let pause = Int.random(in: 1...(self.random.oneIn(8) ? 12_000 : 900), using: &self.random)
    let next = self.now.advanced(by: .milliseconds(pause))
    while let due = self.nextDeadline, due <= next, self.broken == nil {
      self.now = due
      self.check { daemon, now in daemon.readAgain(at: now) }
    }
    self.now = next
    guard self.broken == nil else { return }
    let isLost = self.daemon.isUnknown
    if self.random.oneIn(12) {
      self.check { daemon, now in daemon.loseKernel(at: now) }
    } else {
      let events = self.happen()
      let scene = self.scene
      let slept: Duration? =
        self.random.oneIn(12) ? .seconds(Int.random(in: 1...600, using: &self.random)) : nil
      let trigger: ReadTrigger =
        isLost ? .kernelBack : slept.map { .resumed($0) } ?? .events(events)
      self.check(slept: isLost ? nil : slept) { daemon, now in
        daemon.read(scene, isLost ? [] : events, on: trigger, at: now)
      }
    }
    self.register()
  }

  private var nextDeadline: Instant? {
    ([self.daemon.deadline] + self.flows.map(\.tracker.deadline)).compactMap { $0 }.min()
  }

  private mutating func happen() -> [KernelEvent] {
    let before = self.scene
    for _ in 0..<Int.random(in: 0...3, using: &self.random) {
      self.scene.happen(using: &self.random)
    }
    let bounce = self.random.oneIn(4) ? self.scene.bounce(using: &self.random) : []
    return bounce + self.scene.events(since: before)
  }

  private mutating func register() {
    guard self.broken == nil, !self.daemon.isUnknown, self.flows.count < 8 else { return }
    let family = self.random.pick(AddressFamily.allCases)
    let index = self.random.pick(self.scene.links).link.index
    let aim = self.random.pick(
      [.elsewhere, .elsewhere, .neighbour(index), .through(index), .ruled(index), .local]
        as [Scene.Aim])
    let flow = FlowOracle(
      aim, family, self.daemon, self.daemon.maker.policy, at: self.now, broken: &self.broken)
    if let flow { self.flows.append(flow) }
  }

  // MARK: - Invariants after every reading

  private mutating func check(
    slept: Duration? = nil, _ read: (inout TestDaemon, Instant) -> ChangeDetector.Step
  ) {
    let before = self.daemon.maker.snapshot
    let step = read(&self.daemon, self.now)
    let told = step.changes.compactMap(\.invalidation)
    self.broken =
      self.wrong(step, since: before) ?? self.wrong(told, slept: slept != nil)
      ?? self.wrongCategory(told) ?? self.forgotten() ?? self.repeated()
    for index in self.flows.indices where self.broken == nil {
      let flow = self.flows[index]
      let reading = self.daemon.reading(
        of: flow.tracker.path, from: flow.tracker.source, to: flow.aim, flow.family)
      self.broken = self.flows[index].look(
        at: reading, slept: slept, beside: told, self.daemon.maker.policy, at: self.now
      ).map { "\(flow.aim) \(flow.family): \($0)" }
    }
    self.flows.removeAll(where: \.isOver)
  }

  /// Once nothing is in doubt, a subscriber of the stream alone knows if the category is another
  /// (I5, I9).
  private mutating func wrongCategory(_ told: [Invalidation]) -> String? {
    let category = self.daemon.maker.snapshot.status.category
    guard category != .unknown else { return nil }
    let severity = told.first { $0.scope == .everything }?.severity
    if self.believed == nil || severity.map({ $0 > .advise }) ?? false { self.believed = category }
    if severity == .advise, category != self.believed, self.daemon.deadline == nil {
      return "I9: only advised, and nothing will follow"
    }
    guard self.daemon.deadline == nil, category != self.believed else { return nil }
    return "I5: \(category), and those on the stream believe \(String(describing: self.believed))"
  }

  /// Once nothing is in doubt, the tracked paths are the present ones.
  private func forgotten() -> String? {
    guard self.daemon.deadline == nil, !self.daemon.isUnknown else { return nil }
    for family in AddressFamily.allCases {
      let present = self.daemon.scene.best(family).path
      let followed = self.daemon.maker.followed.filter { $0.family == family }
      if present.status == .satisfied, followed.count != 1 {
        return "follows \(followed.map(\.path))"
      }
      if followed.contains(where: { $0.path.chain.first?.index != present.chain.first?.index }) {
        return "follows a path that is over: \(followed.map(\.path))"
      }
    }
    return nil
  }

  /// Checks the generations, and what follows a transition.
  private func wrong(_ step: ChangeDetector.Step, since before: ConnectivitySnapshot) -> String? {
    for (index, change) in step.changes.enumerated() {
      if change.generation != before.generation + UInt64(index) + 1 { return "I9: a generation" }
      if change.snapshot != nil, index > 0 { return "I9: a change after an invalidation" }
    }
    if self.daemon.maker.snapshot.generation != before.generation + UInt64(step.changes.count) {
      return "I9: a generation that nobody was told"
    }
    if let deadline = self.daemon.deadline, deadline <= self.now { return "D7: a stale deadline" }
    if case .transition(let transition)? = step.changes.first, transition.from != .unknown,
      transition.to != .unknown,
      !step.changes.contains(where: { $0.invalidation?.reason == .categoryChanged })
    {
      return "I9: a transition without categoryChanged"
    }
    return nil
  }

  /// Checks that invalidations are in order and unique.
  private func wrong(_ told: [Invalidation], slept: Bool) -> String? {
    func width(_ invalidation: Invalidation) -> Int {
      let scope = invalidation.scope
      if scope == .everything { return 3 }
      return scope.localAddresses != nil ? 0 : scope.family != nil ? 1 : 2
    }
    if told.map(width) != told.map(width).sorted() { return "I9: a wide scope before a narrow one" }
    let wide = told.filter { $0.scope == .everything }
    if wide.count > 1 { return "I9: everything twice" }
    if told.contains(where: { ($0.reason == .categoryChanged) != ($0.scope == .everything) }) {
      return wide.map(\.reason) == [.resumed] ? nil : "I9: a category of less than everything"
    }
    for (index, first) in told.enumerated() {
      for second in told[(index + 1)...]
      where first.reason == second.reason && first.scope == second.scope {
        return "told twice: \(first)"
      }
    }
    return nil
  }

  /// Checks that the same reading again changes nothing.
  private func repeated() -> String? {
    var again = self.daemon
    let step = again.readAgain(at: self.now)
    return step.changes.isEmpty ? nil : "told again: \(step.changes)"
  }
}

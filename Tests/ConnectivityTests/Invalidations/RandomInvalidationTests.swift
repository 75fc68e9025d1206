import Testing

@testable import Connectivity
import TestKit

/// What holds of every history, whatever happens: a failure names the seed that repeats it.
@Suite("Invalidations of random histories")
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

/// A kernel, a change maker, and flows that are registered now and then.
private struct InvalidationHistory {
  let seed: UInt64
  private(set) var now = Instant(milliseconds: 0)
  private(set) var broken: String?
  private var random: SeededGenerator
  private var scene = Scene.anything
  private var maker: ChangeMaker
  private var flows: [WatchedFlow] = []
  private var deadline: Instant?
  private var isUnknown = false

  init(seed: UInt64) {
    self.seed = seed
    self.random = SeededGenerator(seed: seed)
    let soft = InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)
    self.maker = ChangeMaker(
      preferred: seed % 3 == 0 ? .ipv6 : .ipv4, policy: seed % 5 == 0 ? soft : InvalidationPolicy())
    for _ in 0..<Int.random(in: 0...6, using: &self.random) {
      self.scene.happen(using: &self.random)
    }
    self.read(.start)
    self.register()
  }

  /// One batch at a random instant, and the deadlines before it.
  mutating func step() {
    let pause = Int.random(in: 1...(self.random.oneIn(8) ? 12_000 : 900), using: &self.random)
    let next = self.now.advanced(by: .milliseconds(pause))
    while let due = self.nextDeadline, due <= next, self.broken == nil {
      self.now = due
      self.read(.timer)
    }
    self.now = next
    guard self.broken == nil else { return }
    if self.random.oneIn(12) {
      self.isUnknown = true
      self.read(.kernelLost("test"))
    } else if self.isUnknown || self.random.oneIn(12) {
      _ = self.happen()
      let occasion: Occasion =
        self.isUnknown
        ? .kernelBack : .resumed(.seconds(Int.random(in: 1...600, using: &self.random)))
      self.isUnknown = false
      self.read(occasion)
    } else {
      self.read(.events(self.happen()))
    }
    self.register()
  }

  private var nextDeadline: Instant? {
    ([self.deadline] + self.flows.map(\.tracker.deadline)).compactMap { $0 }.min()
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
    guard !self.isUnknown, self.flows.count < 8 else { return }
    let family = random.pick(AddressFamily.allCases)
    let index = random.pick(self.scene.links).link.index
    let aim = random.pick([.elsewhere, .elsewhere, .neighbour(index), .local] as [Scene.Aim])
    let reading = self.scene.reading(of: nil, from: nil, to: aim, family)
    guard reading.path.status == .satisfied else { return }
    self.flows.append(WatchedFlow(aim, family, reading))
  }

  // MARK: - What holds after every reading

  private mutating func read(_ occasion: Occasion) {
    let before = self.maker.snapshot
    let step = self.update(on: occasion)
    self.deadline = step.deadline
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    let circumstances = FlowTracker.Circumstances(
      categoryChange: step.categoryChange, slept: slept)
    let told = step.changes.compactMap(\.invalidation)

    self.broken =
      self.wrong(step, since: before) ?? self.wrong(told, slept: slept != nil) ?? self.repeated()
    for index in self.flows.indices where self.broken == nil {
      let reading = self.reading(of: self.flows[index])
      self.broken = self.flows[index].look(
        at: reading, circumstances, beside: told, self.maker.policy, at: self.now)
    }
    self.flows.removeAll(where: \.isOver)
  }

  private func reading(of flow: WatchedFlow) -> FlowReading {
    guard !self.isUnknown else { return FlowReading(.unknown) }
    return self.scene.reading(
      of: flow.tracker.path, from: flow.tracker.source, to: flow.aim, flow.family)
  }

  private mutating func update(on occasion: Occasion) -> ChangeMaker.Step {
    let reading =
      self.isUnknown ? ChangeMaker.Reading(.unknown) : self.scene.reading(for: self.maker)
    return self.maker.update(
      to: reading, on: occasion, at: self.now,
      time: Timestamp(microseconds: Int64(self.now.milliseconds) * 1000))
  }

  /// The generations, and what follows a transition.
  private func wrong(_ step: ChangeMaker.Step, since before: Snapshot) -> String? {
    for (index, change) in step.changes.enumerated() {
      if change.generation != before.generation + UInt64(index) + 1 { return "I9: a generation" }
      if change.snapshot != nil, index > 0 { return "I9: a change after an invalidation" }
    }
    if self.maker.snapshot.generation != before.generation + UInt64(step.changes.count) {
      return "I9: a generation that nobody was told"
    }
    if let deadline = step.deadline, deadline <= self.now { return "D7: a stale deadline" }
    if case .transition(let transition)? = step.changes.first, transition.from != .unknown,
      transition.to != .unknown,
      !step.changes.contains(where: { $0.invalidation?.reason == .categoryChanged })
    {
      return "I9: a transition without categoryChanged"
    }
    return nil
  }

  /// The order of invalidations, and that none is there twice.
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

  /// The same reading again says nothing.
  private func repeated() -> String? {
    var again = self
    let step = again.update(on: .timer)
    return step.changes.isEmpty ? nil : "told again: \(step.changes)"
  }
}

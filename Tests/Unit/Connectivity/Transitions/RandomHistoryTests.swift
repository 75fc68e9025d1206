import Connectivity
import TestKit
import TestTraits
import Testing

@testable import ConnectivityRules

/// Properties of all histories. A failure names the seed that repeats it.
@Suite("Random histories", .blocking)
struct RandomHistoryTests {
  @Test("T1 T2 T3 T4 hold in random histories", arguments: [0, 1] as [UInt64])
  func histories(half: UInt64) {
    for seed in 0..<1000 {
      var history = History(seed: half << 32 | UInt64(seed))
      for _ in 0..<7 {
        if let broken = history.step() {
          Issue.record("seed \(history.seed) at \(history.now.milliseconds) ms: \(broken)")
          return
        }
      }
    }
  }
}

/// A network, a transition detector, and a subscriber that received every change.
private struct History {
  let seed: UInt64
  private(set) var now = Instant(milliseconds: 0)
  private var random: SeededGenerator
  private var scene = Scene.anything
  private var maker: TransitionDetector
  private var subscriber: ConnectivitySnapshot

  init(seed: UInt64) {
    self.seed = seed
    self.random = SeededGenerator(seed: seed)
    self.maker = TransitionDetector(preferred: seed % 3 == 0 ? .ipv6 : .ipv4)
    self.subscriber = self.maker.snapshot
    _ = self.read(.start)
  }

  /// Plays one batch at a random instant. Returns a description of the fault, or `nil` without
  /// one.
  mutating func step() -> String? {
    let next = self.now.advanced(
      by: .milliseconds(
        Int.random(in: 1...(self.random.oneIn(8) ? 12_000 : 1_500), using: &self.random)))
    self.now = next
    return self.random.oneIn(10) ? self.loseKernel() : self.batch()
  }

  private mutating func loseKernel() -> String? {
    let lost = self.told(
      self.maker.update(to: .unknown, on: .kernelLost("test"), time: self.time))
    if let broken = lost.broken { return broken }
    if self.maker.snapshot.status.category != .unknown { return "K8: not unknown" }
    return self.read(.kernelBack).broken
  }

  /// Changes a link, an address or a route, and returns the messages about it.
  private mutating func happen() -> [KernelEvent] {
    let before = self.scene
    guard self.random.oneIn(7) else {
      self.scene.happen(using: &self.random)
      return self.scene.events(since: before)
    }
    let place = Int.random(in: 0..<self.scene.links.count, using: &self.random)
    let family = self.random.pick(AddressFamily.allCases)
    let isTentative = self.scene.links[place].link.isTentative[family] == true
    self.scene.links[place].link.isTentative[family] = !isTentative
    return self.scene.links[place].link.added(family)
  }

  private mutating func batch() -> String? {
    let before = self.maker.snapshot.status
    let shown = self.scene.observation[before.family]
    let isNoise = self.random.oneIn(4)
    var events: [KernelEvent] = []
    var went = false
    for _ in 0..<Int.random(in: 1...5, using: &self.random) {
      if isNoise || self.random.oneIn(3) {
        events += self.scene.noise(using: &self.random)
      } else if self.random.oneIn(3) {
        let bounce = self.scene.bounce(using: &self.random)
        events += bounce
        went = went || bounce.contains { $0.indicatesLoss(shown) }
      } else {
        events += self.happen()
        went = went || !self.scene.holds(before.path, before.family)
      }
    }
    if self.random.oneIn(20) { events.append(.overrun) }

    let isSame = self.scene.observation[before.family].path == before.path
    let unchanged = self.maker
    let (change, broken) = self.read(.events(events))
    if let broken { return broken }

    if isNoise, change != nil { return "T3: noise publishes \(events)" }
    if before.path.status == .satisfied, went, isSame {
      guard case .transition(let transition)? = change else {
        let isCarriedOn = before != self.maker.snapshot.status && change != nil
        return isCarriedOn ? nil : "T2: swallowed \(events)"
      }
      if !transition.bounced, transition.to == transition.from { return "T2: no bounce" }
    }
    var permuted = unchanged
    let other = permuted.update(
      to: self.scene.observation, on: .events(events.shuffled(using: &self.random)),
      time: self.time)
    if Self.kind(other) != Self.kind(change) { return "the order matters: \(events)" }
    if permuted.snapshot != self.maker.snapshot { return "the order matters to the status" }
    return nil
  }

  private var time: WallTime { WallTime(microseconds: Int64(self.now.milliseconds) * 1000) }

  // MARK: - Invariants after every reading

  private mutating func read(_ trigger: ReadTrigger) -> (
    change: ConnectivityChange?, broken: String?
  ) {
    let observation = self.scene.observation
    let before = self.maker.snapshot
    let (change, broken) = self.told(
      self.maker.update(to: observation, on: trigger, time: self.time))
    if let broken { return (change, broken) }

    let status = self.maker.snapshot.status
    for family in AddressFamily.allCases where status[family] != observation[family].path {
      return (change, "T1: \(status[family]) for \(observation[family].path)")
    }
    if change == nil, before != self.maker.snapshot { return (change, "changed without a word") }

    var again = self.maker
    let repeated = again.update(
      to: observation, on: .events(self.scene.noise(using: &self.random)),
      time: self.time)
    if repeated != nil { return (change, "T4: the same reading publishes again") }
    return (change, nil)
  }

  /// Sends the change to the subscriber, which must then know the published state.
  private mutating func told(_ change: ConnectivityChange?) -> (
    change: ConnectivityChange?, broken: String?
  ) {
    guard let change else {
      return (nil, self.subscriber == self.maker.snapshot ? nil : "the subscriber was not told")
    }
    let before = self.subscriber
    guard let snapshot = change.snapshot else { return (change, "no transition and no path") }
    self.subscriber = snapshot
    if change.generation != before.generation + 1 {
      return (change, "a generation is not the next")
    }
    if self.subscriber != self.maker.snapshot { return (change, "the subscriber knows otherwise") }
    switch change {
    case .path:
      if before.status.category != snapshot.status.category {
        return (change, "no transition")
      }
      if before.since != snapshot.since { return (change, "since another time") }
    case .transition(let transition):
      if transition.from != before.status.category { return (change, "from what was not told") }
      if transition.to != snapshot.status.category { return (change, "to what is not so") }
      if transition.from == transition.to, !transition.bounced { return (change, "to the same") }
      if snapshot.since != self.time { return (change, "since another time") }
    case .invalidation, .dns: break
    }
    return (change, nil)
  }

  private static func kind(_ change: ConnectivityChange?) -> String {
    switch change {
    case nil: "nothing"
    case .path: "path"
    case .invalidation: "invalidation"
    case .dns: "dns"
    case .transition(let transition):
      "\(transition.from)>\(transition.to) \(transition.bounced)"
    }
  }
}

import Connectivity
import TestKit
import Testing

@testable import ConnectivityRules

/// Links that lose their carrier, and how long their gains are held back.
@Suite("Flap damper")
struct FlapDamperTests {
  private static let wifi = TestLink.wifi.link
  private static let lost = TestLink.wifi.withoutCarrier.link

  /// A damper that knows a link that is up at 0 s.
  private static func knowing(
    _ link: Link = wifi, _ policy: FlapPolicy = FlapPolicy()
  ) -> FlapDamper {
    var damper = FlapDamper(policy)
    damper.observe(link, isPartOfPath: true, at: Instant(milliseconds: 0))
    return damper
  }

  /// The hold of each gain in milliseconds, for a link lost at each of the given seconds and back
  /// 100 ms later.
  private static func holds(_ losses: [Double], _ policy: FlapPolicy = FlapPolicy()) -> [Int] {
    var damper = Self.knowing(Self.wifi, policy)
    return losses.map { second in
      let lost = Int((second * 1000).rounded())
      damper.observe(Self.lost, isPartOfPath: true, at: Instant(milliseconds: lost))
      #expect(damper.held(at: Instant(milliseconds: lost)) == [])
      return Self.gain(&damper, at: lost + 100)
    }
  }

  private static func gain(_ damper: inout FlapDamper, _ link: Link = wifi, at time: Int) -> Int {
    let now = Instant(milliseconds: time)
    damper.observe(link, isPartOfPath: true, at: now)
    guard let end = damper.deadline(after: now) else {
      #expect(damper.held(at: now) == [])
      return 0
    }
    let hold = end.milliseconds - time
    #expect(damper.held(at: Instant(milliseconds: end.milliseconds - 1)) == [link.name])
    #expect(damper.held(at: end) == [])
    #expect(damper.deadline(after: end) == nil)
    return hold
  }

  @Test("T1 from the third loss on, gains are held for 0.25, 0.5, 1 and 1 seconds")
  func holds() {
    #expect(Self.holds([1, 2, 3, 4, 6, 9, 14, 20]) == [0, 0, 250, 500, 1000, 1000, 1000, 1000])
  }

  @Test("T1 losses, memory and holds are configurable; zero disables holds")
  func policy() {
    var policy = FlapPolicy()
    (policy.losses, policy.memory) = (2, .seconds(3))
    (policy.firstHold, policy.longestHold) = (.milliseconds(100), .milliseconds(300))
    #expect(Self.holds([1, 3, 4, 5, 9], policy) == [0, 100, 200, 300, 0])
    policy.firstHold = .zero
    #expect(Self.holds([1, 2, 3, 4, 5, 6], policy) == [0, 0, 0, 0, 0, 0])
  }

  @Test(
    "T1 the third loss counts within ten seconds",
    arguments: [
      ([1, 5, 11], [0, 0, 250]), ([1, 5, 11.2], [0, 0, 0]), ([1, 5, 11.2, 12], [0, 0, 0, 250]),
    ])
  func window(losses: [Double], holds: [Int]) {
    #expect(Self.holds(losses) == holds)
  }

  @Test(
    "T1 ten seconds without a loss reset the count",
    arguments: [([1, 2, 3, 12.9], [0, 0, 250, 500]), ([1, 2, 3, 13], [0, 0, 250, 0])])
  func forgetting(losses: [Double], holds: [Int]) {
    #expect(Self.holds(losses) == holds)
  }

  @Test("T1 a gain ten seconds after the last loss is not held")
  func lateGain() {
    for (gain, hold) in [(12_900, 250), (13_000, 0), (60_000, 0)] {
      var damper = Self.knowing()
      for second in 1...3 {
        damper.observe(Self.lost, isPartOfPath: true, at: Instant(milliseconds: second * 1000))
        if second < 3 { _ = Self.gain(&damper, at: second * 1000 + 100) }
      }
      #expect(Self.gain(&damper, at: gain) == hold)
    }
  }

  @Test("T1 a loss during a hold ends it and counts; the next hold starts with the next gain")
  func lossDuringHold() {
    var damper = Self.knowing()
    for second in 1...3 {
      damper.observe(Self.lost, isPartOfPath: true, at: Instant(milliseconds: second * 1000))
      _ = Self.gain(&damper, at: second * 1000 + 100)
    }
    damper.observe(Self.lost, isPartOfPath: true, at: Instant(milliseconds: 3200))
    #expect(damper.held(at: Instant(milliseconds: 3200)) == [])
    #expect(damper.deadline(after: Instant(milliseconds: 3200)) == nil)
    #expect(Self.gain(&damper, at: 3300) == 500)
  }

  @Test("T1 repeated states and noise do not change a hold")
  func same() {
    var damper = Self.knowing()
    for second in 1...3 {
      damper.observe(Self.lost, isPartOfPath: true, at: Instant(milliseconds: second * 1000))
      _ = Self.gain(&damper, at: second * 1000 + 100)
    }
    let noise = Link(index: 3, name: "wlan0", flags: [.up])
    for link in [Self.wifi, noise] {
      damper.observe(link, isPartOfPath: false, at: Instant(milliseconds: 3200))
      #expect(damper.deadline(after: Instant(milliseconds: 3200)) == Instant(milliseconds: 3350))
    }
  }

  @Test("T1 a link recreated under another index is recognised by its name")
  func remade() {
    for isTold in [true, false] {
      var damper = Self.knowing()
      var holds: [Int] = []
      for number in 1...4 {
        let now = Instant(milliseconds: number * 1000)
        let (old, new) = (UInt32(number + 2), UInt32(number + 3))
        if isTold {
          damper.observeRemoval(of: TestLink.wifi.with { $0.index = old }.link, at: now)
        }
        let link = TestLink.wifi.with { $0.index = new }.link
        holds.append(Self.gain(&damper, link, at: number * 1000 + (isTold ? 100 : 0)))
      }
      #expect(holds == [0, 0, 250, 500])
    }
  }

  @Test("T1 the removal of an older index of the link is ignored")
  func staleRemoval() {
    var damper = Self.knowing(TestLink.wifi.with { $0.index = 9 }.link)
    for second in 1...5 {
      damper.observeRemoval(of: Self.wifi, at: Instant(milliseconds: second * 1000))
    }
    damper.observe(
      TestLink.wifi.with { $0.index = 9 }.link, isPartOfPath: true, at: Instant(milliseconds: 6000))
    #expect(damper.deadline(after: Instant(milliseconds: 6000)) == nil)
  }

  @Test("T1 losses merged into one message are counted by the kernel's counter")
  func mergedLosses() {
    func counting(_ count: UInt32) -> Link {
      TestLink.wifi.with { $0.carrierDownCount = count }.link
    }
    for (counts, holds) in [
      ([1, 2, 3], [0, 0, 250]), ([2, 3], [0, 250]), ([3], [250]), ([5], [1000]), ([9], [1000]),
      ([2, 5], [0, 1000]),
    ] as [([UInt32], [Int])] {
      var damper = Self.knowing(counting(0))
      let found = counts.enumerated().map { index, count in
        Self.gain(&damper, counting(count), at: (index + 1) * 1000)
      }
      #expect(found == holds, "\(counts)")
    }
  }

  @Test("T1 a loss that is both seen and counted counts once")
  func countedOnce() {
    var damper = Self.knowing(TestLink.wifi.with { $0.carrierDownCount = 0 }.link)
    var holds: [Int] = []
    for number in 1...4 {
      let lost = TestLink.wifi.withoutCarrier.with { $0.carrierDownCount = UInt32(number) }.link
      let back = TestLink.wifi.with { $0.carrierDownCount = UInt32(number) }.link
      for time in [0, 10] {
        damper.observe(lost, isPartOfPath: true, at: Instant(milliseconds: number * 1000 + time))
      }
      holds.append(Self.gain(&damper, back, at: number * 1000 + 100))
    }
    #expect(holds == [0, 0, 250, 500])
  }

  @Test("T1 a message older than the last reading, by its counter, is ignored")
  func staleMessages() {
    var damper = Self.knowing(TestLink.wifi.with { $0.carrierDownCount = 7 }.link)
    for count in [5, 6] as [UInt32] {
      for link in [TestLink.wifi.withoutCarrier, .wifi] {
        damper.observe(
          link.with { $0.carrierDownCount = count }.link, isPartOfPath: false,
          at: Instant(milliseconds: 1000))
      }
    }
    for count in 8...9 as ClosedRange<UInt32> {
      let link = TestLink.wifi.with { $0.carrierDownCount = count }.link
      #expect(Self.gain(&damper, link, at: 1000 * Int(count)) == 0)
    }
  }

  @Test("T1 only links that were ever part of a path are tracked")
  func bystanders() {
    var damper = FlapDamper()
    for second in 1...5 {
      for link in [Self.lost, Self.wifi] {
        damper.observe(link, isPartOfPath: false, at: Instant(milliseconds: second * 1000))
      }
    }
    #expect(damper.deadline(after: Instant(milliseconds: 5000)) == nil)
    damper.observe(Self.wifi, isPartOfPath: true, at: Instant(milliseconds: 6000))
    for second in 7...9 {
      damper.forget(allBut: [], at: Instant(milliseconds: second * 1000 - 1))
      for link in [Self.lost, Self.wifi] {
        damper.observe(link, isPartOfPath: second == 7, at: Instant(milliseconds: second * 1000))
      }
    }
    #expect(damper.held(at: Instant(milliseconds: 9000)) == [])

    damper.observe(Self.wifi, isPartOfPath: true, at: Instant(milliseconds: 20_000))
    for second in 21...23 {
      for link in [Self.lost, Self.wifi] {
        damper.observe(link, isPartOfPath: false, at: Instant(milliseconds: second * 1000))
      }
    }
    #expect(damper.held(at: Instant(milliseconds: 23_000)) == ["wlan0"])
    damper.forget(allBut: [], at: Instant(milliseconds: 23_100))
    #expect(damper.held(at: Instant(milliseconds: 23_100)) == ["wlan0"])
    damper.forget(allBut: [], at: Instant(milliseconds: 33_000))
    #expect(damper == FlapDamper())
  }

  @Test("T1 each link has its own losses and its own hold")
  func several() {
    var damper = Self.knowing()
    damper.observe(TestLink.wired.link, isPartOfPath: true, at: Instant(milliseconds: 0))
    for second in 1...3 {
      for link in [Self.lost, Self.wifi] {
        damper.observe(link, isPartOfPath: true, at: Instant(milliseconds: second * 1000))
      }
      for link in [TestLink.wired.withoutCarrier.link, TestLink.wired.link] where second > 1 {
        damper.observe(link, isPartOfPath: true, at: Instant(milliseconds: second * 1000))
      }
    }
    #expect(damper.held(at: Instant(milliseconds: 3000)) == ["wlan0"])
  }

  @Test("T1 holds follow the rule in random histories", arguments: 0..<200 as Range<UInt64>)
  func random(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var damper = Self.knowing()
    var (isUp, now) = (true, 0)
    var losses: [Int] = []
    var heldUntil = 0
    for _ in 0..<40 {
      now += random.oneIn(6) ? random.number(1...12_000) : random.number(1...2_500)
      isUp.toggle()
      if isUp {
        heldUntil = now + Self.hold(after: losses, gainAt: now)
      } else {
        losses.append(now)
        heldUntil = 0
      }
      damper.observe(
        isUp ? Self.wifi : Self.lost, isPartOfPath: true, at: Instant(milliseconds: now))
      let due = damper.deadline(after: Instant(milliseconds: now))?.milliseconds ?? 0
      #expect(due == (heldUntil > now ? heldUntil : 0), "seed \(seed) at \(now) ms")
    }
  }

  /// The rule, over all losses so far.
  private static func hold(after losses: [Int], gainAt now: Int) -> Int {
    guard let last = losses.last, now - last < 10_000 else { return 0 }
    // Since the last pause of ten seconds.
    let pause = losses.indices.last { $0 > 0 && losses[$0] - losses[$0 - 1] >= 10_000 } ?? 0
    let counting = losses[pause...]
    let third = counting.indices.first {
      $0 - 2 >= pause && losses[$0] - losses[$0 - 2] <= 10_000
    }
    guard let third else { return 0 }
    return min(250 << min(losses.count - 1 - third, 8), 1000)
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Steps of the wall clock")
struct ClockStepsTests {
  private func reading(_ boot: Int, _ wall: Int64) -> (Instant, WallTime) {
    (Instant(sinceStart: .milliseconds(boot)), WallTime(microseconds: wall * 1000))
  }

  @Test("only a difference from the boot clock is a step, forwards or backwards")
  func steps() {
    var clocks = ClockSteps()
    func step(_ boot: Int, _ wall: Int64) -> Duration? {
      let (now, time) = self.reading(boot, wall)
      return clocks.step(to: now, time)
    }
    #expect(step(0, 1_000_000) == nil)
    #expect(step(60_000, 1_060_000) == nil)
    // A long sleep, and NTP slewing the clock.
    #expect(step(86_400_000, 87_400_999) == nil)
    #expect(step(86_500_000, 87_501_000) == .milliseconds(1000))
    #expect(step(86_600_000, 87_601_000) == nil)
    #expect(step(86_700_000, 63_159_701_000) == .milliseconds(63_072_000_000))
    #expect(step(86_800_000, 87_801_000) == .milliseconds(-63_072_000_000))
  }

  @Test("only overrides whose time was counted in this run are shifted")
  func overrides() {
    let (own, other) = (CostOverrides.Subject.link("eth0"), CostOverrides.Subject.link("eth1"))
    func choice(_ time: Int64) -> CostOverride {
      CostOverride(
        constrained: CostOverride.Setting(true, until: .time(WallTime(microseconds: time))),
        expensive: .on,
        user: 7)
    }
    var overrides = CostOverrides([own: choice(1_000_000), other: choice(1_000_000)])
    overrides.shiftEnds(of: [own], by: .seconds(10))
    #expect(overrides[own] == choice(11_000_000) && overrides[other] == choice(1_000_000))
  }

  @Test("a published change is shifted as a whole")
  func changes() throws {
    var maker = TransitionDetector()
    let update = maker.update(
      to: Observation(
        ipv4: CandidatePath(.unsatisfied(.noRoute)), ipv6: CandidatePath(.unsatisfied(.noRoute))),
      on: .start, time: WallTime(microseconds: 5))
    let shifted = try #require(update).shifted(by: .seconds(1))
    #expect(shifted.time.microseconds == 1_000_005)
    #expect(shifted.snapshot?.since.microseconds == 1_000_005)
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Steps of the wall clock")
struct ClockStepsTests {
  private func reading(_ boot: Int, _ wall: Int64) -> (Instant, Timestamp) {
    (Instant(sinceStart: .milliseconds(boot)), Timestamp(microseconds: wall * 1000))
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
  func choices() {
    let (own, other) = (CostChoices.Subject.link("eth0"), CostChoices.Subject.link("eth1"))
    func choice(_ time: Int64) -> CostChoice {
      CostChoice(
        constrained: CostChoice.Setting(true, until: .time(Timestamp(microseconds: time))),
        expensive: .on,
        user: 7)
    }
    var choices = CostChoices([own: choice(1_000_000), other: choice(1_000_000)])
    choices.shiftEnds(of: [own], by: .seconds(10))
    #expect(choices[own] == choice(11_000_000) && choices[other] == choice(1_000_000))
  }

  @Test("a published change is shifted as a whole")
  func changes() throws {
    var maker = TransitionMaker()
    let update = maker.update(
      to: Observation(
        ipv4: ObservedPath(.unsatisfied(.noRoute)), ipv6: ObservedPath(.unsatisfied(.noRoute))),
      on: .start, time: Timestamp(microseconds: 5))
    let shifted = try #require(update).shifted(by: .seconds(1))
    #expect(shifted.time.microseconds == 1_000_005)
    #expect(shifted.snapshot?.since.microseconds == 1_000_005)
  }
}

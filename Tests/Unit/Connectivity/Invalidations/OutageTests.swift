import Connectivity
import Testing

@testable import ConnectivityRules

/// The decision table behind rule I10: which outage a reading shows, and its grace period.
/// `FlowGraceTests` shows the effect on flows.
@Suite("Outages")
struct OutageTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let dead = FlowReading.by(TestLink.wifi.withoutCarrier)

  private func input(
    _ reading: FlowReading, isSourceAssignedByVPN: Bool = false,
    _ grace: FlowTracker.GracePeriod? = nil, isBetterPathReported: Bool = false
  ) -> FlowTracker.RuleInput {
    var baseline = FlowTracker.Baseline(path: Self.wifi.path, network: Self.wifi.network)
    baseline.isSourceAssignedByVPN = isSourceAssignedByVPN
    return FlowTracker.RuleInput(
      flow: Flow(Destination("203.0.113.5")), baseline: baseline, grace: grace, reading: reading,
      policy: InvalidationPolicy(), hasChosen: false, isBetterPathReported: isBetterPathReported,
      now: Instant(sinceStart: .zero))
  }

  @Test(
    "I10 each reading of a flow's path shows one outage, or none",
    arguments: [
      (Self.wifi, nil),
      (.noRoute, .noPath),
      (Self.dead, .linkFailed),
      (Self.dead.with { $0.isSourceElsewhere = true }, .noPath),
      (.noRoute.with { $0.sourceLoss = .mayReturn }, .addressAway(isLinkFailed: false)),
      (Self.dead.with { $0.sourceLoss = .mayReturn }, .addressAway(isLinkFailed: true)),
      (Self.wifi.with { $0.sourceLoss = .mayReturn }, .addressAway(isLinkFailed: false)),
      (Self.wifi.with { $0.areRepliesRefused = true }, .takenOver),
      (.by(.wired, leaving: .withoutRoute), .takenOver),
      (.by(.wired, leaving: .withWorseRoute), .takenOver),
      // Another link has taken over for good.
      (.by(.wired, leaving: .withRoute), nil),
      (.by(.wired, leaving: .failed), nil),
      (.by(.wired, leaving: .untied), nil),
      (.by(.wired, leaving: .leg), nil),
    ] as [(FlowReading, FlowTracker.Outage?)])
  func outage(_ reading: FlowReading, _ outage: FlowTracker.Outage?) {
    #expect(self.input(reading).outage == outage)
  }

  @Test(
    "I10 a VPN has assigned the flow's address → the VPN may move its tunnel",
    arguments: [
      (.by(.wired, leaving: .failed), .movedByVPN),
      (.by(.wired, leaving: .withRoute), .movedByVPN),
      (.noRoute, .noPath),
      (Self.dead, .noPath),
      (Self.wifi.with { $0.sourceLoss = .final }, .addressAway(isLinkFailed: false)),
    ] as [(FlowReading, FlowTracker.Outage?)])
  func outageOfVPN(_ reading: FlowReading, _ outage: FlowTracker.Outage?) {
    #expect(self.input(reading, isSourceAssignedByVPN: true).outage == outage)
  }

  @Test("I3 I10 the client knows the better path → a worse route is not an outage any more")
  func reported() {
    let reading = FlowReading.by(.wired, leaving: .withWorseRoute)
    #expect(self.input(reading, isBetterPathReported: true).outage == nil)
  }

  @Test("I10 another link took over a missing route → its return as a worse route ends nothing")
  func draining() {
    let draining = FlowTracker.GracePeriod(
      isRouteOnly: true, severity: .drain, until: Instant(sinceStart: .seconds(1)))
    let reading = FlowReading.by(.wired, leaving: .withRoute)
    #expect(self.input(reading, draining).outage == .takenOver)
    var failed = draining
    failed.isRouteOnly = false
    #expect(self.input(reading, failed).outage == nil)
  }

  @Test(
    "I10 an outage begins → its row decides about length, severity and cause",
    arguments: [
      (.noRoute, "advise route 1000"),
      (Self.dead, "advise link 1000"),
      (.noRoute.with { $0.sourceLoss = .mayReturn }, "advise route 1000"),
      (.by(.wired, leaving: .withoutRoute), "drain route 1000"),
    ] as [(FlowReading, String)])
  func begins(_ reading: FlowReading, _ words: String) {
    #expect(self.words(self.input(reading).nextGrace) == words)
  }

  @Test(
    "I10 an outage goes on or becomes another → its end stays, comes earlier or is renewed",
    arguments: [
      // With an end at 300 ms, and at 30 s.
      (.noRoute, 300, "advise route 300"), (.noRoute, 30_000, "advise route 30000"),
      (Self.dead, 300, "advise link 300"), (Self.dead, 30_000, "advise link 1000"),
      (.by(.wired, leaving: .withoutRoute), 30_000, "drain route 30000"),
      (.noRoute.with { $0.sourceLoss = .mayReturn }, 30_000, "advise route 1000"),
    ] as [(FlowReading, Int64, String)])
  func goesOn(_ reading: FlowReading, _ until: Int64, _ words: String) {
    let grace = FlowTracker.GracePeriod(
      isRouteOnly: true, severity: .advise, until: Instant(sinceStart: .milliseconds(until)))
    #expect(self.words(self.input(reading, grace).nextGrace) == words)
  }

  @Test("I10 a VPN moves its tunnel → 30 s from the last reading until new connections have a path")
  func renewed() {
    let reading = FlowReading.by(.wired, leaving: .failed)
    func next(_ severity: Invalidation.Severity) -> String {
      let grace = FlowTracker.GracePeriod(
        isRouteOnly: true, severity: severity, until: Instant(sinceStart: .seconds(2)))
      return self.words(self.input(reading, isSourceAssignedByVPN: true, grace).nextGrace)
    }
    #expect(next(.advise) == "drain route 30000")
    #expect(next(.drain) == "drain route 2000")
  }

  private func words(_ grace: FlowTracker.GracePeriod?) -> String {
    guard let grace else { return "none" }
    let end = grace.until.sinceStart / .milliseconds(1)
    return "\(grace.severity.rawValue) \(grace.isRouteOnly ? "route" : "link") \(Int(end))"
  }
}

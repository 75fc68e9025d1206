import Connectivity
import Testing

@testable import ConnectivityRules

/// Flows whose lookup succeeds while their sockets are silent (E2).
@Suite("Suspected flows")
struct SuspicionTests {
  @Test("E2 a silent flow is advised after two timeouts, and destroyed after six seconds")
  func found() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(flow.deadline == .milliseconds(1540))
    #expect(flow.see(after: 1200, isSound: true) == nil)
    #expect(flow.see(after: 1540, silence: 1545, timeouts: 3, isSound: true) == "advise silent")
    #expect(flow.deadline == .milliseconds(3140))
    #expect(flow.see(after: 3140, silence: 3145, timeouts: 4, isSound: true) == nil)
    // It sends again after 6.2 s.
    #expect(flow.deadline == .milliseconds(6340))
    #expect(flow.see(after: 6340, silence: 6345, timeouts: 5, isSound: true) == "destroy silent")
  }

  @Test("E2 the flow sends again just after six seconds, and is answered → recovered")
  func sendsAgainLater() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(flow.see(after: 1540, silence: 1545, timeouts: 3, isSound: true) == "advise silent")
    #expect(flow.see(after: 3140, silence: 3145, timeouts: 4, isSound: true) == nil)
    #expect(
      flow.see(
        after: 6340, silence: 120, isSound: true, isAcknowledged: true, progress: 10, resent: 5)
        == "recovered")
  }

  @Test("E2 timeouts come each second, and no longer double → found dead all the same")
  func cappedTimeouts() {
    var flow = Examined()
    flow.suspect(after: 1000)
    var told: [Int: Invalidation.Severity] = [:]
    // Sent again after 0.2, 0.6 and 1.4 s, and then each second.
    for (timeouts, now) in zip(3..., stride(from: 1540, through: 8540, by: 1000)) {
      let outcome = flow.examination.conclude(
        .init(
          nil, isSound: true, change: Examined.change,
          report: SocketReport(
            silence: .milliseconds(now + 5), inFlight: 10, roundTrip: .milliseconds(20),
            timeouts: timeouts, timeout: .seconds(1), hasUnacknowledgedData: true,
            resent: UInt64(timeouts), nextTimeout: .milliseconds(860)),
          at: Examined.change.advanced(by: .milliseconds(now))))
      if case .verdict(let verdict) = outcome { told[now] = verdict.severity }
      if told[now] == .destroy { break }
    }
    #expect(told == [1540: .advise, 6540: .destroy])
  }

  /// Another connection to the same host, made and heard at these times after the change.
  private func contrast(
    made: Int, heard: Int, at now: Int, progress: UInt64 = 300, resent: UInt64 = 0,
    inFlight: UInt64 = 0, changed: Int = 0
  ) -> Contrast {
    let report = SocketReport(
      silence: .milliseconds(now - heard), progress: progress, inFlight: inFlight,
      roundTrip: .milliseconds(20), hasUnacknowledgedData: inFlight > 0, resent: resent)
    let change = Examined.change
    return Contrast(
      Contrast.Made(at: change.advanced(by: .milliseconds(made)), progress: 100), report,
      lastChange: change.advanced(by: .milliseconds(changed)),
      at: change.advanced(by: .milliseconds(now)))
  }

  /// A flow that was advised after two timeouts, a second after the change, and sends again at 1.4
  /// s.
  private func advised() -> Examined {
    var flow = Examined()
    let now = Examined.change.advanced(by: .seconds(1))
    let report = SocketReport(
      silence: .milliseconds(1005), inFlight: 10, roundTrip: .milliseconds(20), timeouts: 2,
      hasUnacknowledgedData: true, resent: 2, nextTimeout: .milliseconds(400))
    let advice = flow.examination.suspect(
      SocketEvidence(report, on: Examined.change, at: now), at: now)
    #expect(advice?.reason == .silent && advice?.severity == .advise)
    #expect(flow.deadline == .milliseconds(1540))
    return flow
  }

  @Test(
    "E2 a connection to the same host was made since, and is heard → the third timeout destroys")
  func contrasted() {
    var flow = self.advised()
    let contrast = self.contrast(made: 1030, heard: 1100, at: 1540)
    #expect(
      flow.see(after: 1540, silence: 1545, timeouts: 3, isSound: true, contrast: contrast)
        == "destroy silent")
  }

  @Test(
    "E2 the other connection is older, is not heard, has lost packets, or came too late → no contrast"
  )
  func noContrast() {
    let others = [
      self.contrast(made: -5, heard: 1100, at: 1540),
      self.contrast(made: 1030, heard: 1020, at: 1540),
      self.contrast(made: 1030, heard: 1100, at: 1540, progress: 100),
      self.contrast(made: 1030, heard: 1100, at: 1540, changed: 1200),
      self.contrast(made: 1030, heard: 1100, at: 1540, resent: 1),
      self.contrast(made: 1030, heard: 1100, at: 1540, inFlight: 10),
      self.contrast(made: 1410, heard: 1500, at: 1540),
    ]
    for other in others {
      var flow = self.advised()
      #expect(
        flow.see(after: 1540, silence: 1545, timeouts: 3, isSound: true, contrast: other) == nil)
    }
  }

  @Test("E2 the path is back before the third timeout → heard, and contrast does not matter")
  func heardInTime() {
    var flow = self.advised()
    let contrast = self.contrast(made: 1030, heard: 1100, at: 1540)
    #expect(
      flow.see(
        after: 1540, silence: 100, timeouts: 0, isSound: true, isAcknowledged: true, progress: 10,
        resent: 3, contrast: contrast) == "recovered")
  }

  @Test("E2 data waits for a neighbour's MAC address → its timeouts do not count")
  func unsent() {
    var flow = Examined()
    flow.suspect(after: 1000)
    for (time, timeouts) in [(1540, 3), (3100, 4), (6300, 5)] {
      let seen = flow.see(
        after: time, silence: time + 5, timeouts: timeouts, isSound: true, resent: 0)
      #expect(seen == nil)
    }
    #expect(flow.see(after: 12_800, silence: 10, isSound: true, isAcknowledged: true) == nil)
    #expect(flow.deadline == nil)
  }

  @Test("E2 a loss before the first query → it does not count as sent since")
  func earlierLoss() {
    var flow = Examined()
    flow.suspect(after: 1000, resent: 7)
    #expect(flow.see(after: 6500, silence: 6505, timeouts: 5, isSound: true, resent: 8) == nil)
    #expect(
      flow.see(after: 12_900, silence: 12_905, timeouts: 6, isSound: true, resent: 9)
        == "destroy silent")
  }

  @Test("E2 a silent flow receives again → it recovers, and is not queried any more")
  func heardAgain() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(flow.see(after: 1540, silence: 1545, timeouts: 2, isSound: true) == "advise silent")
    #expect(flow.see(after: 2080, silence: 10, isSound: true) == "recovered")
    #expect(flow.deadline == nil)
    flow.suspect(after: 2000)
    #expect(flow.see(after: 2600, silence: 10, isSound: true) == nil)
    #expect(flow.deadline == nil)
  }

  @Test("E2 data arrives while the flow's own data times out → queried until it is acknowledged")
  func dataArrives() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(flow.see(after: 1540, silence: 5, timeouts: 2, isSound: true) == nil)
    #expect(flow.deadline == .milliseconds(1780))
    #expect(
      flow.see(after: 2080, silence: 5, data: 545, timeouts: 3, isSound: true) == nil)
    #expect(
      flow.see(after: 3200, silence: 5, data: 1665, timeouts: 3, isSound: true)
        == "advise silent")
    #expect(
      flow.see(after: 7535, silence: 5, data: 6000, timeouts: 5, isSound: true)
        == "destroy silent")
  }

  @Test("E2 further changes do not delay the end of a flow that stays silent")
  func furtherChanges() {
    var flow = Examined()
    flow.suspect(after: 1000)
    flow.suspect(after: 1200, becauseOf: 900)
    #expect(flow.deadline == .milliseconds(1540))
    #expect(flow.see(after: 1540, silence: 1545, timeouts: 3, isSound: true) == "advise silent")
    flow.suspect(after: 5000, becauseOf: 4000)
    #expect(flow.see(after: 6340, silence: 6345, timeouts: 5, isSound: true) == "destroy silent")
  }

  private static let doubt = FlowTracker.Verdict(.interfaceLost, .advise)

  @Test("E2 the lookup fails → the lookup's rules decide, and after a second the suspicion ends")
  func lookupFails() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(
      flow.see(Self.doubt, after: 1540, silence: 1545, timeouts: 3) == "advise interfaceLost")
    #expect(flow.deadline == nil)
    #expect(flow.see(after: 2540, silence: 2545, timeouts: 3, isSound: true) == nil)
    #expect(flow.deadline == nil)
  }

  @Test("E2 the lookup fails and succeeds many times a second → a dead flow is found all the same")
  func alternatingLookups() {
    var flow = Examined()
    flow.suspect(after: 1000)
    var told: [String?] = []
    // Every 20 ms, with timeouts 0.2, 0.6, 1.4, 3 and 6.2 s after the change.
    for time in stride(from: 1020, through: 7000, by: 20) where told.last != "destroy silent" {
      let isSound = time % 40 == 0
      let timeouts = [200, 600, 1400, 3000, 6200].count { $0 < time }
      told.append(
        flow.see(
          isSound ? nil : Self.doubt, after: time, silence: time + 5, timeouts: timeouts,
          isSound: isSound))
    }
    #expect(told.last == "destroy silent")
    #expect(Set(told.compactMap(\.self)).isSubset(of: Self.alternating))
  }

  private static let alternating: Set = [
    "advise interfaceLost", "advise silent", "destroy silent",
  ]

  @Test("E2 timeouts while the lookup fails do not count")
  func timeoutsInPause() {
    var flow = Examined()
    flow.suspect(after: 1000)
    #expect(flow.see(after: 1540, silence: 1545, timeouts: 2, isSound: true) == "advise silent")
    #expect(
      flow.see(Self.doubt, after: 1600, silence: 1605, timeouts: 2) == "advise interfaceLost")
    #expect(flow.see(after: 2500, silence: 2505, timeouts: 3, isSound: true) == "advise silent")
    #expect(flow.see(after: 6340, silence: 6345, timeouts: 5, isSound: true) == "destroy silent")
  }

  @Test("E2 an inquiry finds that the lookup succeeds again → the suspicion goes on")
  func pauseEndsWithInquiry() {
    for inquiry in [1900, 2500] {
      var flow = Examined()
      flow.suspect(after: 1000)
      _ = flow.see(Self.doubt, after: 1100, silence: 1105)
      #expect(flow.examination.deadline == nil)
      flow.suspect(after: inquiry, becauseOf: inquiry - 1000)
      #expect(flow.examination.deadline != nil, "\(inquiry) ms")
    }
  }

  @Test("E2 five timeouts in a row count, whatever the lookup said meanwhile")
  func manyTimeouts() {
    var flow = Examined()
    flow.suspect(after: 1000)
    _ = flow.see(Self.doubt, after: 1100, silence: 1105, timeouts: 1)
    #expect(flow.see(after: 2000, silence: 2005, timeouts: 5, isSound: true) == "advise silent")
    #expect(flow.see(after: 6000, silence: 6005, timeouts: 5, isSound: true) == "destroy silent")
  }

  @Test("E2 a report is needed when the lookup fails or succeeds again")
  func reports() {
    var flow = Examined()
    flow.suspect(after: 1000)
    let now = Examined.change.advanced(by: .milliseconds(1100))
    #expect(!flow.examination.needsReport(on: nil, isCertain: false, isSound: true, at: now))
    #expect(
      flow.examination.needsReport(on: Self.doubt, isCertain: false, isSound: false, at: now))
    _ = flow.see(Self.doubt, after: 1100, silence: 1105, timeouts: 1)
    #expect(!flow.examination.needsReport(on: nil, isCertain: false, isSound: false, at: now))
    #expect(flow.examination.needsReport(on: nil, isCertain: false, isSound: true, at: now))
  }
}

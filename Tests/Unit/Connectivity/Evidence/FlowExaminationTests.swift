import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Examinations of flows")
struct FlowExaminationTests {
  @Test("E1 an active flow is advised first, and destroyed if its socket stays silent")
  func dies() {
    var flow = Examined()
    #expect(flow.see(Examined.lost, after: 0, silence: 3) == "advise interfaceLost")
    #expect(flow.deadline == .milliseconds(60))
    #expect(flow.see(after: 30) == nil)
    #expect(flow.see(after: 60, silence: 63) == "destroy interfaceLost")
  }

  @Test("E1 a flow whose socket still receives is spared, for as long as the lookup stays the same")
  func spared() {
    var flow = Examined()
    #expect(flow.see(Examined.lost, after: 0, silence: 3) == "advise interfaceLost")
    #expect(flow.see(after: 60, silence: 5, isAcknowledged: true) == nil)
    #expect(flow.examination.isSpared && flow.examination.timesSpared == 1)
    #expect(flow.deadline == nil)
    #expect(flow.see(after: 5000) == nil)
    #expect(flow.see(after: 6000, isStanding: false, isSound: true) == "recovered")
    #expect(!flow.examination.isSpared)
    #expect(flow.see(Examined.lost, after: 7000) == "destroy interfaceLost")
  }

  @Test("E1 what was sent before the change is acknowledged late → that alone proves nothing")
  func lateAcknowledgement() {
    for isAlive in [true, false] {
      var flow = Examined()
      #expect(flow.see(Examined.lost, after: 0, silence: 3) == "advise interfaceLost")
      #expect(flow.see(after: 60, silence: 5, progress: 10) == nil)
      #expect(flow.examination.timesSpared == 0 && flow.deadline == .milliseconds(600))
      let end =
        isAlive
        ? flow.see(after: 600, silence: 5, progress: 20)
        : flow.see(after: 600, silence: 545, timeouts: 1, progress: 10)
      #expect(end == (isAlive ? nil : "destroy interfaceLost"))
      #expect(flow.examination.isSpared == isAlive)
    }
  }

  @Test("E1 the path returns → the examination ends")
  func recovers() {
    var flow = Examined()
    #expect(flow.see(Examined.lost, after: 0, silence: 3) == "advise interfaceLost")
    #expect(flow.see(after: 20, isStanding: false, isSound: true) == "recovered")
    #expect(flow.deadline == nil)
  }

  @Test("E1 a verdict that no socket can refute destroys immediately")
  func certain() {
    let policy = FlowTracker.Verdict(.policy, .destroy)
    let slept = FlowTracker.Verdict(.resumed, .destroy)
    for (verdict, isCertain, silence) in [
      (Examined.lost, true, 3), (policy, false, 3), (slept, false, 3), (Examined.lost, false, nil),
      (Examined.lost, false, 2000),
    ] as [(FlowTracker.Verdict, Bool, Int?)] {
      var flow = Examined()
      #expect(
        flow.see(verdict, after: 0, silence: silence, isCertain: isCertain)
          == "destroy \(verdict.reason)")
    }
  }

  @Test(
    "E1 a changed network is disputed until the socket decides, and forgotten if the flow is spared"
  )
  func anotherNetwork() {
    var flow = Examined()
    let other = FlowTracker.Verdict(.networkChanged, .destroy)
    #expect(flow.see(other, after: 0, silence: 3) == "advise networkChanged")
    #expect(flow.see(after: 60, silence: 5, isAcknowledged: true) == nil)
    #expect(flow.examination.timesSpared == 1 && !flow.examination.isSpared)
    #expect(flow.see(after: 100, isStanding: false, isSound: true) == nil)
  }

  @Test("E1 E2 a spared flow that falls silent after another change is found dead")
  func sparedAndFound() {
    var flow = Examined()
    _ = flow.see(Examined.lost, after: 0, silence: 3)
    _ = flow.see(after: 60, silence: 5, isAcknowledged: true)
    flow.suspect(after: 2000)
    #expect(flow.see(after: 2600, silence: 2605, timeouts: 3) == "advise silent")
    #expect(flow.see(after: 6340, silence: 6345, timeouts: 5) == "destroy silent")
  }
}

import Connectivity
import Testing

@testable import ConnectivityRules

/// Flows that are dead according to a lookup that is not proof (E0).
@Suite("Disputed flows")
struct DisputeTests {
  private static let change = Instant(sinceStart: .seconds(10))
  private static let lost = FlowTracker.Verdict(.interfaceLost, .destroy)

  /// One flow, evaluated at times in milliseconds after the change.
  private struct Disputed {
    var examination = FlowExamination()
    /// Whether its owner can ask its peer.
    var canBeAsked = false

    /// - Parameters:
    ///   - sent: The number of bytes that it has sent since the change.
    ///   - acknowledged: The number of them that the peer has acknowledged.
    ///   - probes: The number of keepalive probes that it has sent since the change.
    ///   - answers: The number of answers to them.
    ///   - copies: The number of acknowledgements that it has sent for data that it had.
    mutating func see(
      _ verdict: FlowTracker.Verdict? = nil, after milliseconds: Int, silence: Int,
      sent: UInt64 = 0,
      acknowledged: UInt64 = 0, timeouts: Int = 0, resent: UInt64 = 0, roundTrip: Int = 1,
      timeout: Int = 200, nextTimeout: Int = 200, dataSilence: Int? = nil, probes: UInt32 = 0,
      answers: UInt32 = 0, copies: UInt32 = 0
    ) -> String? {
      let now = change.advanced(by: .milliseconds(milliseconds))
      let report = SocketReport(
        silence: .milliseconds(silence), dataSilence: .milliseconds(dataSilence ?? silence),
        progress: 1000 + acknowledged,
        inFlight: sent - acknowledged, roundTrip: .milliseconds(roundTrip), timeouts: timeouts,
        timeout: .milliseconds(timeout << timeouts), hasUnacknowledgedData: sent > acknowledged,
        resent: resent, segments: 100 + probes + copies, probes: Int(probes - answers),
        acknowledgements: 100 + answers,
        nextTimeout: .milliseconds(nextTimeout))
      let outcome = self.examination.conclude(
        .init(
          verdict, isProof: false, earliestQuestion: self.canBeAsked ? now : nil,
          isDisputed: true,
          isSound: false, change: change, report: report, at: now))
      return switch outcome {
      case .none: nil
      case .recovered: "recovered"
      case .question: "ask"
      case .verdict(let verdict):
        "\(verdict.severity) \(verdict.reason)" + (verdict.asksPeer ? ", ask" : "")
      }
    }

    var deadline: Duration? { self.examination.deadline.map { change.duration(to: $0) } }
  }

  @Test("E1 a connection that speaks every 0.5 s and is answered → advised, and spared")
  func speaks() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 400) == "advise interfaceLost")
    #expect(flow.deadline == .milliseconds(200))
    #expect(flow.see(after: 200, silence: 100, sent: 10, acknowledged: 10) == nil)
    #expect(flow.examination.isSpared && flow.deadline == nil)
    #expect(flow.see(after: 9000, silence: 9000, sent: 10, acknowledged: 10) == nil)
  }

  @Test("E1 the answer comes within ten milliseconds of the change, and then a pause → spared")
  func answeredAtOnce() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 3, silence: 400) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 193, sent: 10, acknowledged: 10) == nil)
    #expect(flow.examination.isSpared && flow.deadline == nil)
  }

  @Test("E1 an acknowledgement in flight answers what was sent again → nothing is destroyed by it")
  func answeredInFlight() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 3, silence: 400, sent: 10) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 193, sent: 10, acknowledged: 10, resent: 1) == nil)
    #expect(
      flow.see(after: 1200, silence: 1193, sent: 10, acknowledged: 10, resent: 1)
        != "destroy interfaceLost")
  }

  @Test("E1 a connection that speaks and is not answered → destroyed after a second")
  func unanswered() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 400) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 600, sent: 10) == nil)
    #expect(flow.deadline == .seconds(1))
    #expect(
      flow.see(after: 1000, silence: 1400, sent: 20, timeouts: 2, resent: 2)
        == "destroy interfaceLost")
  }

  @Test("E1 an idle flow cannot be asked → drained, and not destroyed")
  func idle() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 1001) == "drain interfaceLost")
    #expect(flow.deadline == nil && flow.examination.isSpared)
  }

  @Test("E1 E4 an idle flow's peer answers the probe → advised, and spared")
  func probeAnswered() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 60_000) == "advise interfaceLost, ask")
    #expect(flow.deadline == .milliseconds(20))
    #expect(flow.see(after: 20, silence: 15, probes: 1, answers: 1) == nil)
    #expect(flow.examination.isSpared && flow.deadline == nil)
  }

  @Test("E1 E4 an idle flow's peer does not answer the probe → destroyed after the time to answer")
  func probeUnanswered() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 60_000) == "advise interfaceLost, ask")
    #expect(flow.see(after: 20, silence: 60_020, probes: 1) == nil)
    #expect(flow.deadline == .milliseconds(220))
    #expect(flow.see(after: 220, silence: 60_220, probes: 1) == "destroy interfaceLost")
  }

  @Test("E1 E4 the peer only repeats its data → the probe is not answered")
  func repeatedData() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 60_000) == "advise interfaceLost, ask")
    #expect(flow.see(after: 20, silence: 60_020, probes: 1) == nil)
    #expect(
      flow.see(after: 220, silence: 100, dataSilence: 60_220, probes: 1, copies: 1)
        == "destroy interfaceLost")
  }

  @Test("E1 E4 an acknowledgement is sent for late data → not a question")
  func acknowledgementOnly() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 10) == "advise interfaceLost, ask")
    #expect(flow.see(after: 20, silence: 30, copies: 1) == nil)
    #expect(flow.see(after: 240, silence: 250, copies: 1) == nil)
    #expect(flow.see(after: 1100, silence: 1110, probes: 1, copies: 1) == nil)
    #expect(flow.deadline == .milliseconds(1300))
  }

  @Test("E1 E4 what arrived before the question → not its answer")
  func answerBefore() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 400, sent: 10) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 600, sent: 10, acknowledged: 10, copies: 1) == "ask")
    #expect(!flow.examination.isSpared)
    #expect(
      flow.see(after: 220, silence: 620, sent: 10, acknowledged: 10, probes: 1, copies: 1) == nil)
    #expect(
      flow.see(after: 420, silence: 820, sent: 10, acknowledged: 10, probes: 1, copies: 1)
        == "destroy interfaceLost")
  }

  @Test("E1 E4 an event is found again while it is judged → its question decides")
  func foundAgain() {
    let other = FlowTracker.Verdict(.networkChanged, .destroy)
    for answers in [UInt32(0), 1] {
      var flow = Disputed(canBeAsked: true)
      #expect(flow.see(other, after: 0, silence: 60_000) == "advise networkChanged, ask")
      #expect(
        flow.see(other, after: 20, silence: answers > 0 ? 15 : 60_020, probes: 1, answers: answers)
          == nil)
      #expect(
        flow.see(
          answers > 0 ? nil : other, after: 220, silence: 60_220, probes: 1, answers: answers)
          == (answers > 0 ? nil : "destroy networkChanged"))
    }
  }

  @Test(
    "E1 E4 the peer is beyond the local network, and does not answer → destroyed after a second",
    arguments: [(1, 220), (2, 1020), (300, 1020)])
  func farAway(roundTrip: Int, end: Int64) {
    var flow = Disputed(canBeAsked: true)
    #expect(
      flow.see(Self.lost, after: 0, silence: 60_000, roundTrip: roundTrip)
        == "advise interfaceLost, ask")
    #expect(flow.see(after: 20, silence: 60_020, roundTrip: roundTrip, probes: 1) == nil)
    #expect(flow.deadline == .milliseconds(end))
    // A queue in a router, or a lost probe that was repeated.
    if roundTrip > 1 {
      #expect(
        flow.see(
          after: 1020, silence: 300, roundTrip: roundTrip, probes: 3, answers: 3) == nil)
      #expect(flow.examination.isSpared)
    }
  }

  @Test("E1 E4 the timeout is 1.5 s → the time to answer is not shorter after a probe")
  func longRoundTrip() {
    var flow = Disputed(canBeAsked: true)
    #expect(
      flow.see(Self.lost, after: 0, silence: 60_000, roundTrip: 1300, timeout: 1500)
        == "advise interfaceLost, ask")
    #expect(
      flow.see(after: 20, silence: 60_020, roundTrip: 1300, timeout: 1500, probes: 1) == nil)
    #expect(flow.deadline == .milliseconds(1520))
  }

  @Test("E1 news of another reason comes with a question → both are passed on")
  func newsAndQuestion() {
    var flow = Disputed(canBeAsked: true)
    let better = FlowTracker.Verdict(.betterPath, .destroy)
    #expect(flow.see(better, after: 0, silence: 60_000) == "advise betterPath, ask")
    let away = FlowTracker.Verdict(.sourceAddressLost, .advise)
    #expect(flow.see(away, after: 20, silence: 60_020) == "advise sourceAddressLost")
  }

  @Test("E1 E4 the socket becomes idle later → the time runs from the probe")
  func lateProbe() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 400) == "advise interfaceLost, ask")
    for time in [20, 40, 80, 160, 320] {
      #expect(flow.deadline == .milliseconds(time))
      #expect(flow.see(after: time, silence: 400 + time) == nil)
    }
    #expect(flow.see(after: 640, silence: 1040, probes: 1) == nil)
    #expect(flow.deadline == .milliseconds(840))
    #expect(flow.see(after: 840, silence: 200, probes: 1, answers: 1) == nil)
    #expect(flow.examination.isSpared)
  }

  @Test("E1 E4 a PING is not acknowledged → destroyed after the time to answer")
  func pingUnanswered() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 400) == "advise interfaceLost, ask")
    #expect(flow.see(after: 20, silence: 420, sent: 17, probes: 1) == nil)
    #expect(flow.deadline == .milliseconds(220))
    #expect(
      flow.see(after: 220, silence: 620, sent: 17, timeouts: 1, resent: 1, probes: 2)
        == "destroy interfaceLost")
  }

  @Test("E1 E4 the owner does not ask, because it is stopped → drained, and not destroyed")
  func notAsked() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 60_000) == "advise interfaceLost, ask")
    var facts = 0
    while let next = flow.deadline, next < .seconds(3) {
      let time = Int(next / .milliseconds(1))
      #expect(flow.see(after: time, silence: 60_000 + time) == nil)
      facts += 1
    }
    #expect(facts < 10)
    #expect(flow.see(after: 3000, silence: 63_000) == "drain interfaceLost")
    #expect(flow.deadline == nil)
  }

  @Test("E4 a second change within two seconds → the owner asks again after two seconds")
  func pauseBetweenQuestions() {
    var flow = Disputed(canBeAsked: true)
    #expect(flow.see(Self.lost, after: 0, silence: 60_000) == "advise interfaceLost, ask")
    let other = FlowTracker.Verdict(.networkChanged, .destroy)
    #expect(
      flow.see(other, after: 500, silence: 60_500, probes: 1) == "advise networkChanged")
    #expect(flow.deadline == .seconds(2))
    #expect(flow.see(after: 2000, silence: 62_000, probes: 1) == "ask")
  }

  @Test("E1 a flow that was just heard → has a second to go on")
  func pause() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 900) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 1100) == nil)
    #expect(flow.deadline == .seconds(1))
    #expect(flow.see(after: 1000, silence: 1900) == "drain interfaceLost")
  }

  @Test(
    "E1 the time to answer is one retransmission timeout, at least a second after the change and at most three",
    arguments: [(200, 1000), (700, 1000), (900, 1100), (2500, 2700), (9000, 3200)])
  func answerTime(timeout: Int, end: Int64) {
    var flow = Disputed()
    #expect(
      flow.see(Self.lost, after: 0, silence: 400, timeout: timeout) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 600, sent: 10, timeout: timeout) == nil)
    #expect(flow.deadline == .milliseconds(end))
  }

  @Test(
    "E1 data waits in a queue of this machine → nothing asks the peer, and nothing is destroyed")
  func queued() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 400, sent: 10) == "advise interfaceLost")
    for time in [200, 503, 1100, 3000] {
      #expect(flow.see(after: time, silence: 400 + time, sent: 10, timeouts: 3) == nil)
      #expect(flow.deadline.map { $0 > .milliseconds(time) } == true)
    }
    #expect(flow.see(after: 4000, silence: 4400, sent: 10, timeouts: 4, resent: 1) == nil)
    #expect(
      flow.see(after: 4400, silence: 4800, sent: 10, timeouts: 4, resent: 1)
        == "destroy interfaceLost")
  }

  @Test("E1 the peer acknowledges what was sent again → alive")
  func acknowledgedAfterResending() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 400, sent: 10) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 600, sent: 10, timeouts: 1, resent: 1) == nil)
    #expect(flow.see(after: 1000, silence: 700, sent: 10, acknowledged: 10, resent: 1) == nil)
    #expect(flow.examination.isSpared)
  }

  @Test(
    "E1 E2 the peer only repeats what it has sent → six seconds of silence destroy, not two timeouts"
  )
  func copies() {
    var flow = Disputed()
    func see(_ after: Int, timeouts: Int, next: Int) -> String? {
      flow.see(
        after: after, silence: 5, sent: 10, timeouts: timeouts, resent: UInt64(timeouts),
        nextTimeout: next, dataSilence: after + 4)
    }
    #expect(flow.see(Self.lost, after: 0, silence: 4) == "advise interfaceLost")
    #expect(see(200, timeouts: 0, next: 200) == nil)
    #expect(see(1000, timeouts: 1, next: 200) == nil)
    // A router that was away for 1.5 s is back by then.
    #expect(see(1400, timeouts: 2, next: 400) == nil)
    #expect(see(4900, timeouts: 3, next: 3000) == nil)
    #expect(flow.deadline == .seconds(6))
    #expect(see(6000, timeouts: 3, next: 1900) == "destroy interfaceLost")
  }

  @Test("E1 the address is lost → the lookup is proof, wherever packets are sent")
  func addressLost() {
    var flow = Disputed()
    let gone = FlowTracker.Verdict(.sourceAddressLost, .destroy)
    #expect(flow.see(gone, after: 0, silence: 1001) == "destroy sourceAddressLost")
  }

  @Test("E4 a flow forbids its path → its owner is not asked")
  func forbiddenPath() throws {
    var path = KernelPath.unknown
    path.costsMoney = true
    let remote = Destination("203.0.113.9")
    #expect(!Flow(remote).canBeAsked(on: path))
    #expect(Flow(remote, question: .keepalive).canBeAsked(on: path))
    #expect(!Flow(remote, forbidsExpensive: true, question: .ping).canBeAsked(on: path))
    #expect(Flow(remote, forbidsConstrained: true, question: .ping).canBeAsked(on: path))
    path.constraint = .constrained
    #expect(!Flow(remote, forbidsConstrained: true, question: .ping).canBeAsked(on: path))
  }
}

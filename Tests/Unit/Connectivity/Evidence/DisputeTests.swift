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

    /// - Parameters:
    ///   - sent: The number of bytes that it has sent since the change.
    ///   - acknowledged: The number of them that the peer has acknowledged.
    mutating func see(
      _ verdict: FlowTracker.Verdict? = nil, after milliseconds: Int, silence: Int,
      sent: UInt64 = 0,
      acknowledged: UInt64 = 0, timeouts: Int = 0, resent: UInt64 = 0, roundTrip: Int = 1,
      timeout: Int = 200, nextTimeout: Int = 200
    ) -> String? {
      let now = change.advanced(by: .milliseconds(milliseconds))
      let report = SocketReport(
        silence: .milliseconds(silence), progress: 1000 + acknowledged,
        inFlight: sent - acknowledged, roundTrip: .milliseconds(roundTrip), timeouts: timeouts,
        timeout: .milliseconds(timeout << timeouts), hasUnacknowledgedData: sent > acknowledged,
        resent: resent, nextTimeout: .milliseconds(nextTimeout))
      let outcome = self.examination.conclude(
        .init(
          verdict, isProof: false, isDisputeStanding: true, isSound: false, change: change,
          report: report, at: now))
      return switch outcome {
      case .none: nil
      case .recovered: "recovered"
      case .verdict(let verdict): "\(verdict.severity) \(verdict.reason)"
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

  @Test("E1 an idle flow cannot be asked → destroyed")
  func idle() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 1001) == "destroy interfaceLost")
  }

  @Test("E1 a flow that was just heard → has a second to go on")
  func pause() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 900) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 1100) == nil)
    #expect(flow.deadline == .seconds(1))
    #expect(flow.see(after: 1000, silence: 1900) == "destroy interfaceLost")
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

  @Test("E1 the peer only repeats what it has sent → two counted timeouts destroy")
  func copies() {
    var flow = Disputed()
    #expect(flow.see(Self.lost, after: 0, silence: 4) == "advise interfaceLost")
    #expect(flow.see(after: 200, silence: 5, sent: 10) == nil)
    #expect(flow.see(after: 1000, silence: 5, sent: 10, timeouts: 1, resent: 1) == nil)
    #expect(
      flow.see(after: 1400, silence: 5, sent: 10, timeouts: 2, resent: 2, nextTimeout: 400)
        == "destroy interfaceLost")
  }

  @Test("E1 the address is lost → the lookup is proof, wherever packets are sent")
  func addressLost() {
    var flow = Disputed()
    let gone = FlowTracker.Verdict(.sourceAddressLost, .destroy)
    #expect(flow.see(gone, after: 0, silence: 1001) == "destroy sourceAddressLost")
  }
}

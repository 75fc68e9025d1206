import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Socket evidence")
struct SocketEvidenceTests {
  /// A socket's report, in milliseconds after a change that happened at 10 s.
  private static func evidence(
    _ after: Int, silence: Int, data: Int? = nil, progress: UInt64 = 0, before: UInt64? = nil,
    roundTrip: Int = 20, timeouts: Int = 0, timeout: Int? = nil,
    unacknowledged: Bool = true, resent: Int? = nil, resentBefore: UInt64 = 0,
    nextTimeout: Int? = nil
  ) -> (SocketEvidence, now: Instant) {
    let change = Instant(sinceStart: .seconds(10))
    let now = change.advanced(by: .milliseconds(after))
    let report = SocketReport(
      silence: .milliseconds(silence), dataSilence: data.map { .milliseconds($0) },
      progress: progress, inFlight: unacknowledged ? 10 : 0,
      roundTrip: .milliseconds(roundTrip), timeouts: timeouts,
      timeout: timeout.map { .milliseconds($0) }, hasUnacknowledgedData: unacknowledged,
      resent: UInt64(resent ?? timeouts), nextTimeout: nextTimeout.map { .milliseconds($0) })
    let known = before.map { SocketEvidence.Known(progress: $0, resent: resentBefore) }
    return (SocketEvidence(report, on: change, beyond: known, at: now), now)
  }

  /// The time of the report in milliseconds after the change, and the silence of the socket until
  /// then.
  private static let rulings: [(after: Int, silence: Int, roundTrip: Int, ruling: String)] = [
    // Silent for more than a second before the change: no evidence.
    (0, 1001, 20, "destroy"), (5, 5000, 20, "destroy"), (50, 2000, 300, "destroy"),
    // Received before it: wait for two round trips and 20 ms, at most 100 ms.
    (0, 1000, 20, "wait 60"), (0, 3, 20, "wait 60"), (59, 62, 20, "wait 60"),
    (60, 63, 20, "destroy"), (0, 3, 300, "wait 100"), (99, 102, 1000, "wait 100"),
    (100, 103, 300, "destroy"), (20, 23, 0, "destroy"), (19, 22, 0, "wait 20"),
    // Received after it, but the packets may have been in flight.
    (40, 10, 20, "wait 90"), (200, 50, 300, "wait 250"), (300, 101, 300, "destroy"),
    // Received too late for packets in flight.
    (60, 20, 20, "spare"), (400, 50, 300, "spare"), (1100, 0, 1000, "spare"),
    (30, 5, 0, "spare"), (5000, 100, 20, "spare"),
  ]

  @Test("E1 the ruling depends on when the socket last received data", arguments: Self.rulings)
  func ruling(row: (after: Int, silence: Int, roundTrip: Int, ruling: String)) {
    let (evidence, now) = Self.evidence(
      row.after, silence: row.silence, roundTrip: row.roundTrip, unacknowledged: false)
    let ruling =
      switch evidence.ruling(at: now) {
      case .destroy: "destroy"
      case .drain: "drain"
      case .spare: "spare"
      case .wait(let end):
        "wait \(evidence.change.duration(to: end).components.attoseconds / 1_000_000_000_000_000)"
      }
    #expect(ruling == row.ruling, "\(row)")
  }

  @Test("I2 an address of a failed link → the socket decides between alive, in doubt and dead")
  func stranded() {
    func severity(
      silence: Int, data: Int? = nil, timeouts: Int = 0, timeout: Int? = nil,
      unacknowledged: Bool = true, isTunnelled: Bool = false
    ) -> Invalidation.Severity? {
      let (evidence, now) = Self.evidence(
        0, silence: silence, data: data, timeouts: timeouts, timeout: timeout,
        unacknowledged: unacknowledged)
      return SocketEvidence.severityOfStranded(evidence, at: now, isTunnelled: isTunnelled)
    }
    #expect(SocketEvidence.severityOfStranded(nil, at: Instant(sinceStart: .zero)) == .advise)
    #expect(severity(silence: 900, unacknowledged: false) == nil)
    #expect(severity(silence: 1100, unacknowledged: false) == .advise)
    #expect(severity(silence: 1100) == .advise)
    #expect(severity(silence: 1100, timeouts: 2) == .advise)
    #expect(severity(silence: 5999, timeouts: 4) == .advise)
    #expect(severity(silence: 6000, timeouts: 5) == .destroy)
    // The peer retransmits.
    #expect(severity(silence: 300, data: 6000, timeouts: 5) == .destroy)
    // A route may shorten the timeouts (`rto_min`).
    #expect(severity(silence: 300, data: 6000, timeouts: 5, timeout: 160) == .advise)
    #expect(severity(silence: 6000, timeouts: 5, isTunnelled: true) == .advise)
  }

  @Test(
    "E1 retransmissions alone do not show that a peer is alive; an acknowledgement of new data does"
  )
  func copies() {
    // Received just now, but no new data since before the change.
    let (first, now) = Self.evidence(
      60, silence: 5, data: 70, progress: 7, unacknowledged: false)
    #expect(first.ruling(at: now) == .wait(until: now.advanced(by: .milliseconds(60))))
    let (copies, later) = Self.evidence(
      120, silence: 5, data: 130, progress: 7, before: 7, unacknowledged: false)
    #expect(copies.ruling(at: later) == .destroy)
    let (acknowledged, _) = Self.evidence(120, silence: 5, data: 130, progress: 8, before: 7)
    #expect(acknowledged.ruling(at: later) == .spare)
  }

  @Test("E1 the peer answers earlier data while the rest times out → not spared")
  func unanswered() {
    let (answered, now) = Self.evidence(1000, silence: 5, data: 600, progress: 7, timeouts: 1)
    #expect(answered.ruling(at: now) == .wait(until: now.advanced(by: .milliseconds(60))))
    let (still, later) = Self.evidence(
      1060, silence: 5, data: 660, progress: 7, before: 7, timeouts: 2)
    #expect(still.ruling(at: later) == .destroy)
    let (acknowledged, _) = Self.evidence(
      1060, silence: 5, data: 660, progress: 8, before: 7, timeouts: 2)
    #expect(acknowledged.ruling(at: later) == .spare)
    let (downloading, _) = Self.evidence(
      1060, silence: 5, data: 5, progress: 7, before: 7, unacknowledged: false)
    #expect(downloading.ruling(at: later) == .spare)
  }

  @Test("E1 the peer answers earlier data late → the flow's own data decides, when it is due")
  func lateAnswer() {
    let (answered, now) = Self.evidence(
      60, silence: 5, data: 5, progress: 7, nextTimeout: 180)
    #expect(answered.ruling(at: now) == .wait(until: now.advanced(by: .milliseconds(320))))
    let (timedOut, later) = Self.evidence(
      380, silence: 325, data: 325, progress: 7, before: 7, timeouts: 1)
    #expect(timedOut.ruling(at: later) == .destroy)
    let (acknowledged, _) = Self.evidence(380, silence: 5, data: 5, progress: 8, before: 7)
    #expect(acknowledged.ruling(at: later) == .spare)
  }

  @Test("E1 a flow that has lost packets gets the time of two timeouts if its link works")
  func lossy() {
    func ruling(
      _ after: Int, _ silence: Int, timeouts: Int? = nil, isUrgent: Bool = false, next: Int = 100
    ) -> SocketEvidence.Ruling {
      let (evidence, now) = Self.evidence(
        after, silence: silence, data: after + 3, progress: 7, before: 7, timeouts: timeouts ?? 0,
        unacknowledged: timeouts != nil, resent: 1, nextTimeout: next)
      return evidence.ruling(at: now, isUrgent: isUrgent)
    }
    let end = Instant(sinceStart: .milliseconds(10_600))
    #expect(ruling(300, 303) == .wait(until: end))
    #expect(ruling(600, 603) == .destroy)
    #expect(ruling(300, 303, isUrgent: true) == .destroy)
    let again = Instant(sinceStart: .milliseconds(10_840))
    #expect(ruling(600, 5, timeouts: 1) == .wait(until: again))
    #expect(ruling(600, 5, timeouts: 1, isUrgent: true) == .destroy)
    #expect(ruling(700, 5, timeouts: 2, next: 800) == .destroy)
    // A flow that was silent already may come back, as without a better path (E2).
    let later = Instant(sinceStart: .milliseconds(10_840))
    #expect(ruling(600, 603, timeouts: 2) == .wait(until: later))
    #expect(ruling(6000, 6003, timeouts: 4) == .destroy)
    #expect(ruling(600, 603, timeouts: 2, isUrgent: true) == .destroy)
  }

  @Test("E1 data that has timed out twice → no evidence, even if the peer retransmits")
  func timedOut() {
    let (evidence, now) = Self.evidence(0, silence: 5, data: 1700, timeouts: 2)
    #expect(evidence.ruling(at: now) == .destroy)
  }

  @Test("E2 retransmissions from the peer do not hide missing acknowledgements")
  func silentInOneDirection() {
    let (repeating, now) = Self.evidence(
      6000, silence: 5, data: 6001, progress: 7, before: 7, timeouts: 4)
    #expect(repeating.severityOfSilence(at: now) == .destroy)
    let (uploading, _) = Self.evidence(2000, silence: 5, data: 9000, progress: 7, timeouts: 0)
    #expect(!uploading.isSilent)
    let (slow, _) = Self.evidence(
      2000, silence: 5, data: 9000, progress: 8, before: 7, timeouts: 3)
    #expect(!slow.isSilent)
  }

  @Test("E2 the peer was heard after the change, then silent for a timeout → the flow is suspect")
  func heardAndLost() {
    for (silence, isSuspect) in [(5, false), (200, false), (201, true)] {
      let (evidence, now) = Self.evidence(1000, silence: silence, progress: 7)
      #expect(evidence.isSuspect == isSuspect, "\(silence) ms")
      #expect(evidence.severityOfSilence(at: now) == nil, "nothing has timed out yet")
    }
    #expect(!Self.evidence(1000, silence: 900, unacknowledged: false).0.isSuspect)
  }

  @Test("E2 the way to the peer is lost, and the peer sends on for a moment → silent all the same")
  func peerSendsOn() {
    let (found, now) = Self.evidence(
      6100, silence: 5, data: 6010, progress: 7, before: 7, timeouts: 4)
    #expect(found.severityOfSilence(at: now) == .destroy)
    let (first, then) = Self.evidence(1000, silence: 5, data: 910, progress: 7, timeouts: 2)
    #expect(first.severityOfSilence(at: then) == .advise)
    let (sending, _) = Self.evidence(
      1500, silence: 5, data: 1300, progress: 7, before: 7, timeouts: 3)
    #expect(!sending.isSilent && sending.isSuspect)
  }

  @Test("E2 timeouts that a route shortens count by their real length, and not before six seconds")
  func shortTimeouts() {
    func severity(_ after: Int, data: Int, timeouts: Int) -> Invalidation.Severity? {
      let (evidence, now) = Self.evidence(
        after, silence: 5, data: data, progress: 7, before: 7, timeouts: timeouts, timeout: 1000)
      return evidence.severityOfSilence(at: now)
    }
    #expect(severity(1000, data: 860, timeouts: 7) == nil)
    #expect(severity(1000, data: 900, timeouts: 7) == .advise)
    #expect(severity(6100, data: 5990, timeouts: 9) == .advise)
    #expect(severity(6100, data: 6000, timeouts: 9) == .destroy)
  }

  @Test("E2 timeouts at which nothing was sent again do not count")
  func unsent() {
    // The segment waits for the neighbour's MAC address.
    let (waiting, now) = Self.evidence(7000, silence: 7001, before: 0, timeouts: 5, resent: 0)
    #expect(waiting.countedTimeouts == 0)
    #expect(waiting.severityOfSilence(at: now) == nil)
    let (once, _) = Self.evidence(7000, silence: 7001, before: 0, timeouts: 5, resent: 1)
    #expect(once.severityOfSilence(at: now) == nil)
    let (twice, _) = Self.evidence(7000, silence: 7001, before: 0, timeouts: 5, resent: 2)
    #expect(twice.severityOfSilence(at: now) == .destroy)
    // Data that was sent again before the first query may have been sent before the change.
    let (earlier, _) = Self.evidence(
      7000, silence: 7001, before: 0, timeouts: 5, resent: 9, resentBefore: 8)
    #expect(earlier.severityOfSilence(at: now) == nil)
    #expect(earlier.severityOfSilence(at: now, assumed: 2) == .advise)
  }

  @Test("E2 timeouts before the change do not count")
  func timeoutsBefore() {
    // The last timeout was 0.3 s ago, the one before 0.8 s earlier, and so on.
    for (after, counted) in [(200, 0), (400, 1), (1000, 1), (1200, 2), (1600, 3), (9000, 3)] {
      let (evidence, _) = Self.evidence(
        after, silence: 9000, timeouts: 3, timeout: 1600, resent: 9, nextTimeout: 1300)
      #expect(evidence.countedTimeouts == counted, "\(after) ms")
    }
  }

  @Test("E2 probes of a closed window count, although nothing is sent again")
  func probes() {
    let report = SocketReport(
      silence: .seconds(7), roundTrip: .milliseconds(20), timeouts: 3, hasUnacknowledgedData: true)
    let now = Instant(sinceStart: .seconds(17))
    let evidence = SocketEvidence(report, on: Instant(sinceStart: .seconds(10)), at: now)
    #expect(evidence.severityOfSilence(at: now) == .destroy)
  }

  @Test("E2 timeouts hastened by ICMP destroy no sooner than six seconds after the change")
  func hastened() {
    let (early, now) = Self.evidence(5999, silence: 6000, timeouts: 9)
    #expect(early.severityOfSilence(at: now) == .advise)
  }

  @Test("E2 I5 inside a tunnel, silence destroys only after a VPN would have moved the tunnel")
  func tunnelled() {
    let (early, now) = Self.evidence(29_000, silence: 29_001, timeouts: 9)
    #expect(early.severityOfSilence(at: now, isTunnelled: true) == .advise)
    let (late, then) = Self.evidence(30_000, silence: 30_001, timeouts: 9)
    #expect(late.severityOfSilence(at: then, isTunnelled: true) == .destroy)
  }

  @Test("E2 two timeouts advise, and six seconds destroy, if data is unacknowledged")
  func silence() {
    for (after, timeouts, severity) in [
      (2000, 0, nil), (2000, 1, nil), (2000, 2, .advise), (5999, 9, .advise), (6000, 2, .destroy),
      (6000, 1, nil),
    ] as [(Int, Int, Invalidation.Severity?)] {
      let (silent, now) = Self.evidence(after, silence: after + 1, timeouts: timeouts)
      #expect(silent.severityOfSilence(at: now) == severity)
      let (acknowledged, _) = Self.evidence(
        after, silence: after + 1, timeouts: timeouts, unacknowledged: false)
      #expect(acknowledged.severityOfSilence(at: now) == nil)
      let (heard, _) = Self.evidence(after, silence: 500, timeouts: timeouts, resent: 0)
      #expect(heard.severityOfSilence(at: now) == nil)
    }
    // Data in flight at the change proves nothing.
    let (inFlight, now) = Self.evidence(2000, silence: 1900, roundTrip: 300, timeouts: 2)
    #expect(inFlight.severityOfSilence(at: now) == .advise)
  }

  @Test("E2 E3 the next query is due after the next timeout, or when the six seconds are over")
  func endOfWait() {
    for (timeouts, expected) in [(1, 5140), (2, 1000)] {
      let (evidence, now) = Self.evidence(
        5000, silence: 5001, timeouts: timeouts, timeout: 6000, nextTimeout: 5000)
      let next = evidence.nextQuestion(after: now, orAt: evidence.endOfWait())
      #expect(now.duration(to: next) == .milliseconds(expected))
    }
  }

  @Test("E3 a silent socket is queried again after its timer has expired, and never within 100 ms")
  func again() {
    let now = Instant(sinceStart: .seconds(11))
    for (timer, roundTrip, wait) in [
      (5, 20, 145), (45, 20, 185), (400, 20, 540), (nil, 20, 1140), (400, 300, 1100),
    ] as [(Int64?, Int64, Int64)] {
      let report = SocketReport(
        silence: .seconds(1), roundTrip: .milliseconds(roundTrip), hasUnacknowledgedData: true,
        nextTimeout: timer.map { .milliseconds($0) })
      let evidence = SocketEvidence(report, on: Instant(sinceStart: .seconds(10)), at: now)
      #expect(now.duration(to: evidence.nextQuestion(after: now)) == .milliseconds(wait))
    }
  }
}

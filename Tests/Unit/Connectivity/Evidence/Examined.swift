import Connectivity

@testable import ConnectivityRules

/// One flow, evaluated at times in milliseconds after a change.
struct Examined {
  /// When the change happened.
  static let change = Instant(sinceStart: .seconds(10))
  static let lost = FlowTracker.Verdict(.interfaceLost, .destroy)
  var examination = FlowExamination()

  mutating func see(
    _ verdict: FlowTracker.Verdict? = nil, after milliseconds: Int, silence: Int? = nil,
    data: Int? = nil, timeouts: Int = 0, isCertain: Bool = false, isStanding: Bool = true,
    isSound: Bool = false, isAcknowledged: Bool = false, progress: UInt64 = 0, resent: Int? = nil,
    contrast: Contrast? = nil
  ) -> String? {
    let now = Self.change.advanced(by: .milliseconds(milliseconds))
    // Data that was sent at the change times out after 0.2, 0.6, 1.4 s and so on.
    let expiry = timeouts == 0 ? milliseconds + 400 : 200 * (1 << (timeouts + 1) - 1)
    let report = silence.map {
      SocketReport(
        silence: .milliseconds($0), dataSilence: data.map { .milliseconds($0) },
        progress: progress, inFlight: isAcknowledged ? 0 : 10, roundTrip: .milliseconds(20),
        timeouts: timeouts, hasUnacknowledgedData: !isAcknowledged,
        resent: UInt64(resent ?? timeouts),
        nextTimeout: .milliseconds(max(100, expiry - milliseconds)))
    }
    let outcome = self.examination.conclude(
      .init(
        verdict, isCertain: isCertain, isDisputed: isStanding, isSound: isSound,
        change: Self.change, report: report, contrast: contrast, at: now))
    return switch outcome {
    case .none: nil
    case .recovered: "recovered"
    case .question: "ask"
    case .verdict(let verdict): "\(verdict.severity) \(verdict.reason)"
    }
  }

  /// Begins a query of its socket, which last received data 5 ms before the change, because of
  /// that change or a later one.
  mutating func suspect(
    after milliseconds: Int, becauseOf later: Int = 0, resent: UInt64 = 0
  ) {
    let change = Self.change.advanced(by: .milliseconds(later))
    let milliseconds = milliseconds - later
    let now = Self.change.advanced(by: .milliseconds(milliseconds))
    let report = SocketReport(
      silence: .milliseconds(milliseconds + later + 5), inFlight: 10,
      roundTrip: .milliseconds(20), hasUnacknowledgedData: true, resent: resent,
      nextTimeout: .milliseconds(400))
    self.examination.suspect(SocketEvidence(report, on: change, at: now), at: now)
  }

  var deadline: Duration? {
    self.examination.deadline.map { Self.change.duration(to: $0) }
  }
}

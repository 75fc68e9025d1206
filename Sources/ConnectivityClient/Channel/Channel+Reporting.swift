internal import Connectivity
private import NIOCore
private import Synchronization

/// When this process last found that the default way carried nothing while another one did.
///
/// Attempts that succeed count only beside others that did not. Until then they are not reported.
private let lastContrast = Mutex<ContinuousClock.Instant?>(nil)
/// How long an attempt counts (Q2).
private let attemptLife = Duration.seconds(60)

/// The channel's reports about the default way.
///
/// Implements rule Q2.
extension Channel {
  /// Reports that the other way was ready, if the default way was given enough time.
  ///
  /// - Parameters:
  ///   - others: The attempts that did not become ready.
  ///   - isBesideStalled: Whether a connection by the default way has stalled.
  func reportContrast(
    _ connection: Connection, with others: [Connection], isBesideStalled: Bool
  ) async {
    var isContrast = isBesideStalled
    for other in others where other.link == nil && !isContrast {
      isContrast = await other.isUnanswered()
    }
    guard isContrast else { return }
    lastContrast.withLock { $0 = .now }
    self.report(.contrast, connection)
  }

  /// Reports that the default way was ready, if it was not a short while ago.
  func reportReady(_ connection: Connection) async {
    let isTroubled = connection.path?.quality == .minimal
    let isRecent = lastContrast.withLock { last in
      last.map { $0.duration(to: .now) < attemptLife } ?? false
    }
    guard isTroubled || isRecent, self.settings.mayTakeOtherWay(to: connection.target.address.ip)
    else { return }
    self.report(await connection.hasRetransmitted() ? .ready : .clean, connection)
  }

  /// Reports to connd, without waiting for it.
  func report(_ outcome: AttemptOutcome, _ connection: Connection) {
    let address = connection.target.address
    guard let remote = address.ip else { return }
    let report = self.settings.report
    Task { await report(outcome, remote, address.ipPort) }
  }
}

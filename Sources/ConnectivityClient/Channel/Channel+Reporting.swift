internal import Connectivity
private import NIOCore
private import Synchronization

private let record = Mutex(DefaultWayRecord())

/// The channel's reports about the default way.
///
/// Implements rule Q2.
extension Channel {
  /// Reports a contrast (Q2): the other way was ready, and the default way had enough time to
  /// answer.
  ///
  /// - Parameters:
  ///   - others: The attempts that did not become ready.
  ///   - isBesideStalled: Whether a connection by the default way has stalled.
  func reportContrast(
    _ connection: Connection, with others: [Connection], isBesideStalled: Bool
  ) async {
    let silent = isBesideStalled ? nil : await self.unanswered(of: others)
    guard isBesideStalled || silent != nil else { return }
    let isContrast = record.withLock {
      $0.noteUnanswered(on: silent?.path?.interface, since: silent?.start ?? .now, at: .now)
    }
    if isContrast { self.report(.contrast, connection) }
  }

  /// How long the peer may take to answer the last SYN or packet. The kernel sends the second SYN
  /// after a second, just before the other way begins.
  private static let answerTime = Duration.milliseconds(250)

  /// Returns an attempt by the default way that gets no answer even within ``answerTime``, or `nil`
  /// if all are answered.
  private func unanswered(of attempts: [Connection]) async -> Connection? {
    var silent: [Connection] = []
    for attempt in attempts where attempt.link == nil {
      if await attempt.isUnanswered() { silent.append(attempt) }
    }
    guard !silent.isEmpty else { return nil }
    do { try await self.settings.eventLoop.sleep(for: Self.answerTime) } catch { return nil }
    for attempt in silent {
      if await attempt.isUnanswered() { return attempt }
    }
    return nil
  }

  /// Reports that the default way was ready, if an attempt by it failed recently (Q4) or its link
  /// limps.
  func reportReady(_ connection: Connection) async {
    guard self.settings.mayTakeOtherWay(to: connection.target.address.ip) else { return }
    let isClean = !(await connection.hasRetransmitted())
    let isReported = record.withLock { record in
      if isClean, let link = connection.path?.interface { record.noteClean(on: link, at: .now) }
      return record.reportsSuccess(at: .now)
    }
    guard isReported || connection.path?.quality == .minimal else { return }
    self.report(isClean ? .clean : .ready, connection)
  }

  /// Reports to connd, without waiting for an answer.
  func report(_ outcome: AttemptOutcome, _ connection: Connection) {
    let address = connection.target.address
    guard let remote = address.ip else { return }
    let report = self.settings.report
    Task { await report(outcome, remote, address.ipPort) }
  }
}

/// The last results of a process's attempts by the default way. The results determine the process's
/// reports to connd. The caller passes the time.
///
/// Implements rules Q2 and Q4.
struct DefaultWayRecord: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// How long the result of an attempt counts (Q2).
  private static let life = Duration.seconds(60)

  /// The time of the last contrast (Q2), or `nil` before the first one.
  private var contrast: Instant?
  /// When a connection on each link was last ready without a retransmission. IPv4 and IPv6 may use
  /// different links.
  private var clean: [String: Instant] = [:]

  /// Whether the process reports successful attempts. connd needs these reports only after a recent
  /// contrast.
  func reportsSuccess(at now: Instant) -> Bool {
    self.contrast.map { $0.duration(to: now) < Self.life } ?? false
  }

  /// Notes that a connection was ready without a retransmission.
  mutating func noteClean(on link: String, at now: Instant) {
    self.clean = self.clean.filter { $0.value.duration(to: now) < Self.life }
    self.clean[link] = now
  }

  /// Notes that an attempt had no answer, while a connection by another link was ready.
  ///
  /// - Parameter link: The link of the attempt, or `nil` if it is unknown.
  /// - Returns: Whether this is a contrast (Q2): no other connection on the link has been ready
  ///   without a retransmission since the attempt began.
  mutating func noteUnanswered(on link: String?, since start: Instant, at now: Instant) -> Bool {
    if let link, let clean = self.clean[link], clean >= start { return false }
    self.contrast = now
    return true
  }
}

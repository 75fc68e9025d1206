/// The last results of a process's attempts by the default way. They decide what the process
/// reports to connd. A value without a clock.
///
/// Implements rules Q2 and Q4.
struct DefaultWayRecord: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// How long an attempt counts (Q2).
  private static let life = Duration.seconds(60)

  /// The time of the last contrast, or `nil` before the first one.
  private var contrast: Instant?
  /// The times at which each link last carried a connection without a retransmission. IPv4 and IPv6
  /// may use different links.
  private var clean: [String: Instant] = [:]

  /// Whether the process reports successful attempts. connd needs them only beside a contrast.
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
  /// - Returns: Whether that is a contrast. It is not if the link carried another connection since
  ///   the attempt began.
  mutating func noteUnanswered(on link: String?, since start: Instant, at now: Instant) -> Bool {
    if let link, let clean = self.clean[link], clean >= start { return false }
    self.contrast = now
    return true
  }
}

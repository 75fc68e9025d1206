/// A channel's time on the other way, as a value (W7). Calls drive it, so that an unused channel
/// has no timer.
///
/// It ends with a connection that became ready by the default way without a retransmission, or
/// after two minutes. A change of the default path also ends it, without this value.
struct OtherWayStay: Sendable {
  typealias Instant = ContinuousClock.Instant

  enum Action: Hashable, Sendable {
    /// Try the default way beside the calls.
    case tryDefaultWay
    /// New calls take the default way.
    case end
  }

  /// How a trial of the default way ended.
  enum Outcome: Hashable, Sendable {
    /// Its connection became ready, but only after a retransmission.
    case limping
    case failed
  }

  static let maxDuration = Duration.seconds(120)
  /// The duration of a trial, and the time between the starts of two.
  static let trialInterval = Duration.seconds(5)

  private let start: Instant
  private var lastTrial: Instant
  private var isTrying = false
  /// Whether the last trial repeated one whose connection limped.
  private var isRepeated = false

  init(since start: Instant) {
    self.start = start
    // The default way has just failed.
    self.lastTrial = start
  }

  /// A call starts.
  mutating func called(at now: Instant) -> Action? {
    if self.start.duration(to: now) >= Self.maxDuration { return .end }
    guard !self.isTrying, self.lastTrial.duration(to: now) >= Self.trialInterval else {
      return nil
    }
    (self.isTrying, self.isRepeated, self.lastTrial) = (true, false, now)
    return .tryDefaultWay
  }

  /// A trial ended without a good connection. One that limped shows that packets pass again: it is
  /// repeated at once, so that calls return soon after the link is well.
  mutating func tried(_ outcome: Outcome) -> Action? {
    let repeats = outcome == .limping && !self.isRepeated
    (self.isTrying, self.isRepeated) = (repeats, repeats)
    return repeats ? .tryDefaultWay : nil
  }
}

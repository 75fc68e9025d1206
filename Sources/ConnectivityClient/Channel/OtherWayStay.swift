/// A channel's use of the other way, as a state machine (W7). Only calls advance it, so that an
/// unused channel has no timer.
///
/// The stay ends when a connection by the default way is ready without a retransmission, or after
/// two minutes. A change of the default path also ends it, but this value does not handle that.
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
    /// The trial's connection became ready, but only after a retransmission.
    case limping
    case failed
  }

  static let maxDuration = Duration.seconds(120)
  /// The duration of a trial, and the time between the starts of two trials.
  static let trialInterval = Duration.seconds(5)

  private let start: Instant
  private var lastTrial: Instant
  private var isTrying = false
  /// Whether the last trial repeated an ``Outcome/limping`` one.
  private var isRepeated = false

  init(since start: Instant) {
    self.start = start
    // The default way has just failed.
    self.lastTrial = start
  }

  /// Returns the action when a call starts, or `nil` to do nothing.
  mutating func called(at now: Instant) -> Action? {
    if self.start.duration(to: now) >= Self.maxDuration { return .end }
    guard !self.isTrying, self.lastTrial.duration(to: now) >= Self.trialInterval else {
      return nil
    }
    (self.isTrying, self.isRepeated, self.lastTrial) = (true, false, now)
    return .tryDefaultWay
  }

  /// Handles a trial that ended without a good connection. An ``Outcome/limping`` trial shows that
  /// packets pass again. It is repeated immediately, so that calls return soon after the link
  /// recovers.
  mutating func tried(_ outcome: Outcome) -> Action? {
    let repeats = outcome == .limping && !self.isRepeated
    (self.isTrying, self.isRepeated) = (repeats, repeats)
    return repeats ? .tryDefaultWay : nil
  }
}

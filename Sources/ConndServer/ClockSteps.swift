import Connectivity

/// Notices when the wall clock is set: a machine without a real-time clock wakes up years ago, and NTP corrects that.
///
/// The boot clock (CLOCK_BOOTTIME) never jumps. How far the two clocks are apart says by how much the wall clock was set.
/// NTP also slews the wall clock; that counts once it adds up to a second.
struct ClockSteps: Hashable, Sendable {
  private var distance: Duration?

  private static let leastStep = Duration.seconds(1)

  init() {}

  /// - Parameters:
  ///   - now: The moment by the boot clock.
  ///   - time: The same moment by the wall clock.
  init(from now: Instant, _ time: Timestamp) { self.distance = Self.distance(now, time) }

  /// Takes both clocks' readings of one moment.
  ///
  /// - Returns: By how much the wall clock was set since the last reading, or `nil` if it was not.
  mutating func step(to now: Instant, _ time: Timestamp) -> Duration? {
    let distance = Self.distance(now, time)
    guard let last = self.distance else {
      self.distance = distance
      return nil
    }
    let step = distance - last
    guard step >= Self.leastStep || step <= .zero - Self.leastStep else { return nil }
    self.distance = distance
    return step
  }

  private static func distance(_ now: Instant, _ time: Timestamp) -> Duration {
    Duration.microseconds(time.microseconds) - now.sinceStart
  }
}

/// A moment of this run. Its wall-clock time stays right if that clock is set.
struct Moment: Hashable, Sendable {
  private let recorded: Timestamp
  private let clock: ClockSteps

  /// The present.
  init() {
    let now = Instant.now()
    self.recorded = .now()
    self.clock = ClockSteps(from: now, self.recorded)
  }

  /// The moment by the wall clock as that is set now.
  var time: Timestamp {
    var clock = self.clock
    let step = clock.step(to: .now(), .now())
    return step.map { self.recorded.advanced(by: $0) } ?? self.recorded
  }
}

import Connectivity

/// Notices when the wall clock is set. A machine without a real-time clock boots years in the past,
/// and NTP corrects that.
///
/// The boot clock (CLOCK_BOOTTIME) never jumps, so a change of the difference between the two
/// clocks shows a step. NTP also slews the wall clock, which counts once it adds up to a second.
///
/// Implements rule T4.
struct ClockSteps: Hashable, Sendable {
  private var distance: Duration?

  private static let minStep = Duration.seconds(1)

  init() {}

  /// - Parameters:
  ///   - now: The moment by the boot clock.
  ///   - time: The same moment by the wall clock.
  init(from now: Instant, _ time: WallTime) { self.distance = Self.distance(now, time) }

  /// Compares both clocks' readings of one moment with their last readings.
  ///
  /// - Returns: By how much the wall clock was set since the last reading, or `nil` if it was not.
  mutating func step(to now: Instant, _ time: WallTime) -> Duration? {
    let distance = Self.distance(now, time)
    guard let last = self.distance else {
      self.distance = distance
      return nil
    }
    let step = distance - last
    guard step >= Self.minStep || step <= .zero - Self.minStep else { return nil }
    self.distance = distance
    return step
  }

  private static func distance(_ now: Instant, _ time: WallTime) -> Duration {
    Duration.microseconds(time.microseconds) - now.sinceStart
  }
}

/// A moment of this run. Its wall-clock time stays correct if that clock is set.
struct Moment: Hashable, Sendable {
  private let recorded: WallTime
  private let clock: ClockSteps

  /// Creates the current moment.
  init() {
    let now = Instant.now()
    self.recorded = .now()
    self.clock = ClockSteps(from: now, self.recorded)
  }

  /// The moment by the wall clock as it is set now.
  var time: WallTime {
    var clock = self.clock
    let step = clock.step(to: .now(), .now())
    return step.map { self.recorded.advanced(by: $0) } ?? self.recorded
  }
}

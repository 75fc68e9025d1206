/// Decides when an open view reads data and when it draws. The caller passes the time.
struct ViewSchedule: Sendable {
  /// The interval between readings.
  private static let period = Duration.seconds(2)
  /// The minimum intervals between drawings and between readings.
  private static let minInterval = Duration.milliseconds(100)
  private static let minReadingInterval = Duration.milliseconds(500)

  struct Step: Hashable, Sendable {
    /// Whether to read now.
    var reads: Bool
    /// Whether to draw now.
    var draws: Bool
    /// The time until the next step, unless something happens before.
    var pause: Duration
  }

  private var nextReading: ContinuousClock.Instant
  private var lastReading: ContinuousClock.Instant?
  private var nextFrame: ContinuousClock.Instant
  private var isStale = true
  private var allowance: OutputBudget

  init(at now: ContinuousClock.Instant) {
    (self.nextReading, self.nextFrame) = (now, now)
    self.allowance = OutputBudget(at: now)
  }

  /// Records that the shown content may be out of date.
  mutating func changed() { self.isStale = true }

  /// Records that the data to be read may have changed.
  mutating func readSoon(at now: ContinuousClock.Instant) {
    let soonest = self.lastReading?.advanced(by: Self.minReadingInterval) ?? now
    self.nextReading = min(self.nextReading, max(now, soonest))
  }

  /// Records that the user needs a complete redraw now, because the window was resized or was not
  /// visible.
  mutating func restart(at now: ContinuousClock.Instant) {
    (self.nextReading, self.nextFrame, self.isStale) = (now, now, true)
  }

  mutating func step(at now: ContinuousClock.Instant) -> Step {
    let reads = now >= self.nextReading
    if reads {
      self.lastReading = now
      self.nextReading = now.advanced(by: Self.period)
      self.isStale = true
    }
    let draws = self.isStale && now >= self.nextFrame
    var next = self.nextReading
    if draws { self.isStale = false } else if self.isStale { next = min(next, self.nextFrame) }
    return Step(reads: reads, draws: draws, pause: max(.zero, now.duration(to: next)))
  }

  /// Records that this many bytes were written.
  mutating func drew(_ bytes: Int, at now: ContinuousClock.Instant) {
    self.allowance.spend(bytes, at: now)
    self.nextFrame = now.advanced(by: max(Self.minInterval, self.allowance.pause(at: now)))
  }
}

/// When a view that is open reads what nobody tells it, and when it draws. A value without a clock of its own.
struct ViewSchedule: Sendable {
  /// How often it reads.
  private static let period = Duration.seconds(2)
  /// However much happens, it draws and reads no more often.
  private static let shortest = Duration.milliseconds(100)
  private static let shortestReading = Duration.milliseconds(500)

  struct Step: Hashable, Sendable {
    /// It is time to read.
    var reads: Bool
    /// It is time to draw.
    var draws: Bool
    /// Until the next step, if nothing comes before.
    var pause: Duration
  }

  private var nextReading: ContinuousClock.Instant
  private var lastReading: ContinuousClock.Instant?
  private var nextFrame: ContinuousClock.Instant
  private var isStale = true
  private var allowance: Allowance

  init(at now: ContinuousClock.Instant) {
    (self.nextReading, self.nextFrame) = (now, now)
    self.allowance = Allowance(at: now)
  }

  /// What is shown may not be so any more.
  mutating func changed() { self.isStale = true }

  /// What is to be read may be another.
  mutating func readSoon(at now: ContinuousClock.Instant) {
    let soonest = self.lastReading?.advanced(by: Self.shortestReading) ?? now
    self.nextReading = min(self.nextReading, max(now, soonest))
  }

  /// The user wants to see it whole, now: the window has another size, or was not looked at.
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

  /// So many bytes were written.
  mutating func drew(_ bytes: Int, at now: ContinuousClock.Instant) {
    self.allowance.spend(bytes, at: now)
    self.nextFrame = now.advanced(by: max(Self.shortest, self.allowance.pause(at: now)))
  }
}

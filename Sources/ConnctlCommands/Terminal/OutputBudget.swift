/// Limits the output to a terminal view to one megabyte per hour, so that it may stay open over a
/// metered connection. A token bucket.
struct OutputBudget: Sendable {
  /// The size of the bucket in bytes, and the bytes added per second: 60 KB + 3600 × 260 B are less
  /// than a megabyte.
  private static let maxTokens = 60_000.0
  private static let rate = 260.0

  private var left = Self.maxTokens
  private var noted: ContinuousClock.Instant

  init(at now: ContinuousClock.Instant) { self.noted = now }

  /// Records output.
  mutating func spend(_ bytes: Int, at now: ContinuousClock.Instant) {
    self.earn(until: now)
    self.left -= Double(bytes)
  }

  /// Returns how long to pause, or zero if output is allowed.
  mutating func pause(at now: ContinuousClock.Instant) -> Duration {
    self.earn(until: now)
    return self.left >= 0 ? .zero : .seconds(-self.left / Self.rate)
  }

  private mutating func earn(until now: ContinuousClock.Instant) {
    self.left = min(
      Self.maxTokens, self.left + self.noted.duration(to: now) / .seconds(1) * Self.rate)
    self.noted = now
  }
}

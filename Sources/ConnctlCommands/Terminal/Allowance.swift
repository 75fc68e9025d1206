/// What may be written to a terminal that is looked at for long: a megabyte an hour at most, so that a view may stay open over a
/// connection that is paid for by use. A token bucket.
struct Allowance: Sendable {
  /// Bytes that may be written at once, and those that are added in a second: 60 KB + 3600 × 260 B are less than a megabyte.
  private static let most = 60_000.0
  private static let rate = 260.0

  private var left = Self.most
  private var noted: ContinuousClock.Instant

  init(at now: ContinuousClock.Instant) { self.noted = now }

  /// Something was written.
  mutating func spend(_ bytes: Int, at now: ContinuousClock.Instant) {
    self.earn(until: now)
    self.left -= Double(bytes)
  }

  /// How long nothing is to be written; zero where something may.
  mutating func pause(at now: ContinuousClock.Instant) -> Duration {
    self.earn(until: now)
    return self.left >= 0 ? .zero : .seconds(-self.left / Self.rate)
  }

  private mutating func earn(until now: ContinuousClock.Instant) {
    self.left = min(Self.most, self.left + self.noted.duration(to: now) / .seconds(1) * Self.rate)
    self.noted = now
  }
}

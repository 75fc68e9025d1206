import Connectivity

/// Allows something a number of times in a row, and then at a steady rate.
struct TokenBucket: Sendable {
  private let burst: Int
  private let interval: Duration
  /// When all tokens will be back, or `nil` if none has been taken.
  private var full: Instant?

  /// - Parameters:
  ///   - burst: The number of times in a row.
  ///   - interval: The time until one more token is available.
  init(burst: Int, interval: Duration) {
    self.burst = burst
    self.interval = interval
  }

  /// Takes a token.
  ///
  /// - Returns: Whether there was one.
  mutating func take(at now: Instant) -> Bool {
    guard self.delay(at: now) == .zero else { return false }
    self.full = max(self.full ?? now, now).advanced(by: self.interval)
    return true
  }

  /// Returns the time until a token is available.
  func delay(at now: Instant) -> Duration {
    guard let full, full > now else { return .zero }
    return max(.zero, now.duration(to: full) - self.interval * (self.burst - 1))
  }

  /// Whether all tokens are back.
  func isFull(at now: Instant) -> Bool { self.full.map { $0 <= now } ?? true }
}

/// The time at which the first of several answers expires.
struct Expiry {
  private var earliest: SuspendingClock.Instant?

  /// The kernel rounds down to 1/100 s, and keeps a route for one more tick, which is at most 1/100
  /// s. After both, the route has certainly expired.
  private static let slack = Duration.milliseconds(20)

  /// - Parameter now: A time at which the answer was valid. Like this clock, the kernel's clock for
  ///   expiry stops while the machine sleeps.
  mutating func note(_ route: RouteMessage, now: SuspendingClock.Instant = .now) {
    guard let remaining = route.remaining else { return }
    let end = now + remaining + Self.slack
    self.earliest = self.earliest.map { min($0, end) } ?? end
  }

  /// Returns the time left and resets it, or `nil` if no expiry was noted.
  mutating func take(now: SuspendingClock.Instant = .now) -> Duration? {
    defer { self.earliest = nil }
    return self.earliest.map { max(.zero, now.duration(to: $0)) }
  }
}

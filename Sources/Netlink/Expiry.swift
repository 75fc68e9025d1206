/// The time at which the first of some answers ceases to hold.
struct Expiry {
  private var earliest: SuspendingClock.Instant?

  /// The kernel rounds down to a hundredth of a second, and keeps a route for one tick more, of which there are at least a
  /// hundred a second too: after both the route has really expired.
  private static let slack = Duration.milliseconds(20)

  /// - Parameter now: A moment at which the answer was there. The kernel's clock for this stands still while the machine
  ///   sleeps, as this one does.
  mutating func note(_ route: RouteMessage, now: SuspendingClock.Instant = .now) {
    guard let remaining = route.remaining else { return }
    let end = now + remaining + Self.slack
    self.earliest = self.earliest.map { min($0, end) } ?? end
  }

  /// What is left until then, and nothing is noted any more.
  mutating func take(now: SuspendingClock.Instant = .now) -> Duration? {
    defer { self.earliest = nil }
    return self.earliest.map { max(.zero, now.duration(to: $0)) }
  }
}

/// The breakers of destinations, by key. Keeps only breakers with refutations, each for a limited
/// time.
struct BreakerTable<Key: Hashable & Sendable>: Sendable {
  typealias Instant = Breaker.Instant

  /// How long a refutation counts. For an open breaker, this time starts at the end of the rest.
  static var lifetime: Duration { .seconds(60 * 60) }
  /// The maximum number of destinations. Beyond that, the oldest is forgotten.
  static var maxCount: Int { 256 }

  private struct Entry {
    var breaker: Breaker
    var lastChange: Instant

    var expiry: Instant {
      max(self.lastChange, self.breaker.restEnd ?? self.lastChange) + BreakerTable.lifetime
    }
  }

  private var entries: [Key: Entry] = [:]

  var count: Int { self.entries.count }

  /// Whether a connection to the destination that starts now should be guarded.
  func allowsGuarding(_ key: Key, now: Instant) -> Bool {
    self.entries[key]?.breaker.allowsGuarding(now: now) ?? true
  }

  /// Changes the breaker of a destination.
  mutating func update<Result>(
    _ key: Key, now: Instant, _ change: (inout Breaker) -> Result
  ) -> Result {
    let known = self.entries[key].flatMap { $0.expiry > now ? $0.breaker : nil }
    var breaker = known ?? Breaker()
    let result = change(&breaker)
    if breaker.isAtRest {
      self.entries[key] = nil
    } else if breaker != known {
      self.entries[key] = Entry(breaker: breaker, lastChange: now)
      self.prune(now)
    }
    return result
  }

  private mutating func prune(_ now: Instant) {
    self.entries = self.entries.filter { $0.value.expiry > now }
    guard self.entries.count > Self.maxCount else { return }
    if let oldest = self.entries.min(by: { $0.value.lastChange < $1.value.lastChange }) {
      self.entries[oldest.key] = nil
    }
  }
}

/// Whether a channel's connections are guarded (I11), as a value: an error of connd's must not take a network away.
///
/// ```
///              refuted three times running
///   closed ────────────────────────────────▶ open ──┐
///     ▲                                       │ ▲   │ refuted after the rest:
///     └──────── confirmed after the rest ─────┘ └───┘ open for twice as long
/// ```
///
/// A connection is refuted where connd answers with `destroy` as soon as it is told of it: it was made a moment ago, so
/// it works. Any other answer confirms it. While the breaker is open, connections are not guarded: for five minutes
/// from the third refutation on. Then one is guarded on trial. Each trial that fails doubles the rest, to an hour at most.
struct Breaker: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// So many refutations running open it.
  static let limit = 3
  static let shortestRest: Duration = .seconds(5 * 60)
  static let longestRest: Duration = .seconds(60 * 60)

  private enum State {
    /// Connections are guarded, and so many of the last ones were refuted.
    case closed(refutations: Int)
    /// Connections are guarded again from this instant on, after a rest of this length.
    case open(until: Instant, rest: Duration)
  }

  private var state = State.closed(refutations: 0)

  /// Whether a connection that begins now is to be guarded.
  func allowsGuarding(now: Instant) -> Bool {
    switch self.state {
    case .closed: true
    case .open(let end, _): now >= end
    }
  }

  /// A connection was declared dead as soon as it was registered.
  ///
  /// - Returns: For how long connections are not guarded, where this opens the breaker; else `nil`.
  mutating func refuted(now: Instant) -> Duration? {
    let rest: Duration
    switch self.state {
    case .closed(let refutations) where refutations + 1 < Self.limit:
      self.state = .closed(refutations: refutations + 1)
      return nil
    case .closed: rest = Self.shortestRest
    // Of a connection that was registered before.
    case .open(let end, _) where now < end: return nil
    case .open(_, let last): rest = min(last * 2, Self.longestRest)
    }
    self.state = .open(until: now + rest, rest: rest)
    return rest
  }

  /// A connection was registered, and not declared dead.
  mutating func confirmed(now: Instant) {
    if self.allowsGuarding(now: now) { self.state = .closed(refutations: 0) }
  }
}

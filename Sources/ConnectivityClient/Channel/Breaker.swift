internal import Connectivity
internal import ConnectivitySession
private import Synchronization

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
/// it works. Or where connd sees no path for it then, and declares what it was made on gone without having seen one since. A path
/// confirms it.
/// While the breaker is open, connections are not guarded: for five minutes
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

  /// Nothing was counted.
  var isAtRest: Bool { if case .closed(0) = self.state { true } else { false } }

  /// A connection was declared dead of which connd never saw that it works.
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

  /// connd saw a path for a connection that was registered.
  mutating func confirmed(now: Instant) {
    if self.allowsGuarding(now: now) { self.state = .closed(refutations: 0) }
  }
}

extension Breaker {
  /// Heeds what connd says of a flow, where that says something of connd.
  ///
  /// - Returns: As ``refuted(now:)``.
  mutating func heed(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ novelty: ConnectionGuard.Novelty, now: Instant
  ) -> Duration? {
    switch novelty {
    case .answer, .verdict, .outcome: break
    case .again, .change: return nil
    }
    switch event {
    case .refused: return nil
    // Of what a network costs, that a connection works says nothing.
    case .invalidation(let invalidation) where invalidation.reason == .policy: return nil
    // Of a better path, or of a sleep, a connection that works may die, too.
    case .invalidation(let invalidation) where novelty == .outcome && invalidation.isSurvivable:
      return nil
    case .invalidation where event.destroys: return self.refuted(now: now)
    // What it comes to is told later.
    case .invalidation: return nil
    case .path(let path), .betterPathGone(let path):
      guard path.status == .satisfied else { return nil }
      // Before the connection is made, that there is a path says little; but one to this machine itself is not registered
      // again.
      if flow.local != nil || flow.remote.isLoopback { self.confirmed(now: now) }
      return nil
    }
  }
}

/// The breakers of connections that have no channel of the library's, by where they lead to.
enum Breakers {
  struct Place: Hashable, Sendable {
    /// The path of connd's socket.
    var socket: String
    var remote: IPAddress
    var port: UInt16
  }

  /// Those that have counted something.
  private static let all = Mutex<[Place: Breaker]>([:])

  static func allowGuarding(of place: Place) -> Bool {
    self.all.withLock { $0[place]?.allowsGuarding(now: .now) ?? true }
  }

  static func heed(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ novelty: ConnectionGuard.Novelty,
    to place: Place
  ) {
    self.all.withLock { all in
      var breaker = all[place] ?? Breaker()
      _ = breaker.heed(event, of: flow, novelty, now: .now)
      all[place] = breaker.isAtRest ? nil : breaker
    }
  }
}

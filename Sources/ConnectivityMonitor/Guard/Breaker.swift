package import Connectivity
private import Synchronization

/// Decides whether a channel's connections are guarded (I11). An error of connd must not cost an
/// application its network.
///
/// ```
///              refuted three times in a row
///   closed ────────────────────────────────▶ open ──┐
///     ▲                                       │ ▲   │ refuted after the rest:
///     └──────── confirmed after the rest ─────┘ └───┘ open for twice as long
/// ```
///
/// connd refutes a connection by answering the registration with `destroy`. The connection was made
/// a moment ago, so it works and connd is wrong. connd also refutes a connection if it sees no path
/// at registration, and later ends the connection without having seen a path in between. A path
/// confirms a connection.
///
/// The third refutation in a row opens the breaker: connections are not guarded for five minutes,
/// the *rest*. Then connections are guarded on trial. Each refuted trial doubles the rest, up to
/// one hour.
struct Breaker: Hashable, Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The number of consecutive refutations that opens the breaker.
  static let limit = 3
  static let minRest: Duration = .seconds(5 * 60)
  static let maxRest: Duration = .seconds(60 * 60)

  private enum State: Hashable {
    /// Connections are guarded. Counts the latest consecutive refutations.
    case closed(refutations: Int)
    /// Connections are guarded again from this instant on, after a rest of this length.
    case open(until: Instant, rest: Duration)
  }

  private var state = State.closed(refutations: 0)

  /// Whether a connection that starts now should be guarded.
  func allowsGuarding(now: Instant) -> Bool {
    switch self.state {
    case .closed: true
    case .open(let end, _): now >= end
    }
  }

  /// Whether the breaker is closed and has no refutations.
  var isAtRest: Bool { if case .closed(0) = self.state { true } else { false } }

  /// The end of the rest, or `nil` if the breaker is closed.
  var restEnd: Instant? { if case .open(let end, _) = self.state { end } else { nil } }

  /// Records that connd ended a connection without ever having seen it work.
  ///
  /// - Returns: How long connections stay unguarded if this opens the breaker, or `nil`.
  mutating func refuted(now: Instant) -> Duration? {
    let rest: Duration
    switch self.state {
    case .closed(let refutations) where refutations + 1 < Self.limit:
      self.state = .closed(refutations: refutations + 1)
      return nil
    case .closed: rest = Self.minRest
    // The connection was registered before the breaker opened.
    case .open(let end, _) where now < end: return nil
    case .open(_, let last): rest = min(last * 2, Self.maxRest)
    }
    self.state = .open(until: now + rest, rest: rest)
    return rest
  }

  /// Records that connd saw a path for a registered connection.
  mutating func confirmed(now: Instant) {
    if self.allowsGuarding(now: now) { self.state = .closed(refutations: 0) }
  }
}

extension Breaker {
  /// Records an event of a flow, if it shows whether connd is right.
  ///
  /// - Returns: See ``refuted(now:)``.
  mutating func record(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ phase: GuardMachine.EventPhase, now: Instant
  ) -> Duration? {
    switch phase {
    case .answer, .verdict, .outcome: break
    case .again, .change: return nil
    }
    switch event {
    case .refused: return nil
    // A working connection proves nothing about the cost of its network.
    case .invalidation(let invalidation) where invalidation.reason == .policy: return nil
    // A better path or a sleep may end a working connection, too.
    case .invalidation(let invalidation) where phase == .outcome && invalidation.isSurvivable:
      return nil
    case .invalidation where event.destroys: return self.refuted(now: now)
    // The outcome comes in a later event.
    case .invalidation: return nil
    case .path(let path), .betterPathGone(let path):
      guard path.status == .satisfied else { return nil }
      // Before the connection is made, a path proves little. But a loopback connection is not
      // registered again, so its first path counts.
      if flow.local != nil || flow.remote.isLoopback { self.confirmed(now: now) }
      return nil
    }
  }
}

/// A breaker for a set of connections. Safe to use from any thread.
package protocol GuardBreaker: Sendable {
  /// Whether a connection that starts now should be guarded.
  var allowsGuarding: Bool { get }
  /// Records an event of a flow, if it shows whether connd is right.
  ///
  /// - Returns: How long connections stay unguarded if this opens the breaker, or `nil`.
  func record(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ phase: GuardMachine.EventPhase
  ) -> Duration?
}

/// The breaker of one channel of this library.
package final class ChannelBreaker: GuardBreaker {
  private let breaker = Mutex(Breaker())

  package init() {}

  package var allowsGuarding: Bool { self.breaker.withLock { $0.allowsGuarding(now: .now) } }

  package func record(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ phase: GuardMachine.EventPhase
  ) -> Duration? {
    self.breaker.withLock { $0.record(event, of: flow, phase, now: .now) }
  }
}

/// The breaker of all connections to one destination that do not belong to a channel of this
/// library.
package struct DestinationBreaker: GuardBreaker, Hashable {
  /// The path of connd's socket.
  var socket: String
  var remote: IPAddress
  var port: UInt16

  package init(_ flow: FlowGuard.Flow, socket: String) {
    self.socket = socket
    self.remote = flow.remote
    self.port = flow.transport?.remotePort ?? 0
  }

  /// Why a connection is not guarded while its breaker is open.
  package static let openReason = ConndError(
    .breakerOpen, "connd wrongly rejected new connections")

  private static let all = Mutex(BreakerTable<DestinationBreaker>())

  package var allowsGuarding: Bool { Self.all.withLock { $0.allowsGuarding(self, now: .now) } }

  package func record(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ phase: GuardMachine.EventPhase
  ) -> Duration? {
    Self.all.withLock { all in
      all.update(self, now: .now) { $0.record(event, of: flow, phase, now: .now) }
    }
  }
}

public import Connectivity

/// An event of a guarded connection: of a gRPC channel, a SwiftNIO channel or a socket.
///
/// Implements rule C10.
@nonexhaustive public enum ConnectionEvent: Hashable, Sendable {
  /// The connection's path: the first one, and each later one that differs in a property that
  /// ``PathMonitor`` compares. A gRPC channel also reports the path of a new connection if it
  /// differs from that of the previous one.
  case pathChanged(KernelPath)
  /// Packets can be sent and received again, or a new connection has replaced the previous one.
  case viable
  /// No packets can be sent and received. The connection may become viable again, unless connd
  /// reported that it is dead (``NotViableReason/invalidated(_:)``).
  case notViable(NotViableReason)
  /// The kernel now prefers another path. By default connd has the connection destroyed a second
  /// later, unless the better path is gone by then or the connection's socket shows that it is
  /// alive (I3).
  case betterPathAvailable
  /// No better path exists any more: the kernel prefers this connection's path again, or a new
  /// connection uses the better path.
  case betterPathGone
  /// connd reported that the connection is dead (`destroy`), in doubt (`advise`) or to be replaced
  /// (`drain`), as the severity says. The library reacts as configured. A dead connection is then
  /// also ``notViable(_:)``; one with a better path still works.
  case invalidated(InvalidationError)
  /// connd asked whether the peer is alive, and the library sends a probe (E4).
  case asked
  /// The connection is not guarded (C7, I11). If connd cannot be used now, guarding begins later,
  /// and the next event is about the path. It never begins for this connection after
  /// ``ConndError/Code/notGuardable``, ``ConndError/Code/breakerOpen``,
  /// ``ConndError/Code/invalidRequest``, and if connd has accepted as many connections of this user
  /// as it allows (``ConndError/Code/limitReached``).
  case unguarded(ConndError)

  /// The reason why a connection is not viable.
  @nonexhaustive public enum NotViableReason: Hashable, Sendable {
    /// The path passes no traffic. The value is the reason, or `nil` if connd does not know it.
    case path(KernelPath.Reason?)
    /// connd reported that the connection is dead.
    case invalidated(Invalidation.Reason)
  }
}

extension ConnectionEvent.NotViableReason: CustomStringConvertible {
  /// The reason in a few words. The wording may change.
  public var description: String {
    switch self {
    case .path(let reason): reason?.text ?? "unknown"
    case .invalidated(let reason): reason.text
    }
  }
}

/// The events of a connection, or of the connections of a gRPC channel, in order.
///
/// Each sequence is a separate subscription, for one task. The present state comes first, as far as
/// it is known: the path, why the connection is not viable, whether a better path exists, and why
/// the connection is not guarded. A slow reader receives only the last 64 events. The events end
/// with the guard or the channel.
public struct ConnectionEvents: AsyncSequence, Sendable {
  public typealias Element = ConnectionEvent

  private let stream: AsyncStream<ConnectionEvent>
  /// The guard, which exists as long as a task reads its events.
  private let source: (any Sendable)?

  package init(_ stream: AsyncStream<ConnectionEvent>, of source: (any Sendable)? = nil) {
    (self.stream, self.source) = (stream, source)
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: self.stream.makeAsyncIterator(), source: self.source)
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    var base: AsyncStream<ConnectionEvent>.AsyncIterator
    let source: (any Sendable)?

    /// Returns the next event, or `nil` at the end or if the task was cancelled.
    public mutating func next() async -> ConnectionEvent? { await self.next(isolation: nil) }

    /// Returns the next event without leaving the caller's actor, or `nil` at the end or if the
    /// task was cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> ConnectionEvent? {
      await self.base.next(isolation: isolation)
    }
  }
}

/// The state of a channel, as in gRPC's connectivity-semantics-and-api document.
@nonexhaustive public enum ConnectivityState: String, Hashable, Sendable, CaseIterable {
  /// The channel has no connection and is not making one, because no call needs it.
  ///
  /// A channel also becomes idle if its connection closes or breaks while no call uses it. The
  /// document reserves ``transientFailure`` for failures "while expecting successful
  /// communication", and gRPC's own pick-first policy also goes from ready to idle.
  case idle
  /// A connection is being made, from name resolution to the server's HTTP/2 SETTINGS.
  case connecting
  /// Calls can start.
  case ready
  /// The connection failed, broke while calls used it, or lost its network. The next call retries:
  /// immediately if the network was lost, otherwise after the backoff.
  case transientFailure
  /// The channel makes no more connections.
  case shutdown
}

/// The states of a channel, in order: the current one, and then each new one. Ends after
/// ``ConnectivityState/shutdown``.
///
/// Each sequence is a separate subscription, for one task. A slow reader receives only the last
/// 64 states.
public struct ConnectivityStates: AsyncSequence, Sendable {
  public typealias Element = ConnectivityState

  let stream: AsyncStream<ConnectivityState>

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(base: self.stream.makeAsyncIterator())
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    var base: AsyncStream<ConnectivityState>.AsyncIterator

    /// Returns the next state, or `nil` at the end or if the task was cancelled.
    public mutating func next() async -> ConnectivityState? { await self.next(isolation: nil) }

    /// Returns the next state without leaving the caller's actor, or `nil` at the end or if the
    /// task was cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> ConnectivityState? {
      await self.base.next(isolation: isolation)
    }
  }
}

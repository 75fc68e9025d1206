public import ConnectivitySession

/// Follows connd: the present status, and then every change, in order, also across restarts of connd.
///
/// ```swift
/// for await event in StatusStream() {
///   if case .change(.transition(let transition)) = event { … }
/// }
/// ```
///
/// 1. The first element is a snapshot; with `since` it is the first change after that generation, or a gap where
///    connd no longer knows it; `disconnected` where connd is not there.
/// 2. The stream ends only with its task. A connection that is lost is told once, tried again after 100 ms, then in
///    growing pauses of at most 2 s, and resumed from the last generation seen.
/// 3. Elements are fetched as they are asked for: who is slow gets gaps, not memory.
///
/// Each iterator has its own connection and belongs to one task.
public struct StatusStream: AsyncSequence, Sendable {
  public typealias Element = StatusEvent

  private let socket: String
  private let since: UInt64?
  private let kinds: Set<EventKind>

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - since: The last generation that is known already; `nil` for none.
  ///   - events: The kinds of changes to be told of; empty means all.
  public init(
    socket: String = SocketPath.default, since: UInt64? = nil, events: Set<EventKind> = []
  ) {
    self.socket = socket
    self.since = since
    self.kinds = events
  }

  /// A kind of change.
  public typealias EventKind = StatusEvent.Kind

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(
      subscription: Subscription(socket: self.socket, since: self.since, kinds: self.kinds))
  }

  /// One connection to connd, kept up until the iterator goes.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let subscription: Subscription

    /// The next event; `nil` when the task was cancelled.
    public mutating func next() async -> StatusEvent? { await self.next(isolation: nil) }

    /// The next event, without leaving the caller's actor; `nil` when the task was cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> StatusEvent? {
      await self.subscription.events.next(isolation: isolation)
    }
  }
}

/// The task behind an iterator. It ends with the iterator.
final class Subscription: Sendable {
  let events: Handoff<StatusEvent>
  private let task: Task<Void, Never>

  init(socket: String, since: UInt64?, kinds: Set<StatusEvent.Kind>) {
    let events = Handoff<StatusEvent>()
    self.events = events
    let dialler = NIODialler(shares: false)
    self.task = Task(executorPreference: dialler.executor) {
      let follower = StatusFollower(
        socket: socket, through: dialler, since: since, kinds: kinds)
      try? await follower.run { try await events.send($0) }
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }
}

private import Connectivity
public import Logging

/// Follows connd: yields the current status, and then each change in order, across restarts of
/// connd.
///
/// ```swift
/// for await event in StatusStream() {
///   if case .change(.transition(let transition)) = event { … }
/// }
/// ```
///
/// 1. The first element is a snapshot. With `since`, it is the first change after that generation,
///    or a gap if connd no longer has that change. It is `disconnected` if connd is not running, or
///    is in another network namespace, such as outside a container (C7).
/// 2. The stream ends only with its task. A lost connection is reported once. The stream connects
///    again after 100 ms, then in growing intervals of at most a minute, and as soon as connd's
///    socket appears. It resumes from the last generation received.
/// 3. Elements are fetched on demand: a slow reader receives gaps and uses no extra memory.
///
/// Each iterator belongs to one task. All streams, monitors and guards of a process share one
/// connection to connd, in which a slow reader delays only itself.
public struct StatusStream: AsyncSequence, Sendable {
  public typealias Element = StatusEvent

  private let socket: ConndSocket
  private let since: UInt64?
  private let kinds: Set<StatusEvent.Kind>
  private let logger: Logger?

  /// - Parameters:
  ///   - socket: connd's socket.
  ///   - since: The last generation that is already known, or `nil`.
  ///   - events: The kinds of changes to receive; empty means all.
  ///   - logger: Logs when connd goes away, and when it is back. `nil` logs nothing.
  public init(
    socket: ConndSocket = .default, since: UInt64? = nil, events: Set<StatusEvent.Kind> = [],
    logger: Logger? = nil
  ) {
    self.socket = socket
    self.since = since
    self.kinds = events
    self.logger = logger
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(
      subscription: Subscription(
        socket: self.socket.path, since: self.since, kinds: self.kinds, logger: self.logger))
  }

  /// An iterator over events. Its stream from connd ends with the last copy of the iterator.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let subscription: Subscription

    /// Returns the next event, or `nil` when the task was cancelled.
    public mutating func next() async -> StatusEvent? { await self.next(isolation: nil) }

    /// Returns the next event without leaving the caller's actor, or `nil` when the task was
    /// cancelled.
    public mutating func next(isolation: isolated (any Actor)?) async -> StatusEvent? {
      await self.subscription.events.next(isolation: isolation)
    }
  }
}

/// The task behind an iterator. It ends with the iterator.
final class Subscription: Sendable {
  let events: Handoff<StatusEvent>
  private let task: Task<Void, Never>

  init(socket: String, since: UInt64?, kinds: Set<StatusEvent.Kind>, logger: Logger?) {
    let events = Handoff<StatusEvent>()
    self.events = events
    let connector = Connector.shared
    self.task = Task(executorPreference: connector.executor) {
      let follower = StatusFollower(
        socket: socket, through: connector, since: since, kinds: kinds,
        of: ProcessNamespace.own, logger: logger)
      try? await follower.run { try await events.send($0) }
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }
}

public import Connectivity
internal import ConnectivityProtocol
internal import GRPCCore
private import Synchronization

/// What a ``StatusStream`` tells.
public enum StatusEvent: Hashable, Sendable {
  /// The state of affairs at the start.
  case snapshot(Snapshot)
  /// What was published, complete in itself: the status after it is part of it, unless it is an invalidation, which
  /// leaves the status as it is.
  case change(Change)
  /// Something was missed: what, is not known. Here is the present.
  case gap(Snapshot)
  /// connd is not there, refuses this user or went away. The stream looks for it until it finds it.
  case disconnected(ConndError)
  /// connd is there again. Changes go on after this generation, the last one seen; `nil` where none was.
  case resumed(UInt64?)
}

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
  public enum EventKind: Hashable, Sendable, CaseIterable {
    case transition
    case path
    case invalidation
  }

  /// Who hears of an event; the next one is not read before it returns. Where it throws, the stream ends.
  package typealias Receiver = @Sendable (StatusEvent) async throws -> Void

  /// Tells the elements as they come, in the present task: for who has nothing else to do.
  ///
  /// - Throws: `CancellationError`, or what the receiver throws.
  package func forEach(_ tell: @escaping Receiver) async throws {
    let follower = Follower(
      socket: self.socket, kinds: self.kinds, progress: Progress(since: self.since))
    try await follower.run(tell)
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(
      subscription: Subscription(socket: self.socket, since: self.since, kinds: self.kinds))
  }

  /// One connection to connd, kept up until the iterator goes.
  public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
    let subscription: Subscription

    /// The next event; `nil` when the task was cancelled.
    public mutating func next() async -> StatusEvent? {
      await self.subscription.events.next()
    }
  }
}

/// The task behind an iterator. It ends with the iterator.
final class Subscription: Sendable {
  let events: Handoff<StatusEvent>
  private let task: Task<Void, Never>

  init(socket: String, since: UInt64?, kinds: Set<StatusStream.EventKind>) {
    let events = Handoff<StatusEvent>()
    self.events = events
    self.task = Task(executorPreference: Dialling.current.executor) {
      let follower = Follower(socket: socket, kinds: kinds, progress: Progress(since: since))
      try? await follower.run { try await events.send($0) }
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }
}

/// Connects, reads, and connects again.
private final class Follower: Sendable {
  private let socket: String
  private let kinds: Set<StatusStream.EventKind>
  private let progress: Mutex<Progress>

  init(socket: String, kinds: Set<StatusStream.EventKind>, progress: Progress) {
    self.socket = socket
    self.kinds = kinds
    self.progress = Mutex(progress)
  }

  /// - Throws: `CancellationError`, or what the receiver throws.
  func run(_ tell: @escaping StatusStream.Receiver) async throws {
    while true {
      let error = try await self.connection(tell)
      let (event, pause) = self.progress.withLock { $0.lost(error) }
      if let event { try await tell(event) }
      try await Task.sleep(for: pause)
    }
  }

  /// What the receiver has thrown.
  private struct Refusal: Error { var error: any Error }

  /// Reads one connection to its end, and returns why it ended.
  private func connection(_ receiver: @escaping StatusStream.Receiver) async throws -> any Error {
    let tell: StatusStream.Receiver = { event in
      do { try await receiver(event) } catch { throw Refusal(error: error) }
    }
    do {
      let request = self.progress.withLock { $0.request(self.kinds) }
      try await Dialling.current.watch(request, at: self.socket) {
        if let event = self.progress.withLock({ $0.accepted() }) { try await tell(event) }
      } _: { message in
        if let event = try self.progress.withLock({ try $0.received(message) }) {
          try await tell(event)
        }
      }
      return ConndError.notThere("connd ended the stream")
    } catch let refusal as Refusal {
      throw refusal.error
    } catch {
      return ConndError.reading(error, from: self.socket)
    }
  }
}

/// How far a stream has come, and what is to be told next.
struct Progress: Sendable {
  /// The last generation seen.
  private(set) var generation: UInt64?
  private var outage = Outage()

  init(since generation: UInt64?) {
    self.generation = generation
  }

  func request(_ kinds: Set<StatusStream.EventKind>) -> Connectivity_V1_WatchRequest {
    var request = Connectivity_V1_WatchRequest()
    if let generation = self.generation { request.sinceGeneration = generation }
    request.events = StatusStream.EventKind.allCases.filter(kinds.contains).map { kind in
      switch kind {
      case .transition: .transition
      case .path: .path
      case .invalidation: .invalidation
      }
    }
    return request
  }

  /// connd took the request.
  mutating func accepted() -> StatusEvent? {
    self.outage.accepted() ? .resumed(self.generation) : nil
  }

  /// connd sent a message; one that a newer connd invented moves the generation and nothing else.
  mutating func received(_ message: Connectivity_V1_WatchResponse) throws -> StatusEvent? {
    let event = try WatchEvent(message)
    self.generation = message.generation
    self.outage.received()
    switch event {
    case .snapshot(let snapshot): return .snapshot(snapshot)
    case .change(let change): return .change(change)
    case .gap(let snapshot): return .gap(snapshot)
    case nil: return nil
    }
  }

  /// The connection ended, or there was none: what to tell, and how long to wait before the next one.
  mutating func lost(_ error: any Error) -> (StatusEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }
}

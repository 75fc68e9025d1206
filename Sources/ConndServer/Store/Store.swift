import Connectivity
import ConnectivityProtocol
import DequeModule
import Synchronization

/// What was published: the present, and as much of the past as the history holds.
///
/// The monitor's thread publishes and never waits; subscribers read at their own pace. A subscriber is a place in the
/// history and no queue of its own, so one that does not read costs nothing, and one that falls behind what the history
/// holds gets a gap (D4). Safe to use from any thread.
final class Store: Sendable {
  private let state: Mutex<State>

  fileprivate struct State {
    var snapshot: Snapshot
    /// The oldest first; generations grow by one from each to the next.
    var history: Deque<Published>
    /// Who waits for something new.
    var waiting: [Subscriber.ID: CheckedContinuation<Void, Never>] = [:]
    var subscribers: Set<Subscriber.ID> = []
    var lastSubscriber: Subscriber.ID = 0
    var isFinished = false
    /// Who wants to know that the present or the number of subscribers has changed.
    var observers: [UInt64: AsyncStream<Void>.Continuation] = [:]
    var lastObserver: UInt64 = 0
  }

  /// How many changes the history holds.
  static let capacity = 512

  /// - Parameters:
  ///   - past: what an earlier run published, the oldest first.
  ///   - generation: after which to go on where nothing is known of the past.
  init(_ past: [Published] = [], after generation: UInt64 = 0) {
    var snapshot = TransitionMaker().snapshot
    snapshot.generation = generation
    for published in past { snapshot.apply(published.change) }
    self.state = Mutex(
      State(snapshot: snapshot, history: Deque(past.suffix(Self.capacity))))
  }

  /// What was published last.
  var snapshot: Snapshot { self.state.withLock { $0.snapshot } }

  /// Whether connd is stopping.
  var isFinished: Bool { self.state.withLock { $0.isFinished } }

  var subscribers: Int { self.state.withLock { $0.subscribers.count } }

  /// What the history holds, the oldest first.
  var past: [Published] { self.state.withLock { Array($0.history) } }

  /// Makes changes known to all subscribers, in their order. Who observes is told by ``touch()``.
  func publish(_ changes: [Published]) {
    let waiting = self.state.withLock { state in
      for published in changes {
        state.snapshot.apply(published.change)
        if state.history.count == Self.capacity { state.history.removeFirst() }
        state.history.append(published)
      }
      defer { state.waiting.removeAll(keepingCapacity: true) }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume() }
  }

  /// Ends every subscription: connd is stopping.
  func finish() {
    let (waiting, observers) = self.state.withLock { state in
      state.isFinished = true
      defer { state.waiting = [:] }
      return (state.waiting, state.observers)
    }
    for continuation in waiting.values { continuation.resume() }
    for observer in observers.values { observer.finish() }
  }

  /// Has those who observe look again: something was published, or what they tell beside it is another.
  func touch() {
    let observers = self.state.withLock { $0.observers }
    for observer in observers.values { observer.yield() }
  }

  /// Yields whenever the present or the number of subscribers may have changed; several changes may be one yield. The
  /// stream ends when connd stops, or when its continuation is finished.
  func observe() -> (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let isFinished = self.state.withLock { state in
      state.lastObserver += 1
      let observer = state.lastObserver
      continuation.onTermination = { _ in
        self.state.withLock { _ = $0.observers.removeValue(forKey: observer) }
      }
      state.observers[observer] = continuation
      return state.isFinished
    }
    if isFinished { continuation.finish() }
    return (stream, continuation)
  }
}

// MARK: - Subscribers

/// A place in the history, held by one reader.
struct Subscriber: Sendable {
  typealias ID = UInt64

  fileprivate let id: ID
  /// The generation up to which everything has been read; `nil` before the first reading of a subscriber that does not
  /// resume.
  fileprivate var generation: UInt64?
}

extension Store {
  /// What a subscriber gets from one reading.
  enum Reading: Sendable {
    /// The stream starts with this.
    case snapshot(Snapshot)
    /// Something was missed; this is the present (D4, D5).
    case gap(Snapshot)
    /// At least one change, in order.
    case changes([Published])
    /// The subscriber has left, or its task was cancelled.
    case left
    /// connd is stopping.
    case finished
  }

  /// Admits a subscriber, until `leave`.
  ///
  /// - Parameter since: the last generation that the subscriber has seen; `nil`: it has seen nothing.
  func admit(since generation: UInt64?) -> Subscriber {
    let (subscriber, observers) = self.state.withLock { state in
      state.lastSubscriber += 1
      state.subscribers.insert(state.lastSubscriber)
      return (Subscriber(id: state.lastSubscriber, generation: generation), state.observers)
    }
    for observer in observers.values { observer.yield() }
    return subscriber
  }

  /// Dismisses a subscriber, whose reading ends; more than once is once.
  func leave(_ subscriber: Subscriber) {
    let (waiting, observers) = self.state.withLock { state in
      state.subscribers.remove(subscriber.id)
      return (state.waiting.removeValue(forKey: subscriber.id), state.observers)
    }
    waiting?.resume()
    for observer in observers.values { observer.yield() }
  }

  /// What is new to a subscriber; waits until something is.
  func next(for subscriber: inout Subscriber) async -> Reading {
    while true {
      let reading = self.state.withLock { $0.read(&subscriber) }
      if let reading { return reading }
      await self.waitForNews(subscriber)
      if Task.isCancelled { return .left }
    }
  }

  private func waitForNews(_ subscriber: Subscriber) async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let hasNews = self.state.withLock { state in
          // What came since the reading would otherwise be waited for in vain; so would a cancellation.
          let isOver =
            state.isFinished || Task.isCancelled || !state.subscribers.contains(subscriber.id)
          if isOver || subscriber.generation != state.snapshot.generation { return true }
          state.waiting[subscriber.id] = continuation
          return false
        }
        if hasNews { continuation.resume() }
      }
    } onCancel: {
      self.state.withLock { $0.waiting.removeValue(forKey: subscriber.id) }?.resume()
    }
  }
}

extension Store.State {
  /// At most so many changes are handed out at once.
  private static let batch = 64

  fileprivate func read(_ subscriber: inout Subscriber) -> Store.Reading? {
    if self.isFinished { return .finished }
    guard self.subscribers.contains(subscriber.id) else { return .left }
    let current = self.snapshot.generation
    guard let seen = subscriber.generation else {
      subscriber.generation = current
      return .snapshot(self.snapshot)
    }
    if seen == current { return nil }
    guard seen < current, let first = self.history.first?.change.generation, first <= seen + 1
    else {
      subscriber.generation = current
      return .gap(self.snapshot)
    }
    let unread = self.history.dropFirst(Int(seen + 1 - first))
    let changes = Array(unread.prefix(Self.batch))
    subscriber.generation = changes.last?.change.generation ?? current
    return .changes(changes)
  }
}

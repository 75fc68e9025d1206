import Connectivity
import ConnectivityRules
import DequeModule
import Synchronization

/// The published state: the current snapshot, and the recent changes in the history.
///
/// The monitor thread publishes without blocking, and subscribers read at their own pace. A
/// subscriber is a position in the history and has no queue. A subscriber that does not read costs
/// nothing. If it falls behind the history, it receives a gap (D4). Safe to use from any thread.
final class Store: Sendable {
  private let state: Mutex<State>

  fileprivate struct State {
    var snapshot: ConnectivitySnapshot
    var clocks: ClockSteps
    var clockSteps = 0
    /// When the machine was started, by the wall clock as it is set now.
    var boot: WallTime
    /// Oldest first. Generations increase by one, except at the start of a run.
    var history: Deque<Published>
    /// Called when there is something new for subscribers.
    var onNews: @Sendable () -> Void = {}
    var subscribers: Set<Subscriber.ID> = []
    var lastSubscriber: Subscriber.ID = 0
    var isFinished = false
    /// Observers of the snapshot and the number of subscribers.
    var observers: [UInt64: AsyncStream<Void>.Continuation] = [:]
    var lastObserver: UInt64 = 0
  }

  /// The maximum number of changes in the history.
  static let capacity = 512
  /// The maximum number of changes per reading. A subscriber that stops reading keeps them after
  /// they have left the history.
  static let maxBatch = 8

  /// - Parameters:
  ///   - past: The changes of an earlier run, oldest first.
  ///   - generation: The generation to continue after, if later than those of `past`.
  init(_ past: [Published] = [], after generation: UInt64 = 0) {
    var snapshot = TransitionDetector().snapshot
    for published in past { snapshot.apply(published.change) }
    snapshot.generation = max(snapshot.generation, generation)
    self.state = Mutex(State(snapshot, Deque(past.suffix(Self.capacity))))
  }

  /// Continues after a snapshot of an earlier run, without its history.
  init(at snapshot: ConnectivitySnapshot) {
    self.state = Mutex(State(snapshot))
  }

  /// The snapshot published last. Its `since` is by the wall clock as it is set now.
  var snapshot: ConnectivitySnapshot {
    self.state.withLock { state in
      state.followClock()
      return state.snapshot
    }
  }

  /// The number of times that the wall clock was set.
  var clockSteps: Int {
    self.state.withLock { state in
      state.followClock()
      return state.clockSteps
    }
  }

  /// Whether connd is stopping.
  var isFinished: Bool { self.state.withLock { $0.isFinished } }

  var subscribers: Int { self.state.withLock { $0.subscribers.count } }

  /// The changes in the history, oldest first. Their times are by the wall clock as it is set now.
  var past: [Published] {
    self.state.withLock { state in
      state.followClock()
      return Array(state.history)
    }
  }

  /// Publishes changes to all subscribers, in their order. ``touch()`` notifies the observers.
  func publish(_ changes: [Published]) {
    let onNews: (@Sendable () -> Void)? = self.state.withLock { state in
      state.followClock()
      for published in changes {
        state.snapshot.apply(published.change)
        if state.history.count == Self.capacity { state.history.removeFirst() }
        state.history.append(published)
      }
      return state.subscribers.isEmpty ? nil : state.onNews
    }
    onNews?()
  }

  /// Ends every subscription because connd is stopping.
  func finish() {
    let (onNews, observers) = self.state.withLock { state in
      state.isFinished = true
      return (state.onNews, state.observers)
    }
    onNews()
    for observer in observers.values { observer.finish() }
  }

  /// Notifies observers after a publication, or another change that they report.
  func touch() {
    let observers = self.state.withLock { $0.observers }
    for observer in observers.values { observer.yield() }
  }

  /// Yields whenever the snapshot or the number of subscribers may have changed. One yield may
  /// cover several changes. The stream ends when connd stops, or when its continuation is finished.
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

/// A reader's position in the history.
struct Subscriber: Sendable {
  typealias ID = UInt64

  let id: ID
  /// The last generation that the subscriber has read, or `nil` before its first reading if it does
  /// not resume.
  fileprivate var generation: UInt64?
}

extension Store {
  /// The result of one reading of a subscriber.
  enum Reading: Sendable {
    /// The first result of a stream.
    case snapshot(ConnectivitySnapshot)
    /// The subscriber missed changes. This is the current state (D4, D5).
    case gap(ConnectivitySnapshot)
    /// At least one change, in order.
    case changes([Published])
    /// connd is stopping.
    case finished
  }

  /// Admits a subscriber, until `leave`.
  ///
  /// - Parameter since: The last generation that the subscriber has seen, or `nil` for none.
  func admit(since generation: UInt64?) -> Subscriber {
    let (subscriber, observers) = self.state.withLock { state in
      state.lastSubscriber += 1
      state.subscribers.insert(state.lastSubscriber)
      return (Subscriber(id: state.lastSubscriber, generation: generation), state.observers)
    }
    for observer in observers.values { observer.yield() }
    return subscriber
  }

  /// Removes a subscriber, unless it was already removed.
  func leave(_ subscriber: Subscriber) {
    let observers = self.state.withLock { state in
      state.subscribers.remove(subscriber.id)
      return state.observers
    }
    for observer in observers.values { observer.yield() }
  }

  /// Sets the closure that is called when there may be news for subscribers. The publishing thread
  /// calls it, so it must not block.
  func onNews(_ body: @escaping @Sendable () -> Void) {
    self.state.withLock { $0.onNews = body }
  }

  /// Returns the next result for a subscriber, or `nil` if nothing is new to it.
  func next(for subscriber: inout Subscriber) -> Reading? {
    self.state.withLock { $0.read(&subscriber) }
  }
}

extension Store.State {
  fileprivate init(_ snapshot: ConnectivitySnapshot, _ history: Deque<Published> = []) {
    let (now, time) = (Instant.now(), WallTime.now())
    self.init(
      snapshot: snapshot, clocks: ClockSteps(from: now, time),
      boot: time.advanced(by: .zero - now.sinceStart), history: history)
  }

  /// Shifts times if the wall clock was set, so that events are as long ago as before. Events
  /// before the machine was started keep their times, because the clock was different then.
  fileprivate mutating func followClock() {
    let (now, time) = (Instant.now(), WallTime.now())
    guard let step = self.clocks.step(to: now, time) else { return }
    self.clockSteps += 1
    let boot = self.boot
    self.boot = time.advanced(by: .zero - now.sinceStart)
    if self.snapshot.since >= boot { self.snapshot.since = self.snapshot.since.advanced(by: step) }
    for (place, published) in self.history.enumerated() where published.change.time >= boot {
      self.history[place] = Published(published.change.shifted(by: step))
    }
  }

  fileprivate mutating func read(_ subscriber: inout Subscriber) -> Store.Reading? {
    if self.isFinished { return .finished }
    let current = self.snapshot.generation
    guard let seen = subscriber.generation else {
      self.followClock()
      subscriber.generation = current
      return .snapshot(self.snapshot)
    }
    if seen == current { return nil }
    guard seen < current, let unread = self.history(after: seen) else {
      self.followClock()
      subscriber.generation = current
      return .gap(self.snapshot)
    }
    let changes = Array(unread.prefix(Store.maxBatch))
    subscriber.generation = changes.last?.change.generation ?? current
    return .changes(changes)
  }

  /// Returns the changes after an earlier generation, or `nil` if some are missing, or may be,
  /// because generations were left out.
  private func history(after generation: UInt64) -> Deque<Published>.SubSequence? {
    let missed = self.snapshot.generation - generation
    guard missed <= self.history.count else { return nil }
    let changes = self.history.suffix(Int(missed))
    return changes.first?.change.generation == generation + 1 ? changes : nil
  }
}

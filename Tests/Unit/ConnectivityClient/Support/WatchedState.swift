import Synchronization
import Testing

/// A state that tests observe: they wait until it satisfies a condition.
final class WatchedState<Value: Sendable>: Sendable {
  private struct State {
    var value: Value
    var watchers: [Int: AsyncStream<Void>.Continuation] = [:]
    var last = 0
  }

  private let state: Mutex<State>

  init(_ value: Value) { self.state = Mutex(State(value: value)) }

  var value: Value { self.state.withLock { $0.value } }

  func change(_ change: (inout Value) -> Void) {
    let watchers = self.state.withLock { state in
      change(&state.value)
      return state.watchers
    }
    for watcher in watchers.values { watcher.yield() }
  }

  /// Returns when the value meets the condition.
  ///
  /// - Throws: `CancellationError`.
  func wait(
    for event: String, _ sourceLocation: SourceLocation, until isMet: (Value) -> Bool
  ) async throws {
    let (changes, watcher) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let number = self.state.withLock { state in
      state.last += 1
      state.watchers[state.last] = watcher
      return state.last
    }
    defer { self.state.withLock { _ = $0.watchers.removeValue(forKey: number) } }
    watcher.yield()
    try await waiting(for: event, sourceLocation) {
      for await _ in changes where isMet(self.value) { return }
      throw CancellationError()
    }
  }
}

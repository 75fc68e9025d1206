extension Reactor {
  /// Returns after a duration, in the machine's uptime. Unlike `Task.sleep` it needs no thread
  /// besides the reactor's.
  ///
  /// - Throws: `CancellationError`.
  package func sleep(for duration: Duration) async throws(CancellationError) {
    let sleeper = Sleeper()
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        self.run { sleeper.begin(continuation, for: duration, self) }
      }
    } onCancel: {
      self.run { sleeper.cancel(self) }
    }
    if Task.isCancelled { throw CancellationError() }
  }

  /// A sleeping task. Belongs to the reactor's thread.
  private final class Sleeper: @unchecked Sendable {
    private var continuation: CheckedContinuation<Void, Never>?
    private var alarm: AlarmID?
    private var isCancelled = false

    func begin(
      _ continuation: CheckedContinuation<Void, Never>, for duration: Duration, _ reactor: Reactor
    ) {
      if self.isCancelled { return continuation.resume() }
      self.continuation = continuation
      self.alarm = reactor.execute(after: duration) { self.wake() }
    }

    func cancel(_ reactor: Reactor) {
      self.isCancelled = true
      if let alarm = self.alarm.take() { reactor.cancel(alarm) }
      self.wake()
    }

    private func wake() {
      self.alarm = nil
      self.continuation.take()?.resume()
    }
  }
}

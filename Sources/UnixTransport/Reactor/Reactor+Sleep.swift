extension Reactor {
  /// Returns after tasks that are already waiting, and other users' tasks, have had their turns.
  package func yield() async {
    await withCheckedContinuation { continuation in
      self.execute { continuation.resume() }
    }
  }

  /// Returns after a duration of the machine's uptime. Unlike `Task.sleep` it needs no thread
  /// besides the reactor's.
  ///
  /// - Throws: `CancellationError`.
  package func sleep(for duration: Duration) async throws(CancellationError) {
    _ = try await self.sleep(Sleeper(for: duration))
  }

  /// Returns after a duration, or as soon as a Unix socket may have appeared.
  ///
  /// - Parameters:
  ///   - path: The path of the socket. Its directories need not exist.
  ///   - limit: The maximum duration if the path cannot be watched, or a process listens on the
  ///     socket.
  ///   - isSilent: Returns whether no process listens on the socket. Called once the path is
  ///     watched, and only if the duration is longer than the limit.
  /// - Returns: Whether the socket may have appeared.
  /// - Throws: `CancellationError`.
  package func sleep(
    for duration: Duration, orUntilSocketAppears path: String, limit: Duration,
    isSilent: @escaping @Sendable () -> Bool
  ) async throws(CancellationError) -> Bool {
    try await self.sleep(Sleeper(for: duration, .init(path, limit, isSilent)))
  }

  private func sleep(_ sleeper: Sleeper) async throws(CancellationError) -> Bool {
    let hasAppeared = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        self.run { sleeper.begin(continuation, self) }
      }
    } onCancel: {
      self.run { sleeper.cancel(self) }
    }
    if Task.isCancelled { throw CancellationError() }
    return hasAppeared
  }

  /// A sleeping task. Belongs to the reactor's thread.
  private final class Sleeper: @unchecked Sendable {
    /// A socket that ends the sleep when it appears.
    struct Socket {
      var path: String
      var limit: Duration
      var isSilent: @Sendable () -> Bool

      init(_ path: String, _ limit: Duration, _ isSilent: @escaping @Sendable () -> Bool) {
        (self.path, self.limit, self.isSilent) = (path, limit, isSilent)
      }
    }

    private var duration: Duration
    private let socket: Socket?
    private var continuation: CheckedContinuation<Bool, Never>?
    private var alarm: AlarmID?
    private var watch: SocketWatch.ID?
    private var isCancelled = false

    init(for duration: Duration, _ socket: Socket? = nil) {
      (self.duration, self.socket) = (duration, socket)
    }

    func begin(_ continuation: CheckedContinuation<Bool, Never>, _ reactor: Reactor) {
      if self.isCancelled { return continuation.resume(returning: false) }
      self.continuation = continuation
      if let socket = self.socket {
        self.watch = reactor.sockets.add(socket.path) { self.wake(reactor, hasAppeared: true) }
        if self.duration > socket.limit, self.watch == nil || !socket.isSilent() {
          self.duration = socket.limit
        }
      }
      self.alarm = reactor.execute(after: self.duration) { self.wake(reactor) }
    }

    func cancel(_ reactor: Reactor) {
      self.isCancelled = true
      self.wake(reactor)
    }

    private func wake(_ reactor: Reactor, hasAppeared: Bool = false) {
      if let alarm = self.alarm.take() { reactor.cancel(alarm) }
      if let watch = self.watch.take() { reactor.sockets.remove(watch) }
      self.continuation.take()?.resume(returning: hasAppeared)
    }
  }
}

internal import Connectivity
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
internal import NIOCore
internal import Synchronization

/// Makes and keeps a channel's connections, one at a time, as ``ChannelMachine`` says.
final class Channel: Sendable {
  private enum Command: Sendable {
    case connect(UInt64, atMost: Duration)
    case wake(at: ContinuousClock.Instant)
    case report(ConnectivityState)
  }

  struct State {
    var machine: ChannelMachine
    var breaker = Breaker()
    /// Those that calls may be on.
    var connections: [UInt64: Connection] = [:]
    /// Those that are being made, by their serial numbers: an attempt may be at several addresses at once.
    var attempts: [UInt64: Connection] = [:]
    var waiters: [UInt64: Waiter] = [:]
    /// What the last one might use that waited no longer.
    var lastAccess = NetworkAccess.unrestricted
    var lastCall: UInt64 = 0
    var lastSerial: UInt64 = 0
    /// Those who follow the channel's state.
    var observers: [UInt64: AsyncStream<ConnectivityState>.Continuation] = [:]
    var lastObserver: UInt64 = 0
    /// The flows of the last attempt, whose paths may become better.
    var guards: [ConnectionGuard] = []
    /// The name of the last attempt was not resolved, and may be.
    var resolver: ResolverWatch?
  }

  /// A call that waits for a connection.
  struct Waiter {
    var continuation: CheckedContinuation<Connection, any Error>
    /// What it may use, of what the channel may.
    var access: NetworkAccess
  }

  let settings: ConnectionSettings
  let resolver: NameResolver
  let names: Resolution
  let state: Mutex<State>
  private let commands: AsyncStream<Command>
  private let commander: AsyncStream<Command>.Continuation
  let logger: Logger?

  init(_ settings: ConnectionSettings, resolver: NameResolver) {
    self.settings = settings
    self.resolver = resolver
    self.names = Resolution(resolver, settings.config.backgroundActivityLogger)
    self.state = Mutex(State(machine: ChannelMachine(settings.config.backoff)))
    (self.commands, self.commander) = AsyncStream.makeStream()
    self.logger = settings.config.backgroundActivityLogger
  }

  deinit {
    // One that was never run is not shut down either.
    for observer in self.state.withLock({ $0.observers }).values { observer.finish() }
  }

  var connectivity: ConnectivityState { self.state.withLock { $0.machine.connectivity } }

  /// The present state, and then each that it becomes, until the channel is shut down.
  func connectivityStates() -> AsyncStream<ConnectivityState> {
    // Who does not read for so long wants the last ones.
    let (states, observer) = AsyncStream.makeStream(
      of: ConnectivityState.self, bufferingPolicy: .bufferingNewest(64))
    let (id, isOver) = self.state.withLock { state in
      state.lastObserver += 1
      state.observers[state.lastObserver] = observer
      // In the lock, so that none comes after it that is older.
      observer.yield(state.machine.connectivity)
      return (state.lastObserver, state.machine.connectivity == .shutdown)
    }
    observer.onTermination = { [weak self] _ in
      _ = self?.state.withLock { $0.observers.removeValue(forKey: id) }
    }
    if isOver { observer.finish() }
    return states
  }

  // MARK: Calls

  /// The connection to use, where there is one at this moment. It is held for the call, which has to release it.
  func readyConnection() -> Connection? {
    self.state.withLock { state in
      guard let id = state.machine.ready, let connection = state.connections[id] else { return nil }
      connection.hold()
      return connection
    }
  }

  /// The connection to use, made if there is none. It is held for the call, which has to release it.
  ///
  /// - Parameters:
  ///   - options: Say whether failures are waited through.
  ///   - access: What the call may use: nothing is sent on its behalf on other networks (C8).
  ///   - deadline: When the call is over, waited or not: gRPC's own executors look at it only once there is a stream, where the
  ///     method may be retried.
  ///   - log: Told that the call has to wait.
  /// - Throws: `RPCError` where there will be none, or none in time; `CancellationError`.
  func connection(
    _ options: CallOptions, _ access: NetworkAccess, until deadline: ContinuousClock.Instant?,
    _ log: CallLog?
  ) async throws -> Connection {
    let call = self.state.withLock { state in
      state.lastCall += 1
      return state.lastCall
    }
    log?.waiting()
    let forReady = options.waitForReady ?? false
    let alarm = deadline.map { deadline in
      self.settings.eventLoop.scheduleTask(
        in: TimeAmount(ContinuousClock.now.duration(to: deadline))
      ) {
        self.giveUp(call, Self.waitedTooLong)
      }
    }
    defer { alarm?.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { waiter in
        self.update { state in
          state.waiters[call] = Waiter(continuation: waiter, access: access)
          return state.machine.wait(call, forReady: forReady, now: .now)
        }
        // It may have been cancelled, or the deadline come, before it waited.
        if Task.isCancelled { self.giveUp(call, CancellationError()) }
        if let deadline, deadline <= .now { self.giveUp(call, Self.waitedTooLong) }
      }
    } onCancel: {
      self.giveUp(call, CancellationError())
    }
  }

  private static let waitedTooLong = RPCError(
    code: .deadlineExceeded, message: "The call waited for a connection until its deadline.")

  private func giveUp(_ call: UInt64, _ error: any Error) {
    let waiter = self.state.withLock { state in
      state.machine.cancel(call)
      let waiter = state.waiters.removeValue(forKey: call)
      // The attempt goes on: for those who may come and be as those who came.
      if let waiter { state.lastAccess = waiter.access }
      return waiter
    }
    waiter?.continuation.resume(throwing: error)
  }

  /// gRPC's transport would not start a call on the connection.
  func refused(_ connection: Connection) {
    connection.drain()
    self.update { $0.closed(connection) }
  }

  // MARK: Life

  /// Keeps connections until ``shutdown()``, and until the last call has ended.
  func run() async {
    let hub = GuardHub.shared(socket: self.settings.config.socket)
    await withTaskExecutorPreference(EventLoopTaskExecutor(self.settings.eventLoop)) {
      await self.keepConnections(hub)
    }
    withExtendedLifetime(hub) {}
  }

  private func keepConnections(_ hub: GuardHub) async {
    var last = ConnectivityState.idle
    await withTaskCancellationHandler {
      await withDiscardingTaskGroup { connections in
        let names = Task { await self.names.run() }
        defer { names.cancel() }
        await withDiscardingTaskGroup { alarms in
          for await command in self.commands {
            switch command {
            case .connect(let id, let duration):
              connections.addTask { await self.attempt(id, atMost: duration, hub) }
            case .wake(let instant):
              alarms.addTask {
                try? await Task.sleep(until: instant, clock: .continuous)
                self.update { $0.machine.wake(now: .now) }
              }
            case .report(let state):
              last = state
              self.report(state)
            }
          }
          alarms.cancelAll()
        }
      }
    } onCancel: {
      self.shutdown()
    }
    self.shutdown()
    // A task that is cancelled hears no more commands.
    if last != .shutdown { self.report(.shutdown) }
  }

  private func report(_ state: ConnectivityState) {
    self.logger?.debug("connectivity state changed", metadata: ["state": "\(state)"])
    self.settings.config.onConnectivityStateChange?(state)
  }

  /// No calls are started any more; those in flight go on.
  func shutdown() {
    let former = self.update { state in
      let former = state
      (state.guards, state.resolver) = ([], nil)
      return (state.machine.shutdown(), former)
    }
    for connection in former.connections.values { connection.drain() }
    for connection in former.attempts.values { connection.destroy() }
    for flow in former.guards { flow.end() }
    self.commander.finish()
  }

  /// Changes the state and does what follows.
  @discardableResult
  func update<Result>(
    _ body: (inout State) -> ([ChannelMachine.Action], Result)
  ) -> Result {
    var resumed: [(CheckedContinuation<Connection, any Error>, Swift.Result<Connection, any Error>)]
    resumed = []
    var ended: [UInt64: AsyncStream<ConnectivityState>.Continuation] = [:]
    let result = self.state.withLock { state in
      let (actions, result) = body(&state)
      for action in actions {
        switch action {
        // In the lock, so that they keep their order.
        case .connect(let id, let duration): self.commander.yield(.connect(id, atMost: duration))
        case .wake(let instant): self.commander.yield(.wake(at: instant))
        case .report(let connectivity):
          self.commander.yield(.report(connectivity))
          for observer in state.observers.values { observer.yield(connectivity) }
          if connectivity == .shutdown { swap(&ended, &state.observers) }
        case .resume(let calls, let id):
          guard let connection = state.connections[id] else { continue }
          for call in calls {
            if let waiter = state.waiters.removeValue(forKey: call) {
              connection.hold()
              resumed.append((waiter.continuation, .success(connection)))
            }
          }
        case .fail(let calls, let error):
          for call in calls {
            if let waiter = state.waiters.removeValue(forKey: call) {
              resumed.append((waiter.continuation, .failure(error)))
            }
          }
        }
      }
      return result
    }
    for (waiter, outcome) in resumed { waiter.resume(with: outcome) }
    // Outside of the lock, which they take.
    for observer in ended.values { observer.finish() }
    return result
  }

  func update(_ body: (inout State) -> [ChannelMachine.Action]) {
    self.update { state in (body(&state), ()) }
  }
}

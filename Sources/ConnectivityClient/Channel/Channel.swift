internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
internal import NIOCore
internal import Synchronization

/// Makes and keeps a channel's connections, one at a time, as ``ChannelMachine`` decides.
///
/// Implements rule C1.
final class Channel: Sendable {
  private enum Command: Sendable {
    case connect(UInt64, atMost: Duration)
    /// Try the default way to a target beside the connection in use.
    case tryDefaultWay(UInt64, FixedAddress)
    case wake(at: ContinuousClock.Instant)
  }

  struct State {
    var machine: ChannelMachine
    /// Connections that calls may use.
    var connections: [UInt64: Connection] = [:]
    /// Connections that are being made, by serial number. One attempt may try several addresses at
    /// once.
    var attempts: [UInt64: Connection] = [:]
    var waiters: [UInt64: Waiter] = [:]
    /// The last reported path of a connection or an attempt.
    var path = KernelPath.unknown
    /// The access rules of the last call that stopped waiting.
    var lastAccess = NetworkAccess.unrestricted
    var lastCall: UInt64 = 0
    var lastSerial: UInt64 = 0
    var states = Observers<ConnectivityState>()
    var events = Observers<ConnectionEvent>()
    /// The state of the connection in use, as its guard reports it.
    var news = ConnectionNews()
    /// The flows of the addresses that failed in the last attempt. Their paths may improve. Empty
    /// once an address is ready.
    var guards: [ConnectionGuard] = []
    /// Set while a name is resolved, and after the resolution failed.
    var resolver: ResolverWatch?
    /// The current search for addresses.
    var search: NameSearch?
    /// Whether the search for addresses takes so long that it seems to need the network.
    var isSearchSlow = false
    /// The default path of each family while a name is resolved. These paths lead to the DNS
    /// servers.
    var pathsOfSearch: [IPAddress: KernelPath] = [:]
    /// Measures how long it takes to connect again.
    var reconnect = ReconnectTimer()
    /// The last resolved addresses. Names are not resolved by the other way (W5).
    var addresses: [GRPCNIOTransportHTTP2Posix.SocketAddress] = []
    /// When the resolution that found them began.
    var resolutionTime = ContinuousClock.now
    /// Set while calls use a connection by the other way.
    var otherWay: OtherWayUse?
    /// The serial of the connection that connd has advised against because it is silent (W4).
    var silent: UInt64?
  }

  /// A call that waits for a connection.
  struct Waiter {
    var continuation: CheckedContinuation<Connection, any Error>
    /// The networks that the call may use, in addition to the channel's own rules.
    var access: NetworkAccess
    /// Called once if the call waits for connectivity.
    var onWait: (@Sendable (KernelPath) -> Void)?
  }

  let settings: ConnectionSettings
  let breaker = ChannelBreaker()
  let resolver: NameResolver
  let names: Resolution
  let state: Mutex<State>
  private let commands: AsyncStream<Command>
  private let commander: AsyncStream<Command>.Continuation
  /// The states to report to the log and the configuration's observer.
  let reports: AsyncStream<StateReport>
  private let reporter: AsyncStream<StateReport>.Continuation
  let logger: Logger?
  let metrics: ClientMetrics

  init(_ settings: ConnectionSettings, resolver: NameResolver, _ source: Resolution.Source) {
    self.settings = settings
    self.resolver = resolver
    self.names = Resolution(source, settings.config.backgroundActivityLogger)
    self.state = Mutex(State(machine: ChannelMachine(settings.config.backoff)))
    (self.commands, self.commander) = AsyncStream.makeStream()
    (self.reports, self.reporter) = AsyncStream.makeStream()
    self.logger = settings.config.backgroundActivityLogger
    self.metrics = ClientMetrics(settings.config.metricsFactory)
    if !self.isObserved { self.reporter.finish() }
  }

  deinit {
    // A channel that never ran is never shut down either.
    let (states, events) = self.state.withLock { ($0.states.removeAll(), $0.events.removeAll()) }
    for observer in states { observer.finish() }
    for observer in events { observer.finish() }
  }

  var connectivity: ConnectivityState { self.state.withLock { $0.machine.connectivity } }

  /// Returns a stream of the current state, and then each change, until the channel is shut down.
  func connectivityStates() -> AsyncStream<ConnectivityState> {
    self.observe(\.states) { [$0.machine.connectivity] }
  }

  /// Returns a stream of the present state of the connection in use, and then its events.
  func events() -> AsyncStream<ConnectionEvent> {
    self.observe(\.events) { state in
      let connection = state.machine.current.flatMap { state.connections[$0] }
      return connection == nil ? [] : state.news.summary
    }
  }

  private func observe<Element>(
    _ observers: any WritableKeyPath<State, Observers<Element>> & Sendable,
    first: (State) -> [Element]
  ) -> AsyncStream<Element> {
    let (elements, observer, isOver) = self.state.withLock { state in
      // Under the lock, so that an older element cannot follow a newer one.
      let first = first(state)
      let (elements, observer) = state[keyPath: observers].add(first: first)
      return (elements, observer, state.machine.connectivity == .shutdown)
    }
    observer.continuation.onTermination = { [weak self] _ in
      self?.state.withLock { $0[keyPath: observers].remove(observer.id) }
    }
    if isOver { observer.continuation.finish() }
    return elements
  }

  // MARK: Life

  /// Runs connections until ``shutdown()`` was called and the last call has ended.
  func run() async {
    let hub = GuardHub.shared(socket: self.settings.config.socket.path)
    await withTaskExecutorPreference(EventLoopTaskExecutor(self.settings.eventLoop)) {
      await self.keepConnections(hub)
    }
    withExtendedLifetime(hub) {}
  }

  private func keepConnections(_ hub: GuardHub) async {
    let observed = self.observe()
    await withTaskCancellationHandler {
      await withDiscardingTaskGroup { connections in
        let names = Task { await self.names.run() }
        defer { names.cancel() }
        await withDiscardingTaskGroup { alarms in
          for await command in self.commands {
            switch command {
            case .connect(let id, let duration):
              connections.addTask { await self.attempt(id, atMost: duration, hub) }
            case .tryDefaultWay(let id, let target):
              connections.addTask { await self.tryDefaultWay(id, to: target.address, hub) }
            case .wake(let instant):
              alarms.addTask {
                try? await Task.sleep(until: instant, clock: .continuous)
                self.update { $0.machine.wake(isBusy: $0.isBusy, now: .now) }
              }
            }
          }
          alarms.cancelAll()
        }
      }
    } onCancel: {
      self.shutdown()
    }
    self.shutdown()
    for await _ in observed {}
  }

  /// Starts no more calls. Calls in flight continue.
  func shutdown() {
    let former = self.update { state in
      let former = state
      (state.guards, state.resolver, state.search) = ([], nil, nil)
      state.otherWay = nil
      return (state.machine.shutdown(), former)
    }
    former.search?.end()
    for connection in former.connections.values { connection.drain() }
    for connection in former.attempts.values { connection.destroy() }
    for flow in former.guards { flow.end() }
    former.otherWay?.defaultPath?.end()
    self.commander.finish()
  }

  /// Starts a trial of the default way.
  func command(trial id: UInt64, to target: FixedAddress) {
    self.commander.yield(.tryDefaultWay(id, target))
  }

  /// Changes the state and performs the resulting actions.
  @discardableResult
  func update<Result>(
    _ body: (inout State) -> ([ChannelMachine.Action], Result)
  ) -> Result {
    var resumed: [(CheckedContinuation<Connection, any Error>, Swift.Result<Connection, any Error>)]
    resumed = []
    var ended: [AsyncStream<ConnectivityState>.Continuation] = []
    var endedEvents: [AsyncStream<ConnectionEvent>.Continuation] = []
    var reported: [@Sendable (KernelPath) -> Void] = []
    var path = KernelPath.unknown
    var reconnected: Duration?
    var retired: [Connection] = []
    let result = self.state.withLock { state in
      let (actions, result) = body(&state)
      for action in actions {
        switch action {
        // Under the lock, so that commands stay in order.
        case .connect(let id, let duration): self.commander.yield(.connect(id, atMost: duration))
        case .wake(let instant): self.commander.yield(.wake(at: instant))
        case .report(let connectivity):
          let connection = state.machine.ready.flatMap { state.connections[$0] }
          self.reporter.yield(StateReport(state: connectivity, connection: connection))
          reconnected = state.reconnect.report(connectivity, now: .now) ?? reconnected
          state.states.yield([connectivity])
          if connectivity == .shutdown {
            self.reporter.finish()
            (ended, endedEvents) = (state.states.removeAll(), state.events.removeAll())
          }
        case .retire(let id):
          if let connection = state.connections[id] { retired.append(connection) }
        case .resume(let calls, let id):
          guard let connection = state.connections[id] else { continue }
          for call in calls {
            if let waiter = state.waiters.removeValue(forKey: call) {
              connection.hold()
              resumed.append((waiter.continuation, .success(connection)))
            }
          }
        case .tellWaiting(let calls):
          path = state.pathOfWait
          for call in calls {
            guard let tell = state.waiters[call]?.onWait else { continue }
            state.waiters[call]?.onWait = nil
            reported.append(tell)
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
    if let reconnected { self.metrics.reconnected(after: reconnected) }
    for tell in reported { tell(path) }
    for (waiter, outcome) in resumed { waiter.resume(with: outcome) }
    for connection in retired { connection.retire() }
    // Outside the lock, because observers take the lock.
    for observer in ended { observer.finish() }
    for observer in endedEvents { observer.finish() }
    return result
  }

  func update(_ body: (inout State) -> [ChannelMachine.Action]) {
    self.update { state in (body(&state), ()) }
  }
}

extension Channel.State {
  /// Whether calls use the current connection.
  var isBusy: Bool {
    self.machine.current.flatMap { self.connections[$0] }?.isBusy ?? false
  }

  /// The paths of the attempts in progress. Before the first attempt, these are the default paths
  /// of all families, because the resolver uses them.
  private var pathsInUse: [KernelPath?] {
    self.attempts.isEmpty && self.search != nil && self.isSearchSlow
      ? self.pathsOfSearch.values.map { $0 } : self.attempts.values.map(\.path)
  }

  /// Whether every attempt in progress has a path that passes no traffic.
  var hasNoPath: Bool {
    let paths = self.pathsInUse
    return !paths.isEmpty
      && paths.allSatisfy { $0?.status == .unsatisfied || $0?.status == .requiresConnection }
  }

  /// The path to report to waiting callers: one that only needs a connection, if any.
  var pathOfWait: KernelPath {
    self.pathsInUse.lazy.compactMap { $0 }.first { $0.status == .requiresConnection } ?? self.path
  }

  /// Returns an action that informs waiting calls if no attempt in progress can currently succeed.
  func waitingForPath() -> [ChannelMachine.Action] {
    self.hasNoPath ? [.tellWaiting(Array(self.waiters.keys))] : []
  }
}

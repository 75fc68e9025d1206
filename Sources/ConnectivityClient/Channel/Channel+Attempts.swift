internal import Connectivity
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Logging
private import NIOCore
private import Synchronization

extension Channel {
  /// How an attempt to connect to one address ended.
  private enum Outcome: Sendable {
    /// It was connected, and is no longer.
    case over
    case failed(RPCError)
    /// It failed, and not for good: NIO gave up early, or the server's welcome was followed by its farewell.
    case failedForNow(RPCError)
    /// Nothing was sent: the path is not allowed.
    case forbidden(NetworkUnavailable)
  }

  /// Resolves the name, tries its addresses in their order, and returns when the connection that comes of it is over.
  func attempt(_ id: UInt64, atMost duration: Duration, _ hub: GuardHub) async {
    let deadline = ContinuousClock.now + duration
    self.follow([])
    let addresses: [GRPCNIOTransportHTTP2Posix.SocketAddress]
    do throws(RPCError) {
      addresses = try await self.resolve()
    } catch {
      self.failed(id, error, atOnce: true)
      return
    }
    var failure: RPCError?
    var refusal: NetworkUnavailable?
    var flows: [ConnectionGuard] = []
    for address in addresses {
      let (outcome, flow) = await self.connect(id, to: address, until: deadline, hub)
      switch outcome {
      case .over:
        for flow in flows { flow.end() }
        return
      case .failed(let error), .failedForNow(let error): failure = error
      case .forbidden(let why): refusal = why
      }
      if let flow { flows.append(flow) }
    }
    self.follow(flows)
    // What failed on the network says more than what was not tried.
    if let failure {
      self.failed(id, failure, atOnce: false)
    } else if let refusal {
      self.failed(id, RPCError(refusal), atOnce: true)
    } else {
      let error = RPCError(code: .unavailable, message: "The name has no addresses.")
      self.failed(id, error, atOnce: true)
    }
  }

  private func failed(_ id: UInt64, _ error: RPCError, atOnce: Bool) {
    self.logger?.debug("could not connect", metadata: ["error": "\(error)"])
    self.update { state in
      state.machine.failed(
        id, error, atOnce: atOnce, now: .now, random: Double.random(in: -1...1))
    }
  }

  /// - Throws: `RPCError` UNAVAILABLE with the resolver's words (C5).
  private func resolve() async throws(RPCError) -> [GRPCNIOTransportHTTP2Posix.SocketAddress] {
    do {
      var names = self.resolver.names.makeAsyncIterator()
      return try await names.next()?.endpoints.flatMap(\.addresses) ?? []
    } catch {
      let why = (error as? RPCError).map { error in
        error.cause.map { "\(error.message): \($0)" } ?? error.message
      }
      throw RPCError(code: .unavailable, message: why ?? "\(error)", cause: error)
    }
  }

  /// Tries an address until the attempt's time is over: NIO gives up after ten seconds, an attempt has twenty (C4).
  private func connect(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress,
    until deadline: ContinuousClock.Instant, _ hub: GuardHub
  ) async -> (Outcome, ConnectionGuard?) {
    while true {
      let (outcome, flow) = await self.connectOnce(id, to: address, until: deadline, hub)
      guard case .failedForNow(let error) = outcome else { return (outcome, flow) }
      if .now >= deadline { return (.failed(error), flow) }
      flow?.end()
    }
  }

  private func connectOnce(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress,
    until deadline: ContinuousClock.Instant, _ hub: GuardHub
  ) async -> (Outcome, ConnectionGuard?) {
    let connection: Connection
    do {
      let target = FixedAddress(address: address, authority: self.resolver.authority)
      connection = try Connection(id: id, to: target, self.settings) { [weak self] event in
        self?.handle(event, of: id)
      }
    } catch {
      return (.failed(RPCError(code: .unavailable, message: "\(error)", cause: error)), nil)
    }
    guard self.begin(connection) else { return (.failed(ChannelMachine.shutdownError), nil) }
    defer { self.state.withLock { $0.attempts[id] = nil } }
    let flow = self.guarding(connection, hub)
    connection.flow = flow
    // What the path costs is asked before anything is sent on it (C8).
    let access = self.settings.config.access
    switch await flow?.answer(within: ConnectionGuard.patience(access)) {
    case .path(let path):
      connection.path = path
      if let refusal = access.refusal(of: path) { return (.forbidden(refusal), flow) }
    case .invalidation(let invalidation):
      if let path = invalidation.path, let refusal = access.refusal(of: path) {
        return (.forbidden(refusal), flow)
      }
      return (.failed(RPCError(invalidation)), flow)
    case .silence:
      self.logger?.warning(
        "connd does not answer, the connection is not guarded until it does",
        metadata: connection.metadata)
    case .unguarded, nil: break
    }
    return await withDiscardingTaskGroup { group in
      group.addTask { await connection.run() }
      do throws(RPCError) {
        try await connection.ready(until: deadline)
      } catch {
        let isOver =
          error.isConnectTimeout || (connection.wasReady && connection.invalidation == nil)
        connection.destroy()
        await connection.ended()
        group.cancelAll()
        return (isOver ? .failedForNow(error) : .failed(error), flow)
      }
      let isWanted = self.update { state in
        state.attempts[id] = nil
        state.connections[id] = connection
        let actions = state.machine.connected(id)
        return (actions, !actions.isEmpty)
      }
      // A change came between, and another attempt may be under way.
      if !isWanted { connection.destroy() }
      if let time = self.settings.config.connection.maxIdleTime {
        group.addTask { await self.drain(connection, whenIdleFor: time) }
      }
      await connection.closed()
      // It may have been closed before it was known to be ready.
      self.update { state in
        state.connections[id] = nil
        return state.machine.closed(id)
      }
      flow?.end()
      await connection.ended()
      group.cancelAll()
      return (.over, nil)
    }
  }

  /// Closes a connection that no call has had for the time, unless it is closed before.
  private func drain(_ connection: Connection, whenIdleFor time: Duration) async {
    while true {
      // While a call has it, that is asked once in a time.
      do { try await Task.sleep(for: max(time - connection.idleTime, .milliseconds(1))) } catch {
        return
      }
      let isOver = self.update { state in
        // In the channel's lock, in which calls are given it.
        let isOver = connection.idleTime >= time
        return (isOver ? state.machine.closed(connection.id) : [], isOver)
      }
      if isOver { return connection.drain() }
    }
  }

  /// `false` where the channel makes no connections any more.
  private func begin(_ connection: Connection) -> Bool {
    self.state.withLock { state in
      if state.machine.connectivity == .shutdown { return false }
      state.attempts[connection.id] = connection
      return true
    }
  }

  /// Follows the flows of an attempt that failed, until the next: a path that becomes satisfied cuts the backoff short
  /// (C4).
  private func follow(_ flows: [ConnectionGuard]) {
    let previous = self.state.withLock { state in
      defer { state.guards = flows }
      return state.guards
    }
    for flow in previous { flow.end() }
    for flow in flows { flow.follow() }
  }

  private func handle(_ event: Connection.Event, of id: UInt64) {
    switch event {
    case .goingAway, .closed(broken: false): self.update { $0.machine.closed(id) }
    case .closed(broken: true): self.update { $0.machine.lost(id) }
    }
  }
}

extension RPCError {
  /// NIO's time for `connect(2)` was over.
  fileprivate var isConnectTimeout: Bool {
    var error: (any Error)? = self
    while let rpc = error as? RPCError { error = rpc.cause }
    if case .connectTimeout? = error as? ChannelError { return true }
    return false
  }
}

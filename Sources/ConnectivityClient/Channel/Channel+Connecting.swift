internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Logging
private import NIOCore
private import NIOPosix
private import Synchronization

// An attempt to connect to one address: from checking its path to the end of the connection.
extension Channel {
  /// How an attempt to connect to one address ended.
  enum Outcome: Sendable {
    /// The connection was made, and has ended.
    case over
    case failed(RPCError)
    /// NIO gave up on `connect(2)`, as it does after ten seconds.
    case timedOut(RPCError)
    /// The server sent GOAWAY right after its SETTINGS.
    case left(RPCError)
    /// Nothing was sent, because the channel may not use the path.
    case forbidden(NetworkUnavailableError)
    /// Nothing was sent, because no waiting call may use the path.
    case unwanted
    /// The trial of the default way (W7) was ready, but only after a retransmission.
    case limping
  }

  /// The link that an attempt uses.
  enum LinkChoice: Sendable {
    case usual
    /// Bound to the link of another default route (W2).
    case other(String)
    /// The default way, beside a connection by the other way (W7). Only a trial without a
    /// retransmission replaces that connection.
    case trial

    fileprivate var link: String? { if case .other(let link) = self { link } else { nil } }
  }

  struct Try: Sendable {
    var outcome: Outcome
    var flow: ConnectionGuard?
    /// The path to the address, or `nil` if connd has not reported it.
    var path: KernelPath?
    /// Whether the address needs no network.
    var isLocal = false

    init(outcome: Outcome) { self.outcome = outcome }

    init(_ outcome: Outcome, of connection: Connection) {
      (self.outcome, self.flow) = (outcome, connection.flow)
      (self.path, self.isLocal) = (connection.path, connection.isLocal)
    }
  }

  /// Whether a waiting call may use the path. If no call is waiting, the last call that waited
  /// counts.
  private func isWanted(on path: KernelPath) -> Bool {
    self.state.withLock { $0.wanted.contains { $0.refusal(of: path) == nil } }
  }

  /// Whether the channel, or every waiting call, is restricted to certain networks.
  private var isRestricted: Bool {
    !self.settings.config.access.isUnrestricted
      || self.state.withLock { $0.wanted.allSatisfy { !$0.isUnrestricted } }
  }

  /// Tries an address until the time is up. If other addresses remain, stops as soon as NIO gives
  /// up.
  func connect(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress, atMost duration: Duration,
    isLast: Bool, _ hub: GuardHub
  ) async -> Try {
    let deadline = ContinuousClock.now + duration
    var wasLeft = false
    while true {
      let one = await self.connectOnce(id, to: address, until: deadline, hub)
      switch one.outcome {
      case .timedOut where isLast: break
      // Retry once, because the server may be in the middle of a restart.
      case .left where !wasLeft: wasLeft = true
      case .over, .failed, .timedOut, .left, .forbidden, .unwanted, .limping: return one
      }
      guard .now < deadline, self.isWanted(id) else { return one }
      one.flow?.end()
    }
  }

  /// Makes one connection, and returns when it has ended or could not be made.
  func connectOnce(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress,
    by choice: LinkChoice = .usual,
    until deadline: ContinuousClock.Instant, _ hub: GuardHub
  ) async -> Try {
    let connection: Connection
    do throws(RPCError) {
      connection = try await self.begin(id, to: address, by: choice)
    } catch {
      return Try(outcome: .failed(error))
    }
    defer { self.state.withLock { $0.attempts[connection.serial] = nil } }
    if let objection = await self.objection(to: connection, hub) {
      return Try(objection, of: connection)
    }
    connection.connect()
    return await withTaskCancellationHandler {
      if let failure = await self.failure(of: connection, by: choice, until: deadline) {
        return Try(failure, of: connection)
      }
      await self.use(connection, by: choice, hub)
      await self.serve(connection)
      return Try(outcome: .over)
    } onCancel: {
      connection.destroy()
    }
  }

  /// Creates a connection, before anything is sent.
  ///
  /// - Throws: `RPCError` if the TLS configuration cannot work, or the attempt is no longer wanted.
  private func begin(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress, by choice: LinkChoice
  ) async throws(RPCError) -> Connection {
    let serial = self.state.withLock { state in
      state.lastSerial += 1
      return state.lastSerial
    }
    let connection: Connection
    do {
      let target = FixedAddress(address: address, authority: self.resolver.authority)
      // With TLS this parses all trusted certificates: 15 ms, in which an event loop would stop.
      connection = try await NIOThreadPool.singleton.runIfActive {
        try Connection(id: id, serial: serial, to: target, by: choice.link, self.settings) {
          [weak self] in
          self?.heardElsewhere(than: id, serial)
        } onEvent: { [weak self] event in
          self?.handle(event, of: id, serial)
        }
      }
    } catch {
      throw RPCError(code: .unavailable, message: "\(error)", cause: error)
    }
    let isWanted = self.state.withLock { state in
      if state.machine.isConnecting(id) { state.attempts[serial] = connection }
      return state.machine.isConnecting(id)
    }
    guard isWanted else { throw ChannelMachine.shutdownError }
    return connection
  }

  /// Begins to guard a connection. Before anything is sent, connd reports what the path costs (C8),
  /// even for unguarded connections.
  ///
  /// - Returns: Why nothing may be sent, or `nil` if the connection may be made.
  private func objection(to connection: Connection, _ hub: GuardHub) async -> Outcome? {
    let isRestricted = self.isRestricted
    let asked = self.guarding(connection, hub, isRestricted: isRestricted)
    if !connection.isLocal, asked?.onlyAsks ?? true {
      connection.unguardedReason = connection.unguardedReason ?? DestinationBreaker.openReason
    }
    guard let asked else { return nil }
    connection.flow = asked.onlyAsks ? nil : asked
    let answer = await asked.answer(isRestricted: isRestricted)
    if let path = answer.path { connection.path = path }
    if answer == .silence, !asked.onlyAsks {
      self.logger?.warning(
        "connd does not answer; the connection is not guarded until it does",
        metadata: connection.metadata)
    }
    switch answer.admission(for: self.settings.config.access, isWanted: self.isWanted(on:)) {
    case .granted: return nil
    case .forbidden(let refusal): return .forbidden(refusal)
    case .unwanted: return .unwanted
    case .invalid(let invalidation): return asked.onlyAsks ? nil : .failed(RPCError(invalidation))
    }
  }

  /// Waits until calls can start on a connection.
  ///
  /// - Returns: Why calls cannot start, once the connection has ended, or `nil` if they can.
  private func failure(
    of connection: Connection, by choice: LinkChoice, until deadline: ContinuousClock.Instant
  ) async -> Outcome? {
    do throws(RPCError) {
      try await connection.ready(until: deadline)
    } catch {
      let wasLeft = connection.wasReady && connection.invalidation == nil
      // The thread that cut the connection also informs the machine, but perhaps later. Without
      // this update, the machine would count a failure and apply a backoff.
      if connection.invalidation != nil {
        self.update { $0.invalidated(connection) }
      }
      connection.destroy()
      await connection.ended()
      self.logger?.debug(
        "the attempt failed", metadata: connection.metadata.merging(["error": "\(error)"]) { $1 })
      return error.isConnectTimeout ? .timedOut(error) : wasLeft ? .left(error) : .failed(error)
    }
    guard case .trial = choice, await connection.hasRetransmitted() else { return nil }
    connection.giveUp()
    await connection.ended()
    return .limping
  }

  /// Lets calls use a connection that is ready, and gives up the attempts that were slower.
  private func use(_ connection: Connection, by choice: LinkChoice, _ hub: GuardHub) async {
    let id = connection.id
    typealias Losers = (
      others: [Connection], guards: [ConnectionGuard], resolver: ResolverWatch?,
      isBesideStalled: Bool
    )
    let losers = self.update { state -> ([ChannelMachine.Action], Losers?) in
      state.attempts[connection.serial] = nil
      guard state.machine.isConnecting(id) else { return ([], nil) }
      state.connections[id] = connection
      state.events.yield(
        state.news.begin(on: connection.path, unguarded: connection.unguardedReason))
      let losers = (
        state.takeAttempts { $0.id == id }, state.guards, state.resolver,
        state.machine.silentConnection(beside: id)?.stalledSince != nil
      )
      (state.guards, state.resolver) = ([], nil)
      return (state.machine.connected(id), losers)
    }
    // Another address was faster, or the network changed and another attempt may be running.
    guard let losers else { return connection.destroy() }
    self.noteWay(of: connection, hub)
    if case .other = choice {
      await self.reportContrast(
        connection, with: losers.others, isBesideStalled: losers.isBesideStalled)
    } else {
      await self.reportReady(connection)
    }
    for other in losers.others { other.giveUp() }
    for failed in losers.guards { failed.end() }
  }

  /// Returns when a connection that was ready has ended.
  private func serve(_ connection: Connection) async {
    await withDiscardingTaskGroup { group in
      if let time = self.settings.config.connection.maxIdleTime {
        group.addTask { await self.drain(connection, whenIdleFor: time) }
      }
      await connection.closed()
      group.cancelAll()
    }
    // The connection may have closed before it was known to be ready.
    self.update { state in
      guard state.connections[connection.id] === connection else { return [] }
      defer { state.connections[connection.id] = nil }
      return state.closed(connection)
    }
    self.forgetWay(of: connection)
    connection.flow?.end()
    await connection.ended()
  }

  /// Closes a connection once it has been idle for the given time, unless it closes before.
  private func drain(_ connection: Connection, whenIdleFor time: Duration) async {
    while true {
      // While calls use the connection, it is checked once per period.
      let rest = max(time - connection.idleTime, .milliseconds(1))
      do { try await self.settings.eventLoop.sleep(for: rest) } catch { return }
      let isOver = self.update { state in
        // Under the channel's lock, because calls receive the connection under the same lock.
        let isOver = connection.idleTime >= time
        return (isOver ? state.closed(connection) : [], isOver)
      }
      if isOver { return connection.drain() }
    }
  }

  private func handle(_ event: Connection.Event, of id: UInt64, _ serial: UInt64) {
    func ended(_ change: @Sendable (inout State, Connection) -> [ChannelMachine.Action]) {
      self.update { state in
        guard let connection = state.connections[id], connection.serial == serial else { return [] }
        return change(&state, connection)
      }
    }
    switch event {
    case .goingAway: ended { state, connection in state.closed(connection) }
    case .closed(let broken, let error):
      let connection = self.state.withLock { state in state.connections[id] }
      if let connection, connection.serial == serial {
        self.metrics.disconnected(
          from: self.resolver.authority ?? "", by: connection.invalidation, error)
        if connection.invalidation == nil { self.logEnd(of: connection, broken: broken, error) }
      }
      ended { state, connection in
        broken ? state.machine.lost(id, now: .now) : state.closed(connection)
      }
    case .stall(let event): self.handle(event, of: id, serial)
    case .unguarded(let obstacle):
      let connection = self.state.withLock { state in
        if let connection = state.connections[id], connection.serial == serial {
          state.events.yield(state.news.unguarded(obstacle.error))
          return Optional(connection)
        }
        // The event follows once calls use the connection.
        let connection = state.attempts[serial]
        connection?.unguardedReason = obstacle.error
        return connection
      }
      self.logger?.info(
        "the connection is not guarded: \(obstacle.rawValue)", metadata: connection?.metadata)
    }
  }
}

extension Connection {
  /// Abandons an attempt that is no longer wanted. Its path no longer matters to the channel.
  func giveUp() {
    self.flow?.end()
    self.destroy()
  }
}

extension Channel.State {
  /// The access rules of the waiting calls, or of the last call that waited.
  fileprivate var wanted: [NetworkAccess] {
    self.waiters.isEmpty ? [self.lastAccess] : self.waiters.values.map(\.access)
  }

  /// Removes and returns attempts that are still connecting.
  mutating func takeAttempts(where isMeant: (Connection) -> Bool) -> [Connection] {
    let taken = self.attempts.values.filter(isMeant)
    for connection in taken { self.attempts[connection.serial] = nil }
    return taken
  }

  /// Records the orderly end of a connection, which takes no more calls.
  mutating func closed(_ connection: Connection) -> [ChannelMachine.Action] {
    guard self.connections[connection.id] === connection else { return [] }
    // If the client dropped the connection, the channel does not back off, whichever event is
    // recorded first.
    if connection.invalidation != nil { return self.machine.invalidated(connection.id, now: .now) }
    return self.machine.closed(connection.id, wasUsed: connection.wasUsed, now: .now)
  }
}

extension RPCError {
  /// Whether NIO's timeout for `connect(2)` expired.
  fileprivate var isConnectTimeout: Bool {
    var error: (any Error)? = self
    while let rpc = error as? RPCError { error = rpc.cause }
    if case .connectTimeout? = error as? ChannelError { return true }
    return false
  }
}

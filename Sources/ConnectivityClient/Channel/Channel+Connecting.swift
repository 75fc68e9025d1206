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
    /// It was connected, and no longer is.
    case over
    case failed(RPCError)
    /// NIO gave up on `connect(2)`, as it does after ten seconds.
    case timedOut(RPCError)
    /// The server sent GOAWAY right after its SETTINGS.
    case left(RPCError)
    /// Nothing was sent, because the channel may not use the path.
    case forbidden(NetworkUnavailable)
    /// Nothing was sent, because no waiting call may use the path.
    case unwanted
    /// The trial of the default way was ready, but only after a retransmission.
    case limping
  }

  /// The way that an attempt takes.
  enum Way: Sendable {
    case usual
    /// Bound to the link of another default route (W2).
    case other(String)
    /// The default way, beside a connection by another (W7). Only one without a retransmission
    /// replaces it.
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
  }

  /// Whether a waiting call may use the path. If none is waiting, whether the last one could.
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

  func connectOnce(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress, by way: Way = .usual,
    until deadline: ContinuousClock.Instant, _ hub: GuardHub
  ) async -> Try {
    let serial = self.state.withLock { state in
      state.lastSerial += 1
      return state.lastSerial
    }
    let connection: Connection
    do {
      let target = FixedAddress(address: address, authority: self.resolver.authority)
      // With TLS this parses all trusted certificates: 15 ms, in which an event loop would stop.
      connection = try await NIOThreadPool.singleton.runIfActive {
        try Connection(id: id, serial: serial, to: target, by: way.link, self.settings) {
          [weak self] event in self?.handle(event, of: id, serial)
        }
      }
    } catch {
      return Try(
        outcome: .failed(RPCError(code: .unavailable, message: "\(error)", cause: error)))
    }
    guard self.begin(connection) else {
      return Try(outcome: .failed(ChannelMachine.shutdownError))
    }
    defer { self.state.withLock { $0.attempts[serial] = nil } }
    // Before anything is sent, connd reports what the path costs (C8), even for unguarded
    // connections.
    let isRestricted = self.isRestricted
    let asked = self.guarding(connection, hub, isRestricted: isRestricted)
    let flow = asked?.onlyAsks == true ? nil : asked
    connection.flow = flow
    func over(_ outcome: Outcome) -> Try {
      Try(outcome: outcome, flow: flow, path: connection.path, isLocal: connection.isLocal)
    }
    func objection(to path: KernelPath) -> Outcome? {
      if let refusal = self.settings.config.access.refusal(of: path) { return .forbidden(refusal) }
      return self.isWanted(on: path) ? nil : .unwanted
    }
    let answer = await asked?.answer(isRestricted: isRestricted)
    switch answer {
    case .path(let path):
      connection.path = path
      if let objection = objection(to: path) { return over(objection) }
    case .invalidation(let invalidation):
      if let path = invalidation.path {
        connection.path = path
        if let objection = objection(to: path) { return over(objection) }
      }
      if flow != nil { return over(.failed(RPCError(invalidation))) }
    case .silence where flow != nil:
      self.logger?.warning(
        "connd does not answer; the connection is not guarded until it does",
        metadata: connection.metadata)
    case .silence, .unguarded, nil: break
    }
    if connection.path == nil, answer != nil, let objection = objection(to: .unknown) {
      return over(objection)
    }
    connection.connect()
    return await withTaskCancellationHandler {
      do throws(RPCError) {
        try await connection.ready(until: deadline)
      } catch {
        let wasLeft = connection.wasReady && connection.invalidation == nil
        // The thread that cut the connection also informs the machine, but perhaps later. Without
        // this the machine would count a failure, with a backoff.
        if connection.invalidation != nil {
          self.update { $0.invalidated(connection) }
        }
        connection.destroy()
        await connection.ended()
        self.logger?.debug(
          "the attempt failed",
          metadata: connection.metadata.merging(["error": "\(error)"]) { $1 })
        if error.isConnectTimeout { return over(.timedOut(error)) }
        return over(wasLeft ? .left(error) : .failed(error))
      }
      if case .trial = way, await connection.hasRetransmitted() {
        connection.giveUp()
        await connection.ended()
        return over(.limping)
      }
      typealias Losers = (others: [Connection], guards: [ConnectionGuard], isBesideStalled: Bool)
      let losers = self.update { state -> ([ChannelMachine.Action], Losers?) in
        state.attempts[serial] = nil
        guard state.machine.isConnecting(id) else { return ([], nil) }
        state.connections[id] = connection
        for event in state.news.begin(on: connection.path) { state.events.yield(event) }
        let losers = (
          state.takeAttempts { $0.id == id }, state.guards, state.machine.isBesideStalled(id)
        )
        state.guards = []
        return (state.machine.connected(id), losers)
      }
      self.noteWay(of: connection, isCurrent: losers != nil, hub)
      // The network changed in between, and another attempt may be running; or another address was
      // faster.
      if losers == nil { connection.destroy() }
      if let losers {
        if case .other = way {
          await self.reportContrast(
            connection, with: losers.others, isBesideStalled: losers.isBesideStalled)
        } else {
          await self.reportReady(connection)
        }
      }
      for other in losers?.others ?? [] { other.giveUp() }
      for failed in losers?.guards ?? [] { failed.end() }
      await withDiscardingTaskGroup { group in
        if let time = self.settings.config.connection.maxIdleTime {
          group.addTask { await self.drain(connection, whenIdleFor: time) }
        }
        await connection.closed()
        group.cancelAll()
      }
      // It may have closed before it was known to be ready.
      self.update { state in
        guard state.connections[id] === connection else { return [] }
        defer { state.connections[id] = nil }
        return state.closed(connection)
      }
      self.forgetWay(of: connection)
      flow?.end()
      await connection.ended()
      return Try(outcome: .over)
    } onCancel: {
      connection.destroy()
    }
  }

  /// Closes a connection once it has been idle for the given time, unless it closes before.
  private func drain(_ connection: Connection, whenIdleFor time: Duration) async {
    while true {
      // While calls use the connection, it is checked once per period.
      let rest = max(time - connection.idleTime, .milliseconds(1))
      do { try await self.settings.eventLoop.sleep(for: rest) } catch { return }
      let isOver = self.update { state in
        // Under the channel's lock, because calls receive the connection under it.
        let isOver = connection.idleTime >= time
        return (isOver ? state.closed(connection) : [], isOver)
      }
      if isOver { return connection.drain() }
    }
  }

  /// Returns whether the attempt is still wanted.
  private func begin(_ connection: Connection) -> Bool {
    self.state.withLock { state in
      guard state.machine.isConnecting(connection.id) else { return false }
      state.attempts[connection.serial] = connection
      return true
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
      if let connection, connection.serial == serial, connection.invalidation == nil {
        self.logEnd(of: connection, broken: broken, error)
      }
      ended { state, connection in
        broken ? state.machine.lost(id, now: .now) : state.closed(connection)
      }
    case .stalled: self.stalled(id, serial)
    case .recovered: self.recovered(id, serial)
    case .unguarded(let obstacle):
      let connection = self.state.withLock { state in
        state.events.yield(.unguarded(obstacle.rawValue))
        return state.attempts[serial]
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

  /// Records that the connection takes no more calls, in good order.
  mutating func closed(_ connection: Connection) -> [ChannelMachine.Action] {
    guard self.connections[connection.id] === connection else { return [] }
    // A connection that this end dropped leaves no backoff, in whichever order the two events
    // arrive.
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

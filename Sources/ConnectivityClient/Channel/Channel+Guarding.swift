internal import Connectivity
private import ConnectivityProtocol
internal import ConnectivitySession
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
private import Synchronization

/// Implements rule C2.
extension Channel {
  /// Has connd guard a connection from now on. Returns `nil` if there is nothing to guard: for a
  /// Unix socket or loopback.
  func guarding(_ connection: Connection, _ hub: GuardHub) -> ConnectionGuard? {
    self.guardable(connection).map { self.guarding($0, hub, connection) }
  }

  /// Queries the path of an unguarded connection. Returns `nil` for a Unix socket or loopback.
  func asking(_ connection: Connection, _ hub: GuardHub) -> ConnectionGuard? {
    self.guardable(connection).map { remote in
      ConnectionGuard(self.flow(remote, connection), hub: hub) { _, _, _ in }
    }
  }

  private func guardable(_ connection: Connection) -> IPAddress? {
    guard let remote = connection.target.address.ip,
      self.settings.config.guardsLoopback || !remote.isLoopback
    else { return nil }
    return remote
  }

  private func flow(_ remote: IPAddress, _ connection: Connection?) -> FlowGuard.Flow {
    let access = self.settings.config.access
    return FlowGuard.Flow(
      remote: remote,
      transport: connection.map { .init(Transport.tcp, remotePort: $0.target.address.ipPort) },
      mark: self.settings.config.mark,
      interface: self.settings.config.interface ?? connection?.target.address.link,
      forbidsExpensive: !access.allowsExpensiveAccess,
      forbidsConstrained: !access.allowsConstrainedAccess)
  }

  /// Has connd report what happens to the path to an address, and to the connection if there is
  /// one.
  func guarding(
    _ remote: IPAddress, _ hub: GuardHub, _ connection: Connection? = nil
  ) -> ConnectionGuard {
    ConnectionGuard(self.flow(remote, connection), hub: hub) {
      [weak self, weak connection] event, novelty, flow in
      if let connection {
        if case .flow(let event) = event { self?.judge(event, of: flow, connection, novelty) }
        self?.handle(event, of: connection, novelty, hub)
      } else if case .flow(let event) = event {
        // The event belongs to a failed attempt.
        self?.noticed(event.path, novelty)
      }
    }
  }

  private func handle(
    _ event: GuardHub.Event, of connection: Connection, _ novelty: ConnectionGuard.EventPhase,
    _ hub: GuardHub
  ) {
    if case .flow(let event) = event,
      let invalidation = self.settings.config.access.invalidation(by: event)
    {
      // An attempt that would be invalid from the start is not made. That does not justify another
      // one.
      if novelty == .answer, invalidation.severity == .destroy { return }
      self.invalidate(connection, invalidation, novelty)
    }
    switch event {
    case .flow(let event) where event.path != nil:
      if !event.destroys { self.moved(connection, to: event.path) }
      self.noticed(event.path, novelty)
    case .flow(.path), .flow(.betterPathGone), .flow(.invalidation): break
    case .flow(.refused(let why)):
      self.logger?.warning(
        "connd does not guard the connection, which continues as a plain one",
        metadata: connection.metadata.merging(["reason": "\(why)"]) { $1 })
      self.update { $0.suspend(connection, false) }
    case .disconnected(let why):
      self.logger?.info(
        "connd is not running, the connection is not guarded until it is",
        metadata: connection.metadata.merging(["reason": "\(why)"]) { $1 })
      self.update { $0.suspend(connection, false) }
    case .elsewhere(let foreign):
      if let logger = self.logger {
        hub.sayElsewhere { logger.warning("connections are not guarded: \(foreign)") }
      }
      self.update { $0.suspend(connection, false) }
    }
  }

  /// Judges by connd's verdict on a new connection whether connd can be trusted (I11).
  private func judge(
    _ event: FlowEvent, of flow: FlowGuard.Flow, _ connection: Connection,
    _ novelty: ConnectionGuard.EventPhase
  ) {
    let rest = self.state.withLock { $0.breaker.record(event, of: flow, novelty, now: .now) }
    guard let rest, case .invalidation(let invalidation) = event else { return }
    self.logger?.warning(
      "connd wrongly rejects new connections; for \(rest) they are not guarded",
      metadata: connection.metadata.merging(invalidation.evidence(against: flow)) { $1 })
  }

  /// A satisfied path may be a reason to retry immediately (C4), unless the channel may not use it.
  private func noticed(_ path: Path?, _ novelty: ConnectionGuard.EventPhase) {
    guard novelty.isNews, let path, path.status == .satisfied,
      self.settings.config.access.refusal(of: path) == nil
    else { return }
    self.update { $0.machine.pathSatisfied(now: .now) }
  }

  /// Handles a new path of the connection. An attempt whose former path was unusable starts over,
  /// because TCP itself retries only after a second, and then with growing delays.
  private func moved(_ connection: Connection, to path: Path?) {
    let couldNot = connection.path.map { $0.status != .satisfied } ?? false
    connection.path = path
    // New calls wait to see whether a lost path returns (I10).
    let isLost = path.map { $0.status == .unsatisfied || $0.status == .requiresConnection } ?? false
    self.update { $0.suspend(connection, isLost) }
    guard couldNot, path?.status == .satisfied,
      self.state.withLock({ $0.attempts[connection.serial] === connection })
    else { return }
    self.update { $0.machine.invalidated(connection.id, now: .now) }
    connection.destroy()
  }

  private func invalidate(
    _ connection: Connection, _ invalidation: FlowInvalidation,
    _ novelty: ConnectionGuard.EventPhase
  ) {
    let action = self.settings.config.onInvalidation.action(for: invalidation)
    self.logger?.info(
      "the connection is no longer viable",
      metadata: connection.metadata.merging([
        "reason": "\(invalidation.reason.rawValue)",
        "severity": "\(invalidation.severity.rawValue)",
        "cause": "\(invalidation.cause.change)", "action": "\(action)",
      ]) { $1 })
    switch action {
    case .destroy:
      // Destroy first, because calls are waiting for the error.
      connection.destroy(invalidation)
      return self.update { $0.invalidated(connection) }
    case .drain:
      // Before the connection reports its own end, because a close by this end leaves no backoff.
      self.update { $0.drained(connection) }
      connection.drain()
    case .keep: break
    }
    // Flows that connd would immediately end again are not registered again.
    if invalidation.severity == .destroy, invalidation.isSurvivable, novelty.isNews {
      connection.flow?.keepDespiteVerdict(on: connection.path?.interface)
    }
  }
}

extension Channel.State {
  /// Suspends calls while the connection has no path, and resumes them when the path is back.
  fileprivate mutating func suspend(
    _ connection: Connection, _ isSuspended: Bool
  ) -> [ChannelMachine.Action] {
    guard self.connections[connection.id] === connection else { return [] }
    return self.machine.suspend(connection.id, isSuspended)
  }
}

extension Channel.State {
  /// Whether calls use the connection, or may come to use it.
  private func isCurrent(_ connection: Connection) -> Bool {
    self.connections[connection.id] === connection
      || self.attempts[connection.serial] === connection
  }

  /// Records that the network under a connection is gone. A connection that lost the race to
  /// another address is ignored. If other addresses are being tried, they continue without it.
  mutating func invalidated(_ connection: Connection) -> [ChannelMachine.Action] {
    guard self.isCurrent(connection) else { return [] }
    let isAlone = !self.attempts.values.contains { $0.id == connection.id && $0 !== connection }
    if self.attempts.removeValue(forKey: connection.serial) != nil, !isAlone { return [] }
    return self.machine.invalidated(connection.id, now: .now)
  }

  fileprivate mutating func drained(_ connection: Connection) -> [ChannelMachine.Action] {
    // Calls that wait for this attempt wait for the next one.
    if self.attempts[connection.serial] === connection { return self.invalidated(connection) }
    guard self.connections[connection.id] === connection else { return [] }
    return self.machine.closed(connection.id, wasUsed: true, now: .now)
  }
}

extension FlowInvalidation {
  /// The data of the flow and connd's complete answer, for the log.
  fileprivate func evidence(against flow: FlowGuard.Flow) -> Logger.Metadata {
    var metadata: Logger.Metadata = [
      "reason": "\(self.reason.rawValue)",
      "cause": "\(self.cause.trigger.rawValue) \(self.cause.change)",
    ]
    if let path = self.path {
      let words: [String?] = [
        path.status.rawValue, path.reason?.rawValue, path.chain.map(\.name).joined(separator: "/"),
        path.source.map { "from \($0)" }, path.gateway.map { "via \($0)" },
        path.table.map { "table \($0)" },
      ]
      metadata["path"] = "\(words.compactMap { $0 }.joined(separator: " "))"
    }
    metadata["remote"] = "\(flow.remote)"
    metadata["local"] = flow.local.map { "\($0)" }
    metadata["mark"] = "\(flow.mark)"
    metadata["interface"] = flow.interface.map { "\($0)" }
    if let transport = flow.transport {
      metadata["local_port"] = "\(transport.localPort)"
      metadata["remote_port"] = "\(transport.remotePort)"
      metadata["protocol"] = "\(transport.number)"
    }
    return metadata
  }
}

extension Connection {
  /// The metadata for log messages about the connection and its calls.
  var metadata: Logger.Metadata {
    var metadata: Logger.Metadata = [
      "grpc_connection_id": "\(self.name)", "grpc_remote": "\(self.target.address)",
    ]
    if let path = self.path {
      if let interface = path.interface { metadata["network_interface"] = "\(interface)" }
      metadata["network_medium"] = "\(path.medium.rawValue)"
    }
    return metadata
  }
}

extension GRPCNIOTransportHTTP2Posix.SocketAddress {
  /// The IP address without port and zone, or `nil` for a Unix socket. IPv4-mapped addresses become
  /// IPv4.
  var ip: IPAddress? {
    let host = self.ipv4?.host ?? self.ipv6?.host
    return host.flatMap { IPAddress(String($0.prefix { $0 != "%" }))?.unmapped }
  }

  /// The link that connect(2) binds a link-local connection to, or `nil` for other addresses. The
  /// zone is a link's name or index.
  fileprivate var link: String? {
    guard self.ip?.needsLink == true, let host = self.ipv6?.host,
      let mark = host.firstIndex(of: "%")
    else { return nil }
    let zone = String(host[host.index(after: mark)...])
    return UInt32(zone).map(linkName) ?? zone
  }

  /// The port, or 0 for a Unix socket.
  fileprivate var ipPort: UInt16 {
    (self.ipv4?.port ?? self.ipv6?.port).flatMap { UInt16(exactly: $0) } ?? 0
  }
}

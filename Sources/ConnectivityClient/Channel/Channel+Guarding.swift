internal import Connectivity
internal import ConnectivityMonitor
private import ConnectivityProtocol
internal import GRPCNIOTransportHTTP2Posix
private import LinuxSupport
internal import Logging
private import Synchronization

/// Implements rule C2.
extension Channel {
  /// Starts to guard a connection. Returns `nil` for a Unix socket or loopback.
  ///
  /// - Parameter isRestricted: Whether the path must be known even if the connection is not
  ///   guarded.
  func guarding(
    _ connection: Connection, _ hub: GuardHub, isRestricted: Bool
  ) -> ConnectionGuard? {
    let address = connection.target.address
    let transport = Transport(Transport.tcp, remotePort: address.ipPort)
    return self.flow(
      to: address.ip, transport, boundTo: connection.link ?? address.link,
      forFree: connection.link != nil && self.settings.config.assist == .inexpensive
    ).flatMap { flow in
      var flow = flow
      flow.question = .ping
      return ConnectionGuard.begin(
        flow, hub: hub, breaker: self.breaker, asksOtherwise: isRestricted
      ) { [weak self, weak connection] absence in
        if let connection { self?.handle(absence, of: connection, hub) }
      } onEvent: { [weak self, weak connection] report in
        if let connection {
          self?.handle(report, of: connection)
        } else {
          // The event belongs to a failed attempt.
          self?.noticed(report.event.path, report.phase)
        }
      } askPeer: { [weak self, weak connection] in
        guard let connection else { return }
        self?.publish(of: connection) { _ in [.asked] }
        connection.askPeer()
      }
    }
  }

  /// Follows the path to an address without a connection.
  func following(_ remote: IPAddress, _ hub: GuardHub) -> ConnectionGuard? {
    self.flow(to: remote, nil, boundTo: nil).map { flow in
      ConnectionGuard(flow, hub: hub) { [weak self] report in
        if let path = report.event.path {
          self?.state.withLock { $0.pathsOfSearch[remote] = path }
        }
        self?.noticed(report.event.path, report.phase)
      }
    }
  }

  /// Follows the default path to an address, and calls `onChange` when it changes.
  func watching(
    _ remote: IPAddress, _ hub: GuardHub, onChange: @escaping @Sendable () -> Void
  ) -> ConnectionGuard? {
    let watch = DefaultPathWatch()
    return self.flow(to: remote, nil, boundTo: nil).map { flow in
      ConnectionGuard(flow, hub: hub) { report in
        if watch.isChange(report.event) { onChange() }
      }
    }
  }

  /// - Parameter isFree: Whether the path must cost nothing (W6).
  private func flow(
    to remote: IPAddress?, _ transport: Transport?, boundTo link: String?,
    forFree isFree: Bool = false
  ) -> FlowGuard.Flow? {
    let config = self.settings.config
    var flow = FlowGuard.Flow(
      to: remote, transport, mark: config.mark ?? 0, boundTo: config.interface ?? link,
      for: config.access, guardsLoopback: config.socket.guardsLoopback)
    if isFree { flow?.forbidsExpensive = true }
    return flow
  }

  private func handle(_ report: ConnectionGuard.Report, of connection: Connection) {
    let (event, phase) = (report.event, report.phase)
    connection.note(event)
    connection.unguardedReason =
      if case .refused(let refusal) = event { ConndError(refusal) } else { nil }
    report.warn(self.logger, connection.metadata)
    self.publish(of: connection) { $0.record(event, for: self.settings.config.access) }
    if let invalidation = self.settings.config.access.invalidation(by: event) {
      // An attempt that would be invalid from the start is not made, and does not cause another
      // attempt.
      if phase == .answer, invalidation.severity == .destroy {
        if let path = event.path { self.record(path) }
        return
      }
      self.invalidate(connection, invalidation, report)
    }
    if case .refused(let refusal) = event {
      self.logger?.warning(
        "connd does not guard the connection, which continues as a plain one",
        metadata: connection.metadata.merging(["reason": "\(refusal.message)"]) { $1 })
      self.update { $0.suspend(connection, false) }
    } else if let path = event.path {
      if !event.destroys { self.moved(connection, to: path) }
      if case .path = event { self.heard(connection) }
      self.noticed(path, phase)
    }
  }

  private func handle(_ absence: ConndAbsence, of connection: Connection, _ hub: GuardHub) {
    connection.note(nil)
    connection.unguardedReason = absence.error
    switch absence {
    case .disconnected(let why):
      self.logger?.info(
        "connd is not running; the connection is not guarded until it is",
        metadata: connection.metadata.merging(["reason": "\(why)"]) { $1 })
    case .elsewhere(let foreign):
      if let logger = self.logger {
        hub.sayElsewhere { logger.warning("connections are not guarded: \(foreign)") }
      }
    }
    self.update { state in
      state.path = .unknown
      if state.isInUse(connection) { state.events.yield(state.news.unguarded(absence.error)) }
      return state.suspend(connection, false)
    }
  }

  /// Records a path. Retries immediately if a new path is satisfied and the channel may use it
  /// (C4).
  private func noticed(_ path: KernelPath?, _ phase: ConnectionGuard.EventPhase) {
    guard let path else { return }
    self.record(path)
    guard phase.isNews, path.status == .satisfied,
      self.settings.config.access.refusal(of: path) == nil
    else { return }
    self.networkChanged()
  }

  /// Records the path for the calls that wait, and informs them if it passes no traffic.
  private func record(_ path: KernelPath) {
    self.update { state in
      state.path = path
      return state.waitingForPath()
    }
  }

  /// Records news of the connection in use, and sends the events to the channel's observers.
  private func publish(
    of connection: Connection, _ record: (inout ConnectionNews) -> [ConnectionEvent]
  ) {
    self.state.withLock { state in
      if state.isInUse(connection) { state.events.yield(record(&state.news)) }
    }
  }

  /// Lets calls use a silent connection again, because connd no longer advises against it.
  private func heard(_ connection: Connection) {
    let wasSilent = self.state.withLock { state in
      guard state.silent == connection.serial else { return false }
      state.silent = nil
      return true
    }
    if wasSilent { self.recovered(connection.id, connection.serial) }
  }

  /// Handles a new path of the connection. If the former path was unusable, the attempt starts
  /// over, because TCP itself retries only after a second, and then with growing delays.
  private func moved(_ connection: Connection, to path: KernelPath) {
    let couldNot = connection.path.map { $0.status != .satisfied } ?? false
    connection.path = path
    // New calls wait to see whether a lost path returns (I10).
    let isLost = path.status == .unsatisfied || path.status == .requiresConnection
    self.update { $0.suspend(connection, isLost) }
    guard couldNot, path.status == .satisfied,
      self.state.withLock({ $0.attempts[connection.serial] === connection })
    else { return }
    self.update { $0.machine.invalidated(connection.id, now: .now) }
    connection.destroy()
  }

  /// Handles an invalidation of a connection, as the configuration says.
  ///
  /// - Parameter report: The guard's report, or `nil` if the channel itself found the connection
  ///   dead.
  func invalidate(
    _ connection: Connection, _ invalidation: InvalidationError,
    _ report: ConnectionGuard.Report? = nil
  ) {
    let action = self.settings.config.onInvalidation.action(for: invalidation)
    self.metrics.invalidated(invalidation)
    self.logger?.log(
      invalidation, cause: invalidation.cause.change, action, of: connection.metadata)
    switch action {
    case .destroy:
      // Destroy first, because calls are waiting for the error.
      connection.destroy(invalidation)
      LookupThreads.shared.changed(nil)
      return self.update { $0.invalidated(connection) }
    case .drain:
      // Update before the connection reports its end, because a drain causes no backoff.
      self.update { $0.drained(connection) }
      connection.drain()
    case .keep:
      if invalidation.reason == .silent, invalidation.severity == .advise, connection.link == nil {
        let isBusy = connection.isBusy
        self.update { state in
          guard state.isInUse(connection) else { return [] }
          let actions = state.machine.silent(connection.id, isBusy: isBusy, now: .now)
          if !actions.isEmpty { state.silent = connection.serial }
          return actions
        }
      }
    }
    report?.keep(despite: invalidation, awaitsReturn: action == .keep)
  }
}

extension Channel.State {
  /// Suspends calls while the connection has no path, and resumes them when the path is back.
  fileprivate mutating func suspend(
    _ connection: Connection, _ isSuspended: Bool
  ) -> [ChannelMachine.Action] {
    guard self.connections[connection.id] === connection else { return [] }
    return self.machine.suspend(connection.id, isSuspended, now: .now)
  }

  /// Whether new calls use the connection, perhaps once its path is back.
  fileprivate func isInUse(_ connection: Connection) -> Bool {
    self.machine.current == connection.id && self.connections[connection.id] === connection
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
    // Calls that wait for this attempt now wait for the next one.
    if self.attempts[connection.serial] === connection { return self.invalidated(connection) }
    guard self.connections[connection.id] === connection else { return [] }
    return self.machine.closed(connection.id, wasUsed: true, now: .now)
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
  var ipPort: UInt16 {
    (self.ipv4?.port ?? self.ipv6?.port).flatMap { UInt16(exactly: $0) } ?? 0
  }
}

internal import Connectivity
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
private import Synchronization

extension Channel {
  /// Has connd guard a connection, from now on; `nil` where there is nothing to guard: a Unix socket, this machine
  /// itself.
  func guarding(_ connection: Connection, _ hub: GuardHub) -> ConnectionGuard? {
    guard let remote = connection.target.address.ip,
      self.settings.config.guardsLoopback || !remote.isLoopback
    else { return nil }
    let access = self.settings.config.access
    let flow = FlowGuard.Flow(
      remote: remote, forbidsExpensive: !access.allowsExpensiveAccess,
      forbidsConstrained: !access.allowsConstrainedAccess)
    return ConnectionGuard(flow, hub: hub) { [weak self, weak connection] event, isFirst in
      if let connection {
        self?.handle(event, of: connection, isFirst: isFirst)
      } else if case .flow(let event) = event {
        // Of an attempt that failed.
        self?.noticed(event.path)
      }
    }
  }

  private func handle(_ event: GuardHub.Event, of connection: Connection, isFirst: Bool) {
    if case .flow(let event) = event,
      let invalidation = self.settings.config.access.invalidation(by: event)
    {
      // An attempt that would be invalid from its beginning is not begun: that is no reason for another one.
      if isFirst, invalidation.severity == .destroy { return }
      self.invalidate(connection, invalidation)
    }
    switch event {
    case .flow(let event) where event.path != nil:
      if !event.destroys { self.moved(connection, to: event.path) }
      self.noticed(event.path)
    case .flow(.path), .flow(.invalidation): break
    case .flow(.refused(let why)):
      self.logger?.warning(
        "connd does not guard the connection, which works on as a plain one",
        metadata: connection.metadata.merging(["reason": "\(why)"]) { $1 })
    case .disconnected(let why):
      self.logger?.info(
        "connd is not there, the connection is not guarded until it is",
        metadata: connection.metadata.merging(["reason": "\(why)"]) { $1 })
    }
  }

  private func noticed(_ path: Path?) {
    if path?.status == .satisfied { self.update { $0.machine.pathSatisfied(now: .now) } }
  }

  /// The connection's path is another. One that is still being made, and could not be on the path that there was, is begun
  /// anew: TCP itself asks again only after a second, and then more and more rarely.
  private func moved(_ connection: Connection, to path: Path?) {
    let couldNot = connection.path.map { $0.status != .satisfied } ?? false
    connection.path = path
    guard couldNot, path?.status == .satisfied,
      self.state.withLock({ $0.attempts[connection.id] === connection })
    else { return }
    self.update { $0.machine.invalidated(connection.id, now: .now) }
    connection.destroy()
  }

  private func invalidate(_ connection: Connection, _ invalidation: FlowInvalidation) {
    let action = self.settings.config.onInvalidation.action(for: invalidation)
    self.logger?.info(
      "the connection is no longer viable",
      metadata: connection.metadata.merging([
        "reason": "\(invalidation.reason.rawValue)",
        "severity": "\(invalidation.severity.rawValue)",
        "cause": "\(invalidation.cause.change)", "action": "\(action)",
      ]) { $1 })
    if action == .keep { return }
    // Before the connection says itself that it is closed: this end leaves no backoff.
    self.update { $0.machine.invalidated(connection.id, now: .now) }
    if action == .drain { connection.drain() } else { connection.destroy(invalidation) }
  }
}

extension FlowEvent {
  fileprivate var path: Path? {
    switch self {
    case .path(let path): path
    case .invalidation(let invalidation): invalidation.path
    case .refused: nil
    }
  }

  fileprivate var destroys: Bool {
    if case .invalidation(let invalidation) = self {
      invalidation.severity == .destroy
    } else {
      false
    }
  }
}

extension Connection {
  /// What logs say of it, and of the calls that are on it.
  var metadata: Logger.Metadata {
    var metadata: Logger.Metadata = [
      "grpc_connection_id": "\(self.id)", "grpc_remote": "\(self.target.address)",
    ]
    if let path = self.path {
      if let interface = path.interface { metadata["network_interface"] = "\(interface)" }
      metadata["network_medium"] = "\(path.medium.rawValue)"
    }
    return metadata
  }
}

extension GRPCNIOTransportHTTP2Posix.SocketAddress {
  /// The IP address, without its port and zone; `nil` for a Unix socket.
  var ip: IPAddress? {
    let host = self.ipv4?.host ?? self.ipv6?.host
    return host.flatMap { IPAddress(String($0.prefix { $0 != "%" })) }
  }
}

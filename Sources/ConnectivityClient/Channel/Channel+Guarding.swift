internal import Connectivity
internal import GRPCNIOTransportHTTP2Posix
internal import Logging

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
    return ConnectionGuard(flow, hub: hub) { [weak self, weak connection] event in
      if let self, let connection { self.handle(event, of: connection) }
    }
  }

  private func handle(_ event: GuardHub.Event, of connection: Connection) {
    if case .flow(let event) = event,
      let invalidation = self.settings.config.access.invalidation(by: event)
    {
      self.invalidate(connection, invalidation)
    }
    switch event {
    case .flow(.invalidation): break
    case .flow(.path(let path)):
      connection.path = path
      if path.status == .satisfied { self.update { $0.machine.pathSatisfied(now: .now) } }
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

  private func invalidate(_ connection: Connection, _ invalidation: FlowInvalidation) {
    let action = self.settings.config.onInvalidation.action(for: invalidation)
    self.logger?.info(
      "the connection is no longer viable",
      metadata: connection.metadata.merging([
        "reason": "\(invalidation.reason.rawValue)", "severity": "\(invalidation.severity.rawValue)",
        "cause": "\(invalidation.cause.change)", "action": "\(action)",
      ]) { $1 })
    switch action {
    case .keep: return
    case .drain: connection.drain()
    case .destroy: connection.destroy(invalidation)
    }
    self.update { $0.machine.invalidated(connection.id, now: .now) }
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

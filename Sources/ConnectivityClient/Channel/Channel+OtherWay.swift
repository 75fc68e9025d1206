internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Logging
private import NIOCore
private import Synchronization

/// A channel's use of a connection by the other way.
struct OtherWayUse: Sendable {
  var connection: UInt64
  var stay: OtherWayStay
  /// Follows the default path to the same address. A change of that path ends the use (W7).
  var defaultPath: ConnectionGuard?
}

/// Implements rules W1, W2, W3, W7 and W8.
extension Channel {
  typealias Addresses = Resolution.Addresses

  /// How long all tries must be silent before the other way begins. The kernel repeats a lost SYN
  /// after a second (RFC 6298), and the answer needs a moment. One lost packet does not justify the
  /// other way.
  static let otherWayDelay = Duration.milliseconds(1100)
  /// The delay of the other way beside a stalled connection (W4), or if the link is in doubt (Q1).
  static let otherWayDelayInDoubt = Duration.milliseconds(250)

  /// The time after which a state that may change soon is examined again.
  private static let shortDelay = Duration.milliseconds(50)

  /// Returns how long all tries must be silent before the other way begins (W3).
  private static func delay(_ quality: LinkQuality?, _ isInDoubt: Bool) -> Duration {
    switch quality {
    case .minimal: .zero
    case .moderate: self.otherWayDelayInDoubt
    default: isInDoubt ? self.otherWayDelayInDoubt : self.otherWayDelay
    }
  }

  /// The quality of the default way of an attempt, or `nil` before connd has answered.
  private func quality(of id: UInt64) -> LinkQuality? {
    self.state.withLock { state in
      state.attempts.values.lazy.filter { $0.id == id && $0.link == nil }
        .compactMap { $0.path?.quality }.first
    }
  }

  func mayTakeOtherWay(to addresses: Addresses) -> Bool {
    addresses.contains { self.settings.mayTakeOtherWay(to: $0.ip) }
  }

  /// Waits until the default way has made no progress for the time of rule W3, and then tries the
  /// addresses by another link. Returns when the resulting connection has ended.
  ///
  /// - Parameter begin: Called when there is another way to try. Until then, connd may be stuck,
  ///   and the outcome of the default way must not wait for connd (C7).
  func takeOtherWay(
    _ id: UInt64, to addresses: Addresses, until deadline: ContinuousClock.Instant,
    _ hub: GuardHub, begin: () -> Void
  ) async {
    let start = ContinuousClock.now
    var isFirst = true
    while true {
      guard self.isWanted(id), !Task.isCancelled else { return }
      let quality = self.quality(of: id)
      let silent = self.state.withLock { $0.machine.silentConnection(beside: id) }
      let progress = self.lastProgress(of: id) ?? start
      var rest =
        Self.delay(quality, silent?.stalledSince != nil)
        - max(progress, silent?.stalledSince ?? progress).duration(to: .now)
      if rest <= .zero { break }
      let mayStall = silent.map { $0.stalledSince == nil } ?? false
      // connd may not have answered about the default way yet.
      if mayStall || isFirst && quality == nil { rest = min(rest, Self.shortDelay) }
      isFirst = false
      do { try await self.settings.eventLoop.sleep(for: rest) } catch { return }
    }
    for address in addresses.prefix(Self.maxAddresses) {
      guard self.isWanted(id), !Task.isCancelled else { return }
      guard let remote = address.ip, let path = await self.otherWay(to: remote, address.ipPort),
        let link = path.interface
      else { continue }
      begin()
      self.logger?.info(
        "the network makes no progress; trying another one",
        metadata: ["grpc_remote": "\(address)", "network_interface": "\(link)"])
      let one = await self.connectOnce(id, to: address, by: .other(link), until: deadline, hub)
      if case .over = one.outcome { return }
      one.flow?.end()
    }
  }

  /// The maximum number of addresses that are tried by the other way.
  private static let maxAddresses = 4

  /// When one of the attempt's connections last made progress, or `nil` if none has.
  private func lastProgress(of id: UInt64) -> ContinuousClock.Instant? {
    let attempts = self.state.withLock { $0.attempts.values.filter { $0.id == id } }
    return attempts.compactMap(\.lastHeard).max()
  }

  /// Returns the path by another link that the channel may use now, or `nil` without one.
  private func otherWay(to remote: IPAddress, _ port: UInt16) async -> KernelPath? {
    guard self.settings.mayTakeOtherWay(to: remote),
      let path = await self.settings.otherWay(remote, port), path.isAllowed, let path = path.path
    else { return nil }
    // An unknown cost is not free.
    if self.settings.config.assist == .inexpensive, path.isExpensive != false { return nil }
    return path
  }

  // MARK: - Stalls

  /// Handles an event of the watch for stalls of a connection.
  func handle(_ event: StallWatch.Event, of id: UInt64, _ serial: UInt64) {
    let connection = self.state.withLock { $0.connections[id] }
    guard let connection, connection.serial == serial else { return }
    switch event {
    case .hold: self.holdCalls(on: connection)
    case .stalled: self.stalled(connection)
    case .recovered: self.recovered(id, serial)
    case .end(let testimony): self.endCalls(on: connection, testimony)
    }
  }

  /// Ends the calls on a connection because another link reaches its server (W8).
  private func endCalls(on connection: Connection, _ testimony: SocketTestimony) {
    let path = connection.path
    let cause = ChangeCause(.quality, "stalled", interface: path?.interface)
    self.invalidate(
      connection,
      InvalidationError(
        reason: .silent, severity: .destroy, cause: cause, path: path, socket: testimony))
  }

  /// Returns when the connection in use was last heard, or `nil` if it may use the same link as the
  /// given connection, or has another server (W8).
  func heardElsewhere(than id: UInt64, _ serial: UInt64) -> ContinuousClock.Instant? {
    let connections = self.state.withLock { state in
      (state.connections[id], state.machine.ready.flatMap { state.connections[$0] })
    }
    guard case (let silent?, let other?) = connections, silent.serial == serial,
      let link = silent.path?.chain.first, let otherLink = other.path?.chain.first,
      link.index != otherLink.index, other.target.address == silent.target.address
    else { return nil }
    return other.lastHeard
  }

  /// Makes new calls wait for the peer of a silent connection, or for a connection beside it (W4).
  private func holdCalls(on connection: Connection) {
    self.update { state in
      guard state.connections[connection.id] === connection else { return [] }
      state.machine.holdCalls(on: connection.id, now: .now)
      return []
    }
    self.logger?.debug("the peer is silent; new calls wait", metadata: connection.metadata)
  }

  /// Handles a stalled connection. Later calls get another connection (W4).
  private func stalled(_ connection: Connection) {
    let isBusy = connection.isBusy
    self.update { state in
      guard state.connections[connection.id] === connection else { return [] }
      return state.machine.stalled(connection.id, isBusy: isBusy, now: .now)
    }
    self.logger?.debug(
      "the connection makes no progress; new calls get another one", metadata: connection.metadata)
    if connection.link == nil { self.report(.stalled, connection) }
  }

  /// Handles the recovery of a silent connection. Calls that wait for another connection use it.
  func recovered(_ id: UInt64, _ serial: UInt64) {
    let obsolete = self.update { state -> ([ChannelMachine.Action], [Connection]) in
      guard state.connections[id]?.serial == serial else { return ([], []) }
      let actions = state.machine.recovered(id)
      let attempts = state.machine.ready == id && !actions.isEmpty
      return (actions, attempts ? state.takeAttempts { $0.id != id } : [])
    }
    for attempt in obsolete { attempt.giveUp() }
  }

  // MARK: - The return

  /// Records whether calls use the other way from now on.
  func noteWay(of connection: Connection, _ hub: GuardHub) {
    var use: OtherWayUse?
    if connection.link != nil {
      let remote = connection.target.address.ip
      let flow = remote.flatMap { remote in
        self.watching(remote, hub) { [weak self] in self?.leaveOtherWay(connection) }
      }
      flow?.follow()
      use = OtherWayUse(
        connection: connection.id, stay: OtherWayStay(since: .now), defaultPath: flow)
    }
    let former = self.state.withLock { state in
      defer { state.otherWay = state.connections[connection.id] == nil ? nil : use }
      return state.otherWay
    }
    former?.defaultPath?.end()
  }

  /// Ends the use of the other way if the connection, which has ended, used it.
  func forgetWay(of connection: Connection) {
    let former = self.state.withLock { state in
      state.otherWay?.connection == connection.id ? state.otherWay.take() : nil
    }
    former?.defaultPath?.end()
  }

  /// Decides whether to return to the default way when a call starts.
  ///
  /// - Returns: Whether the call uses the connection. Otherwise the connection is released.
  func staysAway(on connection: Connection) -> Bool {
    let (action, trial) = self.state.withLock {
      state -> (OtherWayStay.Action?, ChannelMachine.ConnectionID?) in
      guard state.otherWay?.connection == connection.id else { return (nil, nil) }
      let action = state.otherWay?.stay.called(at: .now)
      let trial = action == .tryDefaultWay ? state.machine.beginTrial(now: .now) : nil
      return (action, trial)
    }
    if let trial { self.command(trial: trial, to: connection.target) }
    guard action == .end else { return true }
    connection.release()
    self.leaveOtherWay(connection)
    return false
  }

  /// Tries the default way beside the connection in use. Returns when the trial's connection has
  /// ended.
  func tryDefaultWay(
    _ id: UInt64, to address: GRPCNIOTransportHTTP2Posix.SocketAddress, _ hub: GuardHub
  ) async {
    while true {
      self.logger?.debug(
        "trying the default network again", metadata: ["grpc_remote": "\(address)"])
      let deadline = ContinuousClock.now + OtherWayStay.trialInterval
      let one = await self.connectOnce(id, to: address, by: .trial, until: deadline, hub)
      if case .over = one.outcome { return }
      one.flow?.end()
      let repeats = self.state.withLock { state -> Bool in
        let isWanted = state.machine.isConnecting(id)
        if isWanted, case .limping = one.outcome, state.otherWay?.stay.tried(.limping) != nil {
          return true
        }
        _ = state.otherWay?.stay.tried(.failed)
        state.machine.trialFailed(id)
        return false
      }
      if !repeats { return }
    }
  }

  /// Lets new calls use the default way. Calls on the connection continue.
  func leaveOtherWay(_ connection: Connection) {
    let former = self.update { state -> ([ChannelMachine.Action], OtherWayUse?) in
      guard state.otherWay?.connection == connection.id else { return ([], nil) }
      defer { state.otherWay = nil }
      return (state.closed(connection), state.otherWay)
    }
    guard let former else { return }
    former.defaultPath?.end()
    self.logger?.info("new calls take the default network again", metadata: connection.metadata)
    connection.retire()
  }
}

internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore

/// Implements rule C5.
extension Channel {
  /// Resolves the name. Follows the network from before the first lookup until the name is resolved
  /// or, after a failure, until the next attempt.
  ///
  /// - Throws: `RPCError` if the name cannot be resolved, or the channel is shut down.
  func resolve(
    _ id: UInt64, within duration: Duration, _ hub: GuardHub
  ) async throws(RPCError) -> Resolution.Addresses {
    let search = self.names.search()
    let mayBegin = self.state.withLock { state in
      if state.machine.isConnecting(id) { (state.search, state.isSearchSlow) = (search, false) }
      return state.machine.isConnecting(id)
    }
    guard mayBegin else { throw ChannelMachine.shutdownError }
    defer { self.state.withLock { if $0.search === search { $0.search = nil } } }
    let followed = self.names.needsNetwork ? await self.followResolver(id, hub) : nil
    let addresses = try await search.addresses(
      within: duration, after: LookupThreads.shared.lastChange)
    if let followed { self.unfollow(followed) }
    return addresses
  }

  /// Stops following what a lookup needs, but not the paths of addresses that have failed
  /// meanwhile.
  private func unfollow(_ followed: (flows: [ConnectionGuard], resolver: ResolverWatch)) {
    self.state.withLock { state in
      state.guards.removeAll { known in followed.flows.contains { $0 === known } }
      // A newer attempt has its own.
      if state.resolver === followed.resolver { state.resolver = nil }
    }
    for flow in followed.flows { flow.end() }
  }

  /// Follows the default paths, which route to DNS servers, and the DNS configuration: a change may
  /// make a name resolvable. Returns when connd has answered, so that no change is missed
  /// afterwards.
  private func followResolver(
    _ id: UInt64, _ hub: GuardHub
  ) async -> (flows: [ConnectionGuard], resolver: ResolverWatch) {
    // A family whose path is not known yet may have one.
    self.state.withLock { state in
      state.pathsOfSearch = [:]
      for address in Self.elsewhere { state.pathsOfSearch[address] = .unknown }
    }
    let flows = Self.elsewhere.compactMap { self.following($0, hub) }
    self.follow(flows)
    let resolver = ResolverWatch(socket: self.settings.config.socket.path, maxWait: Self.maxWait) {
      [weak self] generation in self?.networkChanged(generation)
    }
    let isWanted = self.state.withLock { state in
      if state.machine.isConnecting(id) { state.resolver = resolver }
      return state.machine.isConnecting(id)
    }
    guard isWanted else { return (flows, resolver) }
    for flow in flows { _ = await flow.answer(within: Self.maxWait) }
    await resolver.hasBegun()
    return (flows, resolver)
  }

  /// How long a lookup waits for connd (C7), which usually answers within a millisecond.
  private static let maxWait = Duration.milliseconds(100)

  /// Retries lookups and attempts that failed before, because they may succeed now (C4).
  ///
  /// - Parameter generation: connd's number of a change of the DNS servers, or `nil` for a change
  ///   of a path.
  func networkChanged(_ generation: UInt64? = nil) {
    LookupThreads.shared.changed(generation)
    // A lookup that has not begun yet will use the changed network anyway.
    let search = self.state.withLock { $0.search }
    if let search, !search.hasBegun { return }
    self.update { $0.machine.pathSatisfied(isBusy: $0.isBusy, now: .now) }
    search?.changed()
  }

  /// Documentation addresses (RFC 5737, RFC 3849), which no host uses. Their path is the default
  /// path.
  private static let elsewhere = ["192.0.2.1", "2001:db8::1"].compactMap { IPAddress($0) }
}

/// Reports changes of the DNS servers until its last reference is released.
final class ResolverWatch: Sendable {
  private let task: Task<Void, Never>
  private let timer: ClientThread.Timer
  private let beginning: AsyncStream<Never>

  /// - Parameter maxWait: How long to wait for connd's first answer.
  init(
    socket: String, maxWait: Duration, _ tell: @escaping @Sendable (_ generation: UInt64) -> Void
  ) {
    let connector = Connector.shared
    let (beginning, begun) = AsyncStream.makeStream(of: Never.self)
    self.beginning = beginning
    self.timer = connector.thread.timer(after: maxWait) { begun.finish() }
    self.task = Task(executorPreference: connector.executor) {
      let follower = StatusFollower(
        socket: socket, through: connector, kinds: [.dns], of: ProcessNamespace.own)
      try? await follower.run { event in
        begun.finish()
        switch event {
        case .change(.dns(let change)): tell(change.generation)
        // A gap may hide a change.
        case .gap(let snapshot): tell(snapshot.generation)
        case .snapshot, .change, .disconnected, .resumed: break
        }
      }
    }
  }

  deinit {
    self.task.cancel()
    self.timer.cancel()
  }

  /// Returns when connd has reported the current servers, is absent, or does not answer in time.
  /// Call it from one task only.
  func hasBegun() async { for await _ in self.beginning {} }
}

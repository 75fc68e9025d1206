internal import Connectivity
internal import ConnectivityMonitor
private import Invariants
internal import NIOCore
internal import Synchronization

/// The state that the connection, its pipeline and its calls share.
final class ConnectionCore: Sendable {
  struct State {
    /// Runs gRPC's transport.
    var connecting: Task<Void, Never>?
    var cutter: ConnectionCutter?
    var isRetired = false
    /// Whether the connection was closed while calls ran. Set before calls learn of the close,
    /// because they leave immediately.
    var isBroken = false
    /// The last error of the socket.
    var failure: (any Error)?
    var (wasReady, wasUsed) = (false, false)
    /// The numbers of running calls, of running calls that may stream, and of calls that got the
    /// connection.
    var (calls, streams, holds) = (0, 0, 0)
    var idleSince = ContinuousClock.now
    var invalidation: InvalidationError?
    var path: KernelPath?
    /// The link of the first path, on which the connection is made.
    var link: UInt32?
    var flow: ConnectionGuard?
    var lastHeard: ContinuousClock.Instant?
    var stalls: StallWatch?
    var inquirer: NIOLoopBound<PeerInquirer>?

    mutating func leave(_ isStream: Bool) {
      invariant(self.calls > 0, "only a call that has started ends")
      self.calls -= 1
      if isStream { self.streams -= 1 }
    }
  }

  let state = Mutex(State())
  private let watchesStalls: Bool
  private let recovery: NetworkAwareTransport.Config.Recovery
  private let shortensOutages: Bool
  private let heardElsewhere: @Sendable () -> ContinuousClock.Instant?
  private let onEvent: @Sendable (Connection.Event) -> Void

  init(
    watchesStalls: Bool, _ config: NetworkAwareTransport.Config,
    heardElsewhere: @escaping @Sendable () -> ContinuousClock.Instant?,
    _ onEvent: @escaping @Sendable (Connection.Event) -> Void
  ) {
    self.watchesStalls = watchesStalls
    (self.recovery, self.shortensOutages) = (config.recovery, config.shortensOutages)
    self.heardElsewhere = heardElsewhere
    self.onEvent = onEvent
  }

  /// Prepares a channel before gRPC's transport connects it. Fails for a second channel.
  func opened(_ channel: any NIOCore.Channel) -> EventLoopFuture<Void> {
    let cutter = ConnectionCutter(channel: channel)
    let isFirst = self.state.withLock { state in
      if state.isRetired || state.cutter != nil { return false }
      state.cutter = cutter
      return true
    }
    guard isFirst else { return channel.eventLoop.makeFailedFuture(ConnectionIsOver()) }
    channel.closeFuture.whenComplete { _ in self.closed() }
    return channel.eventLoop.makeCompletedFuture {
      let ping = try channel.pipeline.syncOperations.observeHTTP2(
        onActive: { local, port in self.connected(ChannelSocket(channel: channel), local, port) },
        onRead: { self.heard() },
        onSettings: { self.state.withLock { $0.wasReady = true } },
        onGoAway: { self.goingAway() },
        onError: { error in self.state.withLock { $0.failure = error } },
        onInactive: { self.state.withLock { $0.isBroken = $0.calls > 0 && !$0.isRetired } })
      if self.watchesStalls { self.watchStalls(of: channel, ping) }
      let inquirer = NIOLoopBound(
        PeerInquirer(channel, shortensOutages: self.shortensOutages, ping: ping),
        eventLoop: channel.eventLoop)
      self.state.withLock { $0.inquirer = inquirer }
    }
  }

  private func watchStalls(
    of channel: any NIOCore.Channel, _ ping: @escaping @Sendable () -> Void
  ) {
    let watch = StallWatch(
      channel, calls: { self.state.withLock { $0.calls } }, endsCalls: self.recovery != .never,
      mayEnd: { self.mayEnd }, heardElsewhere: self.heardElsewhere, ping: ping
    ) { self.onEvent(.stall($0)) }
    self.state.withLock { $0.stalls = watch }
  }

  /// Whether the channel lets the running calls end (W8).
  private var mayEnd: Bool {
    switch self.recovery {
    case .never: false
    case .exceptStreams: self.state.withLock { $0.streams == 0 }
    case .always: true
    }
  }

  private func heard() {
    let watch = self.state.withLock { state in
      state.lastHeard = .now
      return state.stalls
    }
    watch?.received()
  }

  private func connected(_ socket: ChannelSocket, _ local: IPAddress, _ port: UInt16) {
    self.state.withLock { $0.lastHeard = .now }
    guard let flow = self.state.withLock({ $0.flow }) else { return }
    guard let obstacle = flow.connected(socket, from: local, port: port) else { return }
    flow.end()
    self.state.withLock { $0.flow = nil }
    self.onEvent(.unguarded(obstacle))
  }

  private func goingAway() {
    self.state.withLock { $0.isRetired = true }
    self.onEvent(.goingAway)
  }

  private func closed() {
    let (broken, failure, watch) = self.state.withLock { state in
      (state.isRetired, state.inquirer) = (true, nil)
      return (state.isBroken, state.failure, state.stalls.take())
    }
    watch?.end()
    self.onEvent(.closed(broken: broken, failure))
  }
}

/// Prevents gRPC's transport from reconnecting by itself.
private struct ConnectionIsOver: Error {}

internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Invariants
internal import NIOCore
private import Synchronization

/// One connection of a channel, from the attempt to its end. It is a gRPC transport that connects
/// only once.
///
/// gRPC's transport has no public way to drop a connection, to cut a backoff short, or to report
/// its state. Therefore each connection has its own transport, which is abandoned with it.
final class Connection: Sendable {
  enum Event: Sendable {
    /// The server takes no more calls.
    case goingAway
    /// The connection is closed. `broken` means that calls were in flight. The error is that of the
    /// socket, or `nil` if the server closed the connection.
    case closed(broken: Bool, (any Error)?)
    /// The connection is no longer guarded.
    case unguarded(GuardObstacle)
    /// The peer is silent although data is unacknowledged (W4).
    case stalled
    /// The peer of a stalled connection answers again.
    case recovered
  }

  /// The identifier of the attempt, which may make several connections.
  let id: UInt64
  let serial: UInt64
  /// The name in logs, unique across the channels of a process and the processes of a fleet.
  let name = UUIDText.random()
  let target: FixedAddress
  /// Whether the connection uses no network: a Unix socket, or loopback.
  let isLocal: Bool
  /// The link of the other way that the connection is bound to, or `nil` for the default way (W2).
  let link: String?
  let start = ContinuousClock.now
  let transport: HTTP2ClientTransport.Posix
  private let eventLoop: any EventLoop
  private let core: Core

  /// - Parameters:
  ///   - link: The link of the other way, or `nil` for the default way.
  ///   - onEvent: Called on the connection's thread.
  /// - Throws: `RuntimeError` if the TLS configuration cannot work.
  init(
    id: UInt64, serial: UInt64, to target: FixedAddress, by link: String? = nil,
    _ settings: ConnectionSettings, onEvent: @escaping @Sendable (Event) -> Void
  ) throws {
    let core = Core(watchesStalls: settings.mayTakeOtherWay(to: target.address.ip), onEvent)
    var settings = settings
    if let link { settings.config.interface = link }
    self.id = id
    self.serial = serial
    self.target = target
    let address = target.address.ip
    self.isLocal = address.map { $0.isLoopback && !settings.config.socket.guardsLoopback } ?? true
    self.link = link
    self.core = core
    self.eventLoop = settings.eventLoop
    self.transport = try settings.makeTransport(to: target) { core.opened($0) }
  }

  /// Starts to connect. The connection exists until it is destroyed, drained, or closed by the
  /// server.
  ///
  /// Cancelling the caller's task does not end the connection; ``destroy(_:)`` does. The task does
  /// not cancel gRPC's transport, because a cancelled transport may never answer its waiting calls.
  func connect() {
    let executor = EventLoopTaskExecutor(self.eventLoop)
    let connecting = Task(executorPreference: executor) { [transport] in
      _ = try? await transport.connect()
    }
    self.core.state.withLock { $0.connecting = connecting }
  }

  /// Returns when calls can start: after the server's SETTINGS. Opens a stream that the server
  /// never sees, because no headers are written.
  ///
  /// - Throws: The error of `connect(2)`, TLS or HTTP/2.
  func ready() async throws {
    try await self.transport.withStream(descriptor: Self.nothing, options: .defaults) { _, _ in }
  }

  /// Returns when calls can start, like ``ready()``, or throws at the deadline.
  func ready(until deadline: ContinuousClock.Instant) async throws(RPCError) {
    do {
      try await withThrowingTaskGroup(of: Void.self) { group in
        defer { group.cancelAll() }
        group.addTask { try await self.ready() }
        group.addTask {
          try await self.eventLoop.sleep(for: ContinuousClock.now.duration(to: deadline))
          throw RPCError(code: .unavailable, message: "The server did not answer in time.")
        }
        try await group.next()
      }
    } catch {
      throw error as? RPCError ?? RPCError(code: .unavailable, message: "\(error)", cause: error)
    }
  }

  /// Returns when the connection is closed, or immediately if there never was one.
  func closed() async {
    try? await self.core.state.withLock { $0.cutter }?.closeFuture.get()
    self.transport.beginGracefulShutdown()
  }

  /// Shuts gRPC's transport down, and returns when it has ended. A shutdown while connecting may
  /// not end the transport. So its task is cancelled after a second, when it takes no more calls.
  func ended() async {
    self.transport.beginGracefulShutdown()
    guard let connecting = self.core.state.withLock({ $0.connecting }) else { return }
    let alarm = self.eventLoop.scheduleTask(in: .seconds(1)) { connecting.cancel() }
    await connecting.value
    alarm.cancel()
  }

  private static let nothing = MethodDescriptor(fullyQualifiedService: "", method: "")

  // MARK: Calls

  /// Counts a call that received the connection, which is not idle until ``release()``.
  func hold() { self.core.state.withLock { $0.holds += 1 } }

  func release() {
    self.core.state.withLock { state in
      invariant(state.holds > 0, "only a held connection is released")
      state.holds -= 1
      if state.holds == 0 { state.idleSince = .now }
    }
  }

  /// How long no call has had the connection, or zero while a call has it.
  var idleTime: Duration {
    self.core.state.withLock { $0.holds > 0 ? .zero : $0.idleSince.duration(to: .now) }
  }

  /// Counts a call that starts on the connection.
  func enter() {
    let watch = self.core.state.withLock { state in
      state.calls += 1
      state.wasUsed = true
      return state.stalls
    }
    watch?.called()
  }

  func leave() { self.core.state.withLock { $0.leave() } }

  /// Checks whether the peer is alive (E4). May be called on any thread.
  func askPeer() {
    let (inquirer, isBusy) = self.core.state.withLock { ($0.inquirer, $0.calls > 0) }
    guard let inquirer else { return }
    self.eventLoop.execute { inquirer.value.ask(isBusy: isBusy) }
  }

  /// Whether calls are running on the connection.
  var isBusy: Bool { self.core.state.withLock { $0.calls > 0 } }

  /// Whether the connection takes no new calls.
  var isRetired: Bool { self.core.state.withLock { $0.isRetired } }

  /// Whether a call has used the connection.
  var wasUsed: Bool { self.core.state.withLock { $0.wasUsed } }

  /// Whether the server's SETTINGS have arrived.
  var wasReady: Bool { self.core.state.withLock { $0.wasReady } }

  /// When the peer last sent something, or `nil` before the connection was made.
  var lastHeard: ContinuousClock.Instant? { self.core.state.withLock { $0.lastHeard } }

  /// Whether the kernel has retransmitted a packet. `false` if it does not report that.
  func hasRetransmitted() async -> Bool {
    await self.tcpInformation.map { $0.totalRetransmissions > 0 } ?? false
  }

  /// Whether two SYNs or two timeouts got no answer (Q2).
  func isUnanswered() async -> Bool { await self.tcpInformation?.isUnanswered ?? false }

  private var tcpInformation: TCPInformation? {
    get async {
      guard let channel = self.core.state.withLock({ $0.cutter?.channel }) else { return nil }
      let information = channel.eventLoop.submit { ChannelSocket(channel: channel).tcpInformation }
      return (try? await information.get()) ?? nil
    }
  }

  /// Why the connection was destroyed, or `nil` if no reason is known.
  var invalidation: FlowInvalidation? { self.core.state.withLock { $0.invalidation } }

  /// The last path that connd reported.
  var path: KernelPath? {
    get { self.core.state.withLock { $0.path } }
    set {
      self.core.state.withLock { state in
        state.path = newValue
        if self.target.address.ip?.isLoopback == false {
          state.link = state.link ?? newValue?.chain.first?.index
        }
      }
    }
  }

  /// The guard of the connection. It receives the connection's address once that is known.
  var flow: ConnectionGuard? {
    get { self.core.state.withLock { $0.flow } }
    set { self.core.state.withLock { $0.flow = newValue } }
  }

  // MARK: Ends

  /// Lets calls in flight finish. New calls use another connection.
  func drain() {
    self.core.state.withLock { $0.isRetired = true }
    self.transport.beginGracefulShutdown()
  }

  /// Lets calls in flight finish, like ``drain()``. Shuts down only after a second, because a
  /// shutdown closes the streams of new calls that have not sent anything yet.
  func retire() {
    self.core.state.withLock { $0.isRetired = true }
    self.eventLoop.scheduleTask(in: .seconds(1)) { self.transport.beginGracefulShutdown() }
  }

  /// Fails calls in flight with `UNAVAILABLE`. `invalidation` is the reason, if there is one.
  func destroy(_ invalidation: FlowInvalidation? = nil) {
    let (cutter, link) = self.core.state.withLock { state in
      state.isRetired = true
      state.invalidation = state.invalidation ?? invalidation
      return (state.cutter, state.link)
    }
    guard let cutter else { return self.transport.beginGracefulShutdown() }
    // gRPC's transport would reconnect if it learned of the close before the shutdown.
    cutter.cut(link: link) { self.transport.beginGracefulShutdown() }
  }
}

/// The state that the connection, its pipeline and its calls share.
private final class Core: Sendable {
  struct State {
    /// Runs gRPC's transport.
    var connecting: Task<Void, Never>?
    var cutter: ConnectionCutter?
    var isRetired = false
    /// Whether the connection was closed while calls ran. Set before calls learn of the close,
    /// because they then leave immediately.
    var isBroken = false
    /// The last error of the socket.
    var failure: (any Error)?
    var (wasReady, wasUsed) = (false, false)
    var (calls, holds) = (0, 0)
    var idleSince = ContinuousClock.now
    var invalidation: FlowInvalidation?
    var path: KernelPath?
    /// The link of the first path, on which the connection is made.
    var link: UInt32?
    var flow: ConnectionGuard?
    var lastHeard: ContinuousClock.Instant?
    var stalls: StallWatch?
    var inquirer: NIOLoopBound<PeerInquirer>?

    mutating func leave() {
      invariant(self.calls > 0, "only a call that has started ends")
      self.calls -= 1
    }
  }

  let state = Mutex(State())
  private let watchesStalls: Bool
  private let onEvent: @Sendable (Connection.Event) -> Void

  init(watchesStalls: Bool, _ onEvent: @escaping @Sendable (Connection.Event) -> Void) {
    self.watchesStalls = watchesStalls
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
      let inquirer = NIOLoopBound(PeerInquirer(channel, ping: ping), eventLoop: channel.eventLoop)
      self.state.withLock { $0.inquirer = inquirer }
    }
  }

  private func watchStalls(
    of channel: any NIOCore.Channel, _ ping: @escaping @Sendable () -> Void
  ) {
    let watch = StallWatch(
      channel, calls: { self.state.withLock { $0.calls } }, ping: ping
    ) { event in
      switch event {
      case .stalled: self.onEvent(.stalled)
      case .recovered: self.onEvent(.recovered)
      }
    }
    self.state.withLock { $0.stalls = watch }
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

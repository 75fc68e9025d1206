internal import Connectivity
internal import ConnectivitySession
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import NIOCore
private import Synchronization

/// One connection of a channel, from the attempt to its end: a transport of gRPC's that may connect once.
///
/// gRPC's own transport has no public way to drop a connection, to cut a backoff short or to tell its state, so that each
/// connection has a transport of its own, which is left when the connection is.
final class Connection: Sendable {
  enum Event: Sendable {
    /// The server takes no more calls.
    case goingAway
    /// It is closed, with calls in flight where `broken`.
    case closed(broken: Bool)
    /// Nobody guards it from now on.
    case unguarded(GuardObstacle)
  }

  /// That of the attempt it belongs to, which may make several.
  let id: UInt64
  let serial: UInt64
  /// What logs call it, in all of a process's channels and of a fleet's processes.
  let name = UUIDText.random()
  let target: FixedAddress
  let transport: HTTP2ClientTransport.Posix
  private let eventLoop: any EventLoop
  private let core: Core

  /// - Parameter onEvent: Called on the connection's thread.
  /// - Throws: `RuntimeError` where TLS is not configured so that it can work.
  init(
    id: UInt64, serial: UInt64, to target: FixedAddress, _ settings: ConnectionSettings,
    onEvent: @escaping @Sendable (Event) -> Void
  ) throws {
    let core = Core(onEvent)
    self.id = id
    self.serial = serial
    self.target = target
    self.core = core
    self.eventLoop = settings.eventLoop
    self.transport = try settings.makeTransport(to: target) { core.opened($0) }
  }

  /// Connects, and stays connected until it is destroyed, drained, or closed by the server.
  func run() async {
    defer { self.core.end.finish() }
    await withTaskCancellationHandler {
      try? await self.transport.connect()
    } onCancel: {
      self.drain()
    }
  }

  /// Returns when calls can go out: after the server's SETTINGS. It opens a stream, of which the server sees nothing
  /// because no headers are ever written.
  ///
  /// - Throws: What `connect(2)`, TLS or HTTP/2 had against it.
  func ready() async throws {
    try await self.transport.withStream(descriptor: Self.nothing, options: .defaults) { _, _ in }
  }

  /// As ``ready()``, and no later than the deadline.
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

  /// Returns when the connection is closed, and at once where there never was one.
  func closed() async {
    try? await self.core.state.withLock { $0.cutter }?.closeFuture.get()
    self.transport.beginGracefulShutdown()
  }

  /// Returns when gRPC's transport has ended, or should have: it was told to, and its connection is closed. grpc-swift's
  /// does not always end where it is told so while it connects; it has to be cancelled then, which is safe once it takes no
  /// calls any more.
  func ended() async {
    self.transport.beginGracefulShutdown()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { for await _ in self.core.ended {} }
      group.addTask { try? await self.eventLoop.sleep(for: .seconds(1)) }
      await group.next()
      group.cancelAll()
    }
  }

  private static let nothing = MethodDescriptor(fullyQualifiedService: "", method: "")

  // MARK: Calls

  /// A call was given it, and keeps it from being idle until ``release()``.
  func hold() { self.core.state.withLock { $0.holds += 1 } }

  func release() {
    self.core.state.withLock { state in
      state.holds -= 1
      if state.holds == 0 { state.idleSince = .now }
    }
  }

  /// For how long no call has had it; zero where one has.
  var idleTime: Duration {
    self.core.state.withLock { $0.holds > 0 ? .zero : $0.idleSince.duration(to: .now) }
  }

  /// A call is on it now.
  func enter() {
    self.core.state.withLock { state in
      state.calls += 1
      state.wasUsed = true
    }
  }

  func leave() { self.core.state.withLock { $0.calls -= 1 } }

  /// It takes no new calls.
  var isRetired: Bool { self.core.state.withLock { $0.isRetired } }

  /// A call has been on it.
  var wasUsed: Bool { self.core.state.withLock { $0.wasUsed } }

  /// The server's SETTINGS have come.
  var wasReady: Bool { self.core.state.withLock { $0.wasReady } }

  /// Why it was destroyed.
  var invalidation: FlowInvalidation? { self.core.state.withLock { $0.invalidation } }

  /// What is known of its path.
  var path: Path? {
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

  /// Guards the flow from now on, and tells it which address the connection has.
  var flow: ConnectionGuard? {
    get { self.core.state.withLock { $0.flow } }
    set { self.core.state.withLock { $0.flow = newValue } }
  }

  // MARK: Ends

  /// Calls in flight go on, new ones are made elsewhere.
  func drain() {
    self.core.state.withLock { $0.isRetired = true }
    self.transport.beginGracefulShutdown()
  }

  /// Calls in flight end with `UNAVAILABLE`; `invalidation` is why, where there is a reason to name.
  func destroy(_ invalidation: FlowInvalidation? = nil) {
    let (cutter, link) = self.core.state.withLock { state in
      state.isRetired = true
      state.invalidation = state.invalidation ?? invalidation
      return (state.cutter, state.link)
    }
    guard let cutter else { return self.transport.beginGracefulShutdown() }
    // gRPC's transport hears of both at once. If it heard first that the connection is closed, it would begin another one.
    cutter.cut(link: link) { self.transport.beginGracefulShutdown() }
  }
}

/// What the connection, its pipeline and its calls share.
private final class Core: Sendable {
  struct State {
    var cutter: ConnectionCutter?
    var isRetired = false
    /// It was closed with calls on it. They leave it at once, so that it is looked at before they hear.
    var isBroken = false
    var wasReady = false
    var calls = 0
    var wasUsed = false
    var holds = 0
    var idleSince = ContinuousClock.now
    var invalidation: FlowInvalidation?
    var path: Path?
    /// That of the first path: the connection is made on it.
    var link: UInt32?
    var flow: ConnectionGuard?
  }

  let state = Mutex(State())
  /// Finishes when gRPC's transport has.
  let (ended, end) = AsyncStream.makeStream(of: Void.self)
  private let onEvent: @Sendable (Connection.Event) -> Void

  init(_ onEvent: @escaping @Sendable (Connection.Event) -> Void) { self.onEvent = onEvent }

  /// gRPC's transport opened a channel; it may do so once, and the channel is not connected yet.
  func opened(_ channel: any NIOCore.Channel) -> EventLoopFuture<Void> {
    // Weakly, for the state keeps the cutter.
    let cutter = ConnectionCutter(channel) { [weak self] in
      self?.state.withLock { $0.isBroken = $0.calls > 0 && !$0.isRetired }
    }
    let isFirst = self.state.withLock { state in
      if state.isRetired || state.cutter != nil { return false }
      state.cutter = cutter
      return true
    }
    guard isFirst else { return channel.eventLoop.makeFailedFuture(ConnectionIsOver()) }
    channel.closeFuture.whenComplete { _ in self.closed() }
    return channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(cutter.handler, position: .first)
      try channel.pipeline.syncOperations.observeHTTP2(
        onActive: { local, port in self.connected(ChannelSocket(channel: channel), local, port) },
        onSettings: { self.state.withLock { $0.wasReady = true } },
        onGoAway: { self.goingAway() })
    }
  }

  private func connected(_ socket: ChannelSocket, _ local: IPAddress, _ port: UInt16) {
    guard let flow = self.state.withLock({ $0.flow }) else { return }
    guard let obstacle = socket.obstacle(from: local) else {
      return flow.connected(local: local, port: port)
    }
    flow.end()
    self.state.withLock { $0.flow = nil }
    self.onEvent(.unguarded(obstacle))
  }

  private func goingAway() {
    self.state.withLock { $0.isRetired = true }
    self.onEvent(.goingAway)
  }

  private func closed() {
    let broken = self.state.withLock { state in
      state.isRetired = true
      return state.isBroken
    }
    self.onEvent(.closed(broken: broken))
  }
}

/// gRPC's transport would connect again by itself.
private struct ConnectionIsOver: Error {}

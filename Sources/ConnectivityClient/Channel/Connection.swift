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
    /// The peer is silent while data is unacknowledged, or answers again (W4).
    case stall(StallWatch.Event)
  }

  /// The identifier of the attempt, which may make several connections.
  let id: UInt64
  let serial: UInt64
  /// The name in logs, unique across the channels of a process and the processes of a fleet.
  let name = UUIDText.random()
  let target: FixedAddress
  /// Whether the connection uses no network: a Unix socket, or loopback.
  let isLocal: Bool
  private let unguarded = Mutex<ConndError?>(nil)
  /// The link of the other way that the connection is bound to, or `nil` for the default way (W2).
  let link: String?
  let start = ContinuousClock.now
  let transport: HTTP2ClientTransport.Posix
  private let eventLoop: any EventLoop
  private let core: ConnectionCore

  /// - Parameters:
  ///   - link: The link of the other way, or `nil` for the default way.
  ///   - heardElsewhere: Returns when a connection to the same server by another link was last
  ///     heard, or `nil` without one.
  ///   - onEvent: Called on the connection's thread.
  /// - Throws: `RuntimeError` if the TLS configuration cannot work.
  init(
    id: UInt64, serial: UInt64, to target: FixedAddress, by link: String? = nil,
    _ settings: ConnectionSettings,
    heardElsewhere: @escaping @Sendable () -> ContinuousClock.Instant?,
    onEvent: @escaping @Sendable (Event) -> Void
  ) throws {
    let core = ConnectionCore(
      watchesStalls: settings.mayTakeOtherWay(to: target.address.ip), settings.config,
      heardElsewhere: heardElsewhere, onEvent)
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
  /// not end the transport. Therefore its task is cancelled after a second. By then, the transport
  /// takes no more calls.
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

  /// Reads the socket if a call begins in a silence. New calls may then have to wait (W4).
  ///
  /// - Returns: Whether the socket was read.
  func examine() async -> Bool {
    guard let watch = self.core.state.withLock({ $0.stalls }), watch.isSilent else { return false }
    try? await self.eventLoop.submit { watch.calling() }.get()
    return true
  }

  /// Counts a call that starts on the connection.
  ///
  /// - Parameter isStream: Whether the call may have more than one message in one direction.
  func enter(isStream: Bool) {
    let watch = self.core.state.withLock { state in
      state.calls += 1
      if isStream { state.streams += 1 }
      state.wasUsed = true
      return state.stalls
    }
    watch?.called()
  }

  func leave(isStream: Bool) { self.core.state.withLock { $0.leave(isStream) } }

  /// Checks whether the peer is alive (E4). May be called on any thread.
  func askPeer() {
    let (inquirer, isBusy) = self.core.state.withLock { ($0.inquirer, $0.calls > 0) }
    guard let inquirer else { return }
    self.eventLoop.execute { inquirer.value.ask(isBusy: isBusy) }
  }

  /// Sets or restores the options that shorten outages (C11). May be called on any thread.
  ///
  /// - Parameter event: An event of the connection's flow, or `nil` if connd is absent.
  func note(_ event: FlowEvent?) {
    guard let inquirer = self.core.state.withLock({ $0.inquirer }) else { return }
    self.eventLoop.execute { inquirer.value.note(event) }
  }

  /// Why the connection is not guarded, or `nil` if it is.
  var unguardedReason: ConndError? {
    get { self.unguarded.withLock { $0 } }
    set { self.unguarded.withLock { $0 = newValue } }
  }

  /// Whether calls have the connection, even if they have not started yet.
  var isBusy: Bool { self.core.state.withLock { $0.holds > 0 } }

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
  var invalidation: InvalidationError? { self.core.state.withLock { $0.invalidation } }

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
  func destroy(_ invalidation: InvalidationError? = nil) {
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

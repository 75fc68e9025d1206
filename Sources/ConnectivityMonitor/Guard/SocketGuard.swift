internal import Connectivity
public import Logging
private import Synchronization

/// Guards any connection by its descriptor: a BSD socket, libpq's (`PQsocket`), hiredis'
/// (`redisContext.fd`), libcurl's (`CURLINFO_ACTIVESOCKET`).
///
/// ```swift
/// let watch = try SocketGuard(
///   descriptor: PQsocket(connection), config: .defaults { $0.shutsDown = true })
/// ```
///
/// 1. The guard lasts until ``end()`` is called or its last reference is released. End it before
///    closing the descriptor.
/// 2. ``events`` reports the connection's path, and when it is no longer viable.
/// 3. With ``Config/shutsDown``, the guard ends a connection that is no longer viable, like a reset
///    by the peer (R4): reads and writes fail with `ECONNRESET`, or `EPIPE`. A library that waits
///    on the connection gets an error immediately, and takes no cut answer for a complete one. The
///    owner must still close the descriptor.
/// 4. If connd is not running, or runs in another network namespace, nothing happens until connd
///    appears (C7).
/// 5. A new connection works, so a verdict against it is evidence against connd. If connd rejects
///    three new connections to one destination in a row, new ones to it are not guarded for a
///    while. Ending a connection for which connd never saw a path counts as a rejection (I11). Mark
///    new connections with ``Config/isNew``.
/// 6. A Multipath TCP connection survives the loss of a network as long as one of its subflows
///    works. (Before Linux 5.16 it is not guarded.)
/// 7. A connection from an address of another machine is not guarded, and receives
///    ``ConnectionEvent/unguarded(_:)``. A transparent proxy makes such connections, and connd does
///    not see the rules by which their packets arrive.
/// 8. If connd asks whether the peer responds, the guard enables keepalive for a moment, and the
///    kernel sends a probe (E4).
///
/// 9. With ``Config/shortensOutages``, the connection continues within about two seconds after an
///    outage beyond this machine.
///
/// All guards of a process share one stream to connd. Safe to use from any thread.
///
/// Implements rule C10.
public final class SocketGuard: Sendable {
  /// The configuration of a guard.
  public struct Config: Sendable {
    /// The networks that the connection may use. If its path becomes a forbidden one, the
    /// connection is invalid (I8).
    public var access: NetworkAccess = .unrestricted
    /// Whether to disconnect and shut down the socket when its connection is no longer viable.
    public var shutsDown = false
    /// Whether the connection was made a moment ago, so that it is known to work.
    public var isNew = false
    /// Whether TCP retransmits at least every two seconds while connd reports a satisfied path, so
    /// that an outage ends soon after the path is back (C11). Needs Linux 6.15. Only for a peer
    /// that reads what it gets: if it stops reading for 15 minutes, the kernel ends the connection.
    public var shortensOutages = false
    /// connd's socket.
    public var socket: ConndSocket = .default
    /// Logs why the connection is no longer viable, or is not guarded. `nil` logs nothing.
    public var logger: Logger?

    public static var defaults: Config { Config() }

    /// Returns the defaults, changed by `configure`.
    public static func defaults(_ configure: (inout Config) -> Void) -> Config {
      var config = Config()
      configure(&config)
      return config
    }
  }

  /// The events of the connection. Each access is a new subscription. The first one has the events
  /// since the beginning, and later ones begin with the present state. The events end when the
  /// connection is no longer guarded. As long as a task reads the events, the guard exists.
  public var events: ConnectionEvents { ConnectionEvents(self.core.events(), of: self) }

  private let core: Core

  /// Guards a connected socket: TCP or UDP over IPv4 or IPv6. Its addresses, ports, mark and link
  /// come from the kernel.
  ///
  /// - Throws: ``ConndError`` with the code `notGuardable` for any other socket.
  public init(descriptor: CInt, config: Config = .defaults) throws(ConndError) {
    self.core = Core(config, try ConnectedSocket(descriptor: descriptor))
    self.core.begin()
  }

  deinit { self.end() }

  var config: Config { self.core.config }
  var connection: ConnectedSocket { self.core.socket }

  /// Stops guarding the connection. After this returns, the descriptor is not touched.
  public func end() { self.core.end() }
}

/// The state that a guard and its flow share.
private final class Core: Sendable {
  let config: SocketGuard.Config
  let socket: ConnectedSocket
  private struct State {
    var news = ConnectionNews()
    var observers = Observers<ConnectionEvent>()
    /// The events since the beginning, for the first reader.
    var events: AsyncStream<ConnectionEvent>?
    var flow: ConnectionGuard?
    /// The link of the first path.
    var link: UInt32?
    /// The current probe, until the socket's options are restored.
    var probe: KeepaliveProbe?
    var outages: OutageOptions
    var isOver = false
  }
  private let state: Mutex<State>

  init(_ config: SocketGuard.Config, _ socket: ConnectedSocket) {
    (self.config, self.socket) = (config, socket)
    var state = State(outages: OutageOptions(isEnabled: config.shortensOutages))
    state.events = state.observers.add(first: []).0
    self.state = Mutex(state)
  }

  /// Returns a stream of the events since the beginning for the first reader, and of the present
  /// state and the next events for others. It lasts until the end of the guard.
  func events() -> AsyncStream<ConnectionEvent> {
    if let first = self.state.withLock({ $0.events.take() }) { return first }
    let (events, observer, isOver) = self.state.withLock { state in
      let (events, observer) = state.observers.add(first: state.news.summary)
      return (events, observer, state.isOver)
    }
    observer.continuation.onTermination = { [weak self] _ in
      self?.state.withLock { $0.observers.remove(observer.id) }
    }
    if isOver { observer.continuation.finish() }
    return events
  }

  /// Records news, and sends the resulting events.
  private func publish(_ record: (inout ConnectionNews) -> [ConnectionEvent]) {
    self.state.withLock { $0.observers.yield(record(&$0.news)) }
  }

  func begin() {
    let (socket, config) = (self.socket, self.config)
    guard
      var flow = FlowGuard.Flow(
        to: socket.remote, from: socket.local,
        Transport(socket.number, localPort: socket.localPort, remotePort: socket.remotePort),
        mark: socket.mark, boundTo: socket.boundLink, for: config.access,
        guardsLoopback: config.socket.guardsLoopback)
    else {
      return self.finish(ConndError(.notGuardable, "a loopback connection needs no guard"))
    }
    if let obstacle = socket.obstacle(from: socket.local) {
      return self.finish(obstacle.error)
    }
    let isMultipath = socket.isMultipath
    let subflows = isMultipath ? self.subflows : nil
    if isMultipath, subflows == nil { return self.finish(GuardObstacle.multipath.error) }
    flow.question = !isMultipath && socket.number == Transport.tcp ? .keepalive : .none
    // Without an established subflow, the connection is closing, and is guarded as plain TCP.
    let isClosing = subflows?.isEmpty == true
    flow.isNew = config.isNew
    // Only a new connection can show that connd is wrong.
    let breaker = config.isNew ? DestinationBreaker(flow, socket: config.socket.path) : nil
    if breaker?.allowsGuarding == false { return self.finish(DestinationBreaker.openReason) }
    let guarded = ConnectionGuard(
      flow, by: isClosing ? nil : subflows, listSubflows: { [weak self] in self?.subflows ?? [] },
      hub: GuardHub.shared(socket: config.socket.path), breaker: breaker
    ) { absence in
      self.withOutageOptions { $0.restore(on: $1) }
      self.unguarded(absence.error)
    } onEvent: { report in
      self.handle(report)
    } askPeer: { [weak self] in
      self?.askPeer()
    }
    let isOver = self.state.withLock { state in
      if !state.isOver { state.flow = guarded }
      return state.isOver
    }
    if isOver { guarded.end() }
  }

  /// The subflows of the connection, or `nil` if the kernel does not list them. Empty after the end
  /// of the guard.
  private var subflows: [Subflow]? {
    // Done under the lock, because after ``end()`` the descriptor may belong to another socket.
    self.state.withLock { state in
      state.isOver || !self.socket.isOpen ? [] : Subflow.list(of: self.socket.descriptor)
    }
  }

  /// Asks the peer by a keepalive probe, and restores the socket's options afterwards (E4).
  private func askPeer() {
    let isSent = self.state.withLock { state in
      guard !state.isOver, state.probe == nil, self.socket.isOpen else { return false }
      state.observers.yield([.asked])
      state.probe = KeepaliveProbe(on: self.socket)
      return state.probe != nil
    }
    guard isSent else { return }
    let connector = Connector.shared
    Task(executorPreference: connector.executor) { [weak self] in
      var time = Duration.zero
      for pause in KeepaliveProbe.repeats {
        try? await connector.thread.sleep(for: pause - time)
        time = pause
        self?.repeatProbe()
      }
      try? await connector.thread.sleep(for: KeepaliveProbe.time - time)
      self?.state.withLock { self?.endProbe(&$0) }
    }
  }

  private func repeatProbe() {
    self.state.withLock { state in
      if self.socket.isOpen { state.probe?.repeat(on: self.socket) }
    }
  }

  private func endProbe(_ state: inout State) {
    if self.socket.isOpen { state.probe?.end(on: self.socket) }
    state.probe = nil
  }

  /// Changes the options that shorten outages (C11), unless the guard has ended.
  private func withOutageOptions(_ body: (inout OutageOptions, ConnectedSocket) -> Void) {
    self.state.withLock { state in
      if !state.isOver, self.socket.isOpen { body(&state.outages, self.socket) }
    }
  }

  func end() {
    let (flow, observers) = self.state.withLock { state in
      self.endProbe(&state)
      if self.socket.isOpen { state.outages.restore(on: self.socket) }
      defer { (state.flow, state.isOver) = (nil, true) }
      return (state.flow, state.observers.removeAll())
    }
    flow?.end()
    // Outside the lock, because their end takes the lock.
    for observer in observers { observer.finish() }
  }

  /// Reports why the connection is not guarded, and ends the guard.
  private func finish(_ reason: ConndError) {
    self.unguarded(reason)
    self.end()
  }

  private func unguarded(_ reason: ConndError) {
    self.config.logger?.info(
      "the connection is not guarded",
      metadata: ["remote": "\(self.socket.remote)", "reason": "\(reason)"])
    self.publish { $0.unguarded(reason) }
  }

  private func handle(_ report: ConnectionGuard.Report) {
    if case .refused(let refusal) = report.event { return self.finish(ConndError(refusal)) }
    self.withOutageOptions { $0.note(report.event, on: $1) }
    if let path = report.event.ownPath {
      self.state.withLock { $0.link = $0.link ?? path.chain.first?.index }
    }
    self.publish { $0.record(report.event, for: self.config.access) }
    if let invalidation = self.config.access.invalidation(by: report.event) {
      self.invalidate(invalidation, report)
    }
  }

  private func invalidate(_ invalidation: InvalidationError, _ report: ConnectionGuard.Report) {
    self.config.logger?.info(
      "the connection is no longer viable",
      metadata: invalidation.evidence(against: report.flow).merging([
        "severity": "\(invalidation.severity.rawValue)"
      ]) { $1 })
    guard invalidation.severity == .destroy else { return }
    if self.config.shutsDown {
      // Done under the lock, because after ``end()`` the descriptor may belong to another socket.
      self.state.withLock { state in
        let link = self.socket.remote.isLoopback ? nil : state.link
        if !state.isOver { self.socket.end(link: link) }
      }
      return self.end()
    }
    if !report.keep(despite: invalidation, awaitsReturn: true) { self.end() }
  }
}

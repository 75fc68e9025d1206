public import Connectivity
public import ConnectivityMonitor
internal import ConnectivityRules
private import Synchronization

/// Runs `body` with a simulated network, and then removes its socket, thread and directory.
///
/// ```swift
/// try await withSimulatedNetwork(.wifi) { network in
///   let channel = MyChannel(conndSocket: network.socket)
///   try await network.waitForFlows(atLeast: 1)
///   try await network.play("none, 500 ms, cellular")
/// }
/// ```
///
/// - Parameters:
///   - isolation: The actor on which `body` runs.
///   - networks: The initial networks, most preferred first.
///   - policy: The grace periods and the handling of better paths, as in connd's configuration.
///   - treatsLoopbackAsRemote: Whether traffic to loopback addresses uses the default network. Set
///     it for tests with servers on the same machine.
///   - clock: The clock for grace periods and for the pauses of scripts.
///   - body: The test.
/// - Returns: The result of `body`.
/// - Throws: ``SimulationError``, gRPC's error if listening fails, and the error of `body`.
public func withSimulatedNetwork<Result>(
  isolation: isolated (any Actor)? = #isolation,
  _ networks: NetworkConditions..., policy: InvalidationPolicy = InvalidationPolicy(),
  treatsLoopbackAsRemote: Bool = true, clock: some Clock<Duration> = ContinuousClock(),
  _ body: (SimulatedNetwork) async throws -> Result
) async throws -> Result {
  let network = try SimulatedNetwork(
    networks, policy: policy, treatsLoopbackAsRemote: treatsLoopbackAsRemote, clock: clock)
  do {
    try await network.start()
    let result = try await body(network)
    await network.close()
    return result
  } catch {
    await network.close()
    throw error
  }
}

/// A simulated network of one machine, with a connd that reports it to clients. It needs no kernel,
/// daemon or privileges.
///
/// To clients, this connd is like a real one: it serves the protocol on a Unix socket, and
/// publishes changes and invalidates flows by the same rules. Only the kernel is simulated.
///
/// Safe to use from any thread. Usually created with
/// ``withSimulatedNetwork(isolation:_:policy:treatsLoopbackAsRemote:clock:_:)``. If created
/// directly, call ``start()`` and ``stop()``, from one task at a time. Its directory is removed
/// with the last reference.
public final class SimulatedNetwork: Sendable {
  private let directory: SocketDirectory
  private let listener = Mutex<Listener?>(nil)
  let connd: SimulatedConnd

  private let treatsLoopbackAsRemote: Bool

  /// The socket of the simulated connd, to pass to clients as `socket`. If traffic to loopback
  /// addresses uses the default network, clients guard loopback connections, too.
  public var socket: ConndSocket {
    ConndSocket(path: self.directory.socket, guardsLoopback: self.treatsLoopbackAsRemote)
  }

  /// The environment that makes programs in any language use the simulated connd: `CONND_SOCKET`.
  public var environment: [String: String] { ["CONND_SOCKET": self.socket.path] }

  /// Creates a network, without starting its connd.
  ///
  /// - Parameters:
  ///   - networks: The initial networks, most preferred first.
  ///   - policy: The grace periods and the handling of better paths, as in connd's configuration.
  ///   - treatsLoopbackAsRemote: Whether traffic to loopback addresses uses the default network.
  ///   - clock: The clock for grace periods and for the pauses of scripts.
  /// - Throws: ``SimulationError`` if no directory can be created for the socket.
  public init(
    _ networks: [NetworkConditions], policy: InvalidationPolicy = InvalidationPolicy(),
    treatsLoopbackAsRemote: Bool = true, clock: some Clock<Duration> = ContinuousClock()
  ) throws {
    self.directory = try SocketDirectory()
    self.treatsLoopbackAsRemote = treatsLoopbackAsRemote
    let simulation = Simulation(policy: policy, treatsLoopbackAsRemote: treatsLoopbackAsRemote)
    self.connd = SimulatedConnd(simulation, Timekeeper(clock))
    self.become(networks)
  }

  // MARK: - connd

  /// Starts connd. It continues from its last published state, and marks changes since then as
  /// learnt late. Returns when clients can connect. Has no effect if connd is running.
  ///
  /// - Throws: gRPC's error if listening on the socket fails.
  public func start() async throws {
    guard !self.connd.isRunning else { return }
    self.connd.start()
    do {
      let listener = try await Listener(
        at: Listener.socket(self.socket.path),
        [ConndService(connd: self.connd), DiagnosticsService(connd: self.connd)])
      self.listener.withLock { $0 = listener }
    } catch {
      self.connd.stop()
      throw error
    }
  }

  /// Stops connd (C7): disconnects all clients, and accepts no new ones. Returns when its thread
  /// has ended. Has no effect if connd is not running.
  public func stop() async {
    // Disconnected clients reconnect immediately, so remove the socket first.
    self.directory.removeSocket()
    self.connd.stop()
    let listener = self.listener.withLock { listener in
      defer { listener = nil }
      return listener
    }
    await listener?.close()
  }

  func close() async {
    await self.stop()
    self.directory.remove()
  }

  /// Whether connd is running.
  public var isRunning: Bool { self.connd.isRunning }

  /// The message with which connd refuses to guard flows, as if it had reached a limit, or `nil` if
  /// it guards all flows.
  public var refusesFlows: String? {
    get { self.connd.refusal }
    set { self.connd.refusal = newValue }
  }

  /// Whether connd, as if it were busy, accepts flows but reports nothing about them until this is
  /// false again.
  public var delaysFlows: Bool {
    get { self.connd.delaysFlows }
    set { self.connd.delaysFlows = newValue }
  }

  /// Makes connd forget its published changes: clients that resume receive a gap.
  public func forgetHistory() {
    self.connd.change { simulation, _, _ in
      simulation.forgetHistory()
      return []
    }
  }

  // MARK: - connd's state

  /// The last published state.
  public var snapshot: ConnectivitySnapshot { self.connd.read { $0.snapshot } }

  /// The published changes, oldest first; at most the last 512.
  public var history: [ConnectivityChange] { self.connd.read { $0.history } }

  /// The guarded flows, those of the oldest client first.
  public var guardedFlows: [GuardedFlow] {
    self.connd.read { simulation in
      simulation.flows.keys.compactMap { key in
        simulation.flows.entries[key].map { GuardedFlow(key, $0) }
      }
    }
  }

  /// Waits until connd guards at least this many flows.
  ///
  /// - Throws: `CancellationError`.
  public func waitForFlows(atLeast count: Int) async throws {
    try await self.connd.wait { $0.read { $0.flows.entries.count } >= count }
  }

  /// The number of subscribers.
  public var subscribers: Int { self.connd.subscribers }

  /// Waits until there are at least this many subscribers.
  ///
  /// - Throws: `CancellationError`.
  public func waitForSubscribers(atLeast count: Int) async throws {
    try await self.connd.wait { $0.subscribers >= count }
  }

  /// The number of open streams of all clients and calls.
  public var openStreams: Int { self.connd.openStreams }

  /// Waits until no client has an open stream, because the application has closed everything that
  /// it no longer needs.
  ///
  /// - Throws: `CancellationError`.
  public func waitForNoStreams() async throws {
    try await self.connd.wait { $0.openStreams == 0 }
  }

  /// A flow that the simulated connd guards.
  public struct GuardedFlow: Hashable, Sendable {
    /// The client's identifier for the flow.
    public var id: UInt64
    public var remote: IPAddress
    /// The flow's own address, as specified by the client.
    public var local: IPAddress?
    /// The path that the flow was made on.
    public var path: KernelPath
    public var forbidsExpensive: Bool
    public var forbidsConstrained: Bool

    let key: FlowTable.Key

    init(_ key: FlowTable.Key, _ entry: FlowTable.Entry) {
      let flow = entry.tracker.flow
      self.id = key.id
      self.remote = flow.destination.address
      self.local = entry.local
      self.path = entry.tracker.path
      self.forbidsExpensive = flow.forbidsExpensive
      self.forbidsConstrained = flow.forbidsConstrained
      self.key = key
    }
  }
}

/// The error of a simulated network that cannot be created or changed as requested.
public struct SimulationError: Error, Hashable, Sendable, CustomStringConvertible {
  public var description: String

  init(_ description: String) {
    self.description = description
  }
}

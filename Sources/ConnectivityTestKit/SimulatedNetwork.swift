public import Connectivity
internal import ConnectivityRules
private import Synchronization

/// Runs `body` with a simulated network, and takes it down afterwards: no socket, thread or directory is left.
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
///   - networks: The networks that there are at first, the most preferred first.
///   - policy: How long a path may be away, and what is done about a better one, as connd's configuration says.
///   - treatsLoopbackAsRemote: Whether traffic to loopback addresses goes by the default network, as it does in tests
///     whose servers are on the same machine.
///   - clock: What graces and the pauses of scripts are measured by.
///   - body: What to do.
/// - Returns: What `body` returns.
/// - Throws: ``SimulationError``, what gRPC says where nothing can listen, and what `body` throws.
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

/// A machine's network that a test plays, with a connd that tells clients of it: no kernel, no daemon, no privileges.
///
/// The connd is real as far as clients can see: it speaks the protocol on a Unix socket, and what it publishes and
/// which flows it invalidates follow from the rules that connd itself is made of. Only the kernel below is a model.
/// (That gains of a flapping link are held back is left out: scripts play in milliseconds what takes minutes.)
///
/// Safe to use from any thread. ``withSimulatedNetwork(isolation:_:policy:treatsLoopbackAsRemote:clock:_:)`` is the
/// usual way to one; who makes one by hand calls ``start()`` and ``stop()``, from one task at a time. Its directory
/// is removed with the last reference.
public final class SimulatedNetwork: Sendable {
  private let directory: SocketDirectory
  private let listener = Mutex<Listener?>(nil)
  let connd: SimulatedConnd

  /// Where connd listens: what clients take as `socket`.
  public var socket: String { self.directory.socket }

  /// What makes programs in any language find the simulated connd: `CONND_SOCKET`.
  public var environment: [String: String] { ["CONND_SOCKET": self.socket] }

  /// A network whose connd does not run yet.
  ///
  /// - Parameters:
  ///   - networks: The networks that there are at first, the most preferred first.
  ///   - policy: How long a path may be away, and what is done about a better one, as connd's configuration says.
  ///   - treatsLoopbackAsRemote: Whether traffic to loopback addresses goes by the default network.
  ///   - clock: What graces and the pauses of scripts are measured by.
  /// - Throws: ``SimulationError`` where no directory can be made for the socket.
  public init(
    _ networks: [NetworkConditions], policy: InvalidationPolicy = InvalidationPolicy(),
    treatsLoopbackAsRemote: Bool = true, clock: some Clock<Duration> = ContinuousClock()
  ) throws {
    self.directory = try SocketDirectory()
    let simulation = Simulation(policy: policy, treatsLoopbackAsRemote: treatsLoopbackAsRemote)
    self.connd = SimulatedConnd(simulation, Timekeeper(clock))
    self.become(networks)
  }

  // MARK: - connd

  /// connd starts, and goes on from what it published before: what changed meanwhile is told as learnt late. Returns
  /// when clients can connect; does nothing where it runs.
  ///
  /// - Throws: What gRPC says where nothing can listen on the socket.
  public func start() async throws {
    guard !self.connd.isRunning else { return }
    self.connd.start()
    do {
      let listener = try await Listener(on: self.socket, ConndService(connd: self.connd))
      self.listener.withLock { $0 = listener }
    } catch {
      self.connd.stop()
      throw error
    }
  }

  /// connd goes (C7): every client is hung up on, and none can connect. Returns when its thread has ended; does nothing
  /// where it does not run.
  public func stop() async {
    // Who is hung up on comes back at once.
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

  /// Whether connd runs.
  public var isRunning: Bool { self.connd.isRunning }

  /// What connd says to clients that ask it to guard a flow: that it has reached a limit, in these words. `nil`: it
  /// guards every flow.
  public var refusesFlows: String? {
    get { self.connd.refusal }
    set { self.connd.refusal = newValue }
  }

  /// connd takes flows, and says nothing of any until this is false again, as one that is kept busy may.
  public var delaysFlows: Bool {
    get { self.connd.delaysFlows }
    set { self.connd.delaysFlows = newValue }
  }

  /// connd no longer knows what it published: clients that resume get a gap.
  public func forgetHistory() {
    self.connd.change { simulation, _, _ in
      simulation.forgetHistory()
      return []
    }
  }

  // MARK: - What connd knows

  /// What connd published last.
  public var snapshot: Snapshot { self.connd.read { $0.snapshot } }

  /// What connd published, the oldest first; at most the last 512 changes.
  public var history: [Change] { self.connd.read { $0.history } }

  /// What connd guards, the oldest client's flows first.
  public var guardedFlows: [GuardedFlow] {
    self.connd.read { simulation in
      simulation.flows.keys.compactMap { key in
        simulation.flows.entries[key].map { GuardedFlow(key, $0) }
      }
    }
  }

  /// Waits until connd guards as many flows.
  ///
  /// - Throws: `CancellationError`.
  public func waitForFlows(atLeast count: Int) async throws {
    try await self.connd.wait { $0.read { $0.flows.entries.count } >= count }
  }

  /// How many clients follow what is published.
  public var subscribers: Int { self.connd.subscribers }

  /// Waits until as many clients follow what is published.
  ///
  /// - Throws: `CancellationError`.
  public func waitForSubscribers(atLeast count: Int) async throws {
    try await self.connd.wait { $0.subscribers >= count }
  }

  /// How many streams clients have open, of whatever call.
  public var openStreams: Int { self.connd.openStreams }

  /// Waits until no client has a stream open: what an application has given up, it has closed.
  ///
  /// - Throws: `CancellationError`.
  public func waitForNoStreams() async throws {
    try await self.connd.wait { $0.openStreams == 0 }
  }

  /// A flow that the simulated connd guards.
  public struct GuardedFlow: Hashable, Sendable {
    /// What the client calls it.
    public var id: UInt64
    public var remote: IPAddress
    /// The flow's own address, as the client named it.
    public var local: IPAddress?
    /// What it was made on.
    public var path: Path
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

/// Why a simulated network cannot be made, or not be changed as it was asked.
public struct SimulationError: Error, Hashable, Sendable, CustomStringConvertible {
  public var description: String

  init(_ description: String) {
    self.description = description
  }
}

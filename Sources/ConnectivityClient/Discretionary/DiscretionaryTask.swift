public import ConnectivitySession
public import GRPCCore
private import Synchronization

/// Work that waits for a network that may be used freely: a backup, a prefetch, a synchronisation.
///
/// ```swift
/// try await DiscretionaryTask().run { network in
///   for photo in photos {
///     try await network.wait()
///     try await upload(photo)
///   }
/// }
/// ```
///
/// What `isDiscretionary` of `URLSessionConfiguration` and `NSBackgroundActivityScheduler` do where the system decides:
///
/// 1. The work begins when there is a path, and it may be used: by default, one that costs no money and on which the user did not
///    ask to save data. A path whose cost connd does not know is not free. Until then nothing of it runs, and connd's word
///    is all that wakes it.
/// 2. When the path becomes another, the work yields: it waits at its own safe points (``Network/wait(isolation:)``), or a part
///    that has none is cancelled and begun again (``Network/restarting(_:)``). What is under way between two safe points goes on.
/// 3. What the user asks for is never held back: neither where ``Configuration/isUserInitiated`` says so, nor from
///    ``promote()`` on. The priority of the task does not say it: whatever the main actor starts has a high one.
/// 4. Without connd the work runs as if there were no costs (C7), unless ``Configuration/whenUnknown`` says otherwise. A restart
///    of connd is not seen.
/// 5. Cancelling its task ends the wait at once. When ``run(isolation:_:)`` returns nothing is left behind.
///
/// Safe to use from any thread. Each run follows the network by itself, on the connection to connd that all of a process share.
public final class DiscretionaryTask: Sendable {
  /// What the work waits for, and how long.
  public struct Configuration: Sendable {
    /// The networks that the work may use, of those that the monitor's access allows.
    public var access: NetworkAccess = .inexpensive
    /// Whose path counts: the system's, or that to one destination (``PathMonitor/init(destination:mark:access:socket:)``).
    public var monitor = PathMonitor()
    /// What becomes of the work where nobody knows what the path costs.
    public var whenUnknown: WhenUnknown = .run
    /// How long the work may be held back, from the start of its run, in the machine's uptime. Where it may not go on after that, it
    /// ends with ``Expired``. Work that is under way is not ended by time, and connd's first word is waited for in any case,
    /// for two seconds at most: with no time at all, work runs now or not.
    public var timeLimit: TimeLimit = .unlimited
    /// The user asked for it: it is never held back.
    public var isUserInitiated = false
    /// Told what path there is while the work is held back: when it begins to wait, and whenever that has changed. Must not
    /// block. `nil`: nobody asks.
    public var onWait: (@Sendable (NetworkPath) -> Void)?

    public init() {}
  }

  /// What becomes of work where it is not known whether it may use its network: connd is not there, or cannot ask the kernel.
  ///
  /// If connd knows the path and not its cost, work that may not cost money waits in any case.
  public enum WhenUnknown: Hashable, Sendable {
    /// It runs: connd's absence takes nobody's network away (C7).
    case run
    /// It waits until somebody knows. What is under way goes on to its next safe point.
    case wait
  }

  /// The work was held back until its time was over.
  ///
  /// ``NetworkUnavailable/Reason/init(of:)`` finds in it why, so that ``withFallback(on:isolation:operation:fallback:)`` makes do
  /// with less then.
  public struct Expired: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path that there is.
    public var path: NetworkPath
    /// Why it may not be used; `nil` where there is none.
    public var refusal: NetworkUnavailable?

    public var description: String {
      "the work was held back for too long: \(self.refusal?.description ?? self.path.description)"
    }
  }

  private struct State {
    var isUserInitiated: Bool
    var runs: [ObjectIdentifier: NetworkGate] = [:]
  }

  private let configuration: Configuration
  private let state: Mutex<State>

  public init(_ configure: (inout Configuration) -> Void = { _ in }) {
    var configuration = Configuration()
    configure(&configuration)
    self.configuration = configuration
    self.state = Mutex(State(isUserInitiated: configuration.isUserInitiated))
  }

  /// The user asks for it: what waits goes on at once, in all runs, and nothing is held back any more.
  public func promote() {
    let gates = self.state.withLock { state in
      state.isUserInitiated = true
      return state.runs.values
    }
    for gate in gates { gate.openForGood() }
  }

  /// Waits until the network may be used, and runs `operation` then.
  ///
  /// - Parameter operation: The work. It is given the network, to wait for at its safe points.
  /// - Returns: What `operation` returns.
  /// - Throws: What `operation` throws; ``Expired``; `CancellationError` where the task is cancelled while it waits.
  public func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ operation: (Network) async throws -> Result
  ) async throws -> Result {
    // Nobody is asked for one who is gone.
    try Task.checkCancellation()
    let gate = NetworkGate(self.configuration)
    let isUserInitiated = self.state.withLock { state in
      state.runs[ObjectIdentifier(gate)] = gate
      return state.isUserInitiated
    }
    defer {
      self.state.withLock { _ = $0.runs.removeValue(forKey: ObjectIdentifier(gate)) }
      gate.end()
    }
    if isUserInitiated { gate.openForGood() }
    let configuration = self.configuration
    return try await withThrowingTaskGroup(of: Void.self) { group in
      defer { group.cancelAll() }
      if !isUserInitiated {
        let executor = EventLoopTaskExecutor(ClientThread.eventLoop)
        group.addTask(executorPreference: executor) {
          await configuration.monitor.follow(gate.put)
        }
        if let rest = configuration.timeLimit.remaining(.now) {
          group.addTask(executorPreference: executor) {
            try await ClientThread.eventLoop.sleep(for: rest)
            gate.expire()
          }
        }
      }
      try await gate.wait(for: .free)
      return try await operation(Network(gate: gate, configuration: configuration))
    }
  }
}

extension DiscretionaryTask.Expired: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .deadlineExceeded }
  public var rpcErrorMessage: String { self.description }
  public var rpcErrorCause: (any Error)? { self.refusal }
}

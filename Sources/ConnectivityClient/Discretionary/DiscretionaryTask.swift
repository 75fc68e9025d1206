public import ConnectivityMonitor
public import GRPCCore
public import Logging
private import Synchronization

/// Work that waits for a network that it may use freely: a backup, a prefetch, a synchronisation.
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
/// Like `isDiscretionary` of `URLSessionConfiguration` and `NSBackgroundActivityScheduler`, a
/// discretionary task lets the system decide when work runs:
///
/// 1. The work starts when there is a path that it may use. By default, that is a path that costs
///    no money and is not constrained. A path of unknown cost does not qualify either. Until then,
///    none of the work runs, and only messages from connd wake the task.
/// 2. When the path changes to another kind, the work yields. It waits at its own safe points
///    (``Network/wait(isolation:)``). A part without safe points is cancelled and started again
///    (``Network/restarting(_:)``). A step between two safe points continues.
/// 3. Work that the user asks for is never held back: if ``Config/isUserInitiated`` is set, or
///    after ``promote()``. The priority of the task does not matter, because everything that the
///    main actor starts has a high priority.
/// 4. Without connd, the work runs as if every network were free (C7). If
///    `NetworkAccess.whenUnknown` refuses an unknown network, the work waits, and running work
///    continues to its next safe point. A restart of connd has no effect.
/// 5. Cancelling the task ends the wait immediately. When ``run(isolation:_:)`` returns, nothing
///    keeps running.
///
/// Safe to use from any thread. Each run follows the network separately, on the process's shared
/// connection to connd.
///
/// Implements rule C8.
public final class DiscretionaryTask: Sendable {
  /// The networks that the work needs, and how long it may wait.
  public struct Config: Sendable {
    /// The networks that the work may use, in addition to the monitor's rules.
    public var access: NetworkAccess = .inexpensive
    /// The monitor of the path to use: the system's path, or the path to one destination
    /// (`PathMonitor.init(destination:mark:via:access:socket:logger:)`).
    public var monitor = PathMonitor()
    /// How long the work may be held back, from the start of its run, in the machine's uptime.
    /// After that time, work that has to wait ends with ``ExpiredError``, also at a later safe
    /// point. The run always waits for connd's first answer, for at most two seconds. With a limit
    /// of zero, work therefore runs now or not at all.
    public var timeLimit: CallSettings.TimeLimit = .unlimited
    /// Whether the user asked for the work, so that it is never held back.
    public var isUserInitiated = false
    /// Called with the current path when the work begins to wait, and after each change of the path
    /// while it waits. Must not block.
    public var onWait: (@Sendable (NetworkPath) -> Void)?
    /// Logs when the work waits, continues, yields or expires. `nil` logs nothing.
    public var logger: Logger?

    public static var defaults: Config { Config() }

    /// Returns the defaults, changed by `configure`.
    public static func defaults(_ configure: (inout Config) -> Void) -> Config {
      var config = Config()
      configure(&config)
      return config
    }
  }

  /// The error of work that was held back until its time limit.
  ///
  /// `NetworkUnavailableError.Reason.init(of:)` finds the reason in this error. Therefore the error
  /// also triggers the fallback of ``withFallback(on:isolation:operation:fallback:)``.
  public struct ExpiredError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The current path.
    public var path: NetworkPath
    /// Why the path may not be used, or `nil` without a path.
    public var refusal: NetworkUnavailableError?

    public var description: String {
      "the work was held back for too long: \(self.refusal?.description ?? self.path.description)"
    }
  }

  private struct State {
    var isUserInitiated: Bool
    var runs: [ObjectIdentifier: NetworkGate] = [:]
  }

  private let config: Config
  private let state: Mutex<State>

  public init(config: Config = .defaults) {
    self.config = config
    self.state = Mutex(State(isUserInitiated: config.isUserInitiated))
  }

  /// Marks the work as requested by the user. All waiting runs continue immediately, and no run is
  /// held back from now on.
  public func promote() {
    let gates = self.state.withLock { state in
      state.isUserInitiated = true
      return state.runs.values
    }
    for gate in gates { gate.openForGood() }
  }

  /// Waits until the network may be used, and then runs `operation`.
  ///
  /// - Parameters:
  ///   - isolation: The actor on which `operation` runs.
  ///   - operation: The work. Receives the network, to wait for it at safe points.
  /// - Returns: The result of `operation`.
  /// - Throws: The error of `operation`; ``ExpiredError``; `CancellationError` if the task is
  ///   cancelled while it waits.
  public func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ operation: (Network) async throws -> Result
  ) async throws -> Result {
    // A cancelled task does not need to query connd.
    try Task.checkCancellation()
    let gate = NetworkGate(self.config)
    let isUserInitiated = self.state.withLock { state in
      state.runs[ObjectIdentifier(gate)] = gate
      return state.isUserInitiated
    }
    defer {
      self.state.withLock { _ = $0.runs.removeValue(forKey: ObjectIdentifier(gate)) }
      gate.end()
    }
    if isUserInitiated { gate.openForGood() }
    let config = self.config
    return try await withThrowingTaskGroup(of: Void.self) { group in
      defer { group.cancelAll() }
      if !isUserInitiated {
        let thread = Connector.shared.thread
        group.addTask(executorPreference: thread.executor) {
          await config.monitor.follow(gate.put)
        }
        if let rest = config.timeLimit.remaining(.now) {
          group.addTask(executorPreference: thread.executor) {
            try await thread.sleep(for: rest)
            gate.expire()
          }
        }
      }
      try await gate.wait(for: .free)
      return try await operation(Network(gate: gate, config: config))
    }
  }
}

extension DiscretionaryTask.ExpiredError: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .deadlineExceeded }
  public var rpcErrorMessage: String { self.description }
  public var rpcErrorCause: (any Error)? { self.refusal }
}

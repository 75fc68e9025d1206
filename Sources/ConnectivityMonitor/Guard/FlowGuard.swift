package import Connectivity

/// Guards many flows by one stream to connd, which is reopened after restarts of connd.
///
/// 1. Each flow gets an answer: its path, an invalidation or a refusal. If it is destroyed or
///    refused, it is no longer guarded.
/// 2. A lost stream is reported once. The guard connects again after 100 ms, then in growing
///    intervals of at most a minute, and as soon as connd's socket appears. It registers all flows
///    again, with their last known paths, and connd answers each again. Changes in between are not
///    lost.
/// 3. Without flows, the guard keeps an existing stream, but does not open a new one and has no
///    timer. If it had reported connd's absence, it withdraws that report (`resumed`). If connd is
///    still absent when the next flow is added, the guard reports the absence again.
/// 4. A connd in another network namespace is treated as absent until it is replaced.
/// 5. Events are fetched on demand. ``add(_:id:)`` and ``remove(_:)`` never wait.
///
/// The guard ends when its last reference is released.
///
/// Implements rule C7.
package final class FlowGuard: Sendable {
  private let keeper: GuardSession
  private let events: Handoff<GuardEvent>
  private let task: Task<Void, Never>

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  package init(socket: String, through connector: Connector) {
    let keeper = GuardSession(socket: socket, through: connector)
    let events = Handoff<GuardEvent>()
    self.keeper = keeper
    self.events = events
    self.task = Task(executorPreference: connector.executor) {
      try? await keeper.run { try await events.send($0) }
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }

  /// Guards a flow. Has no effect if the id is already in use.
  ///
  /// - Parameters:
  ///   - id: The caller's identifier, until the flow is destroyed, refused or removed. Do not reuse
  ///     the id of a removed flow, because an event of the old flow may still arrive.
  ///   - path: The path that the connection was made on, if it is known to be another one now.
  package func add(_ flow: Flow, id: UInt64, madeOn path: KernelPath? = nil) {
    self.keeper.change { $0.add(flow, id: id, madeOn: path) }
  }

  /// Stops guarding a flow. An event that was already sent may still arrive.
  package func remove(_ id: UInt64) {
    self.keeper.change { $0.remove(id) }
  }

  /// Returns the next event, or `nil` when the task was cancelled, which ends the guard. At most
  /// one task may wait.
  package func next() async -> GuardEvent? {
    await self.events.next()
  }
}

/// Has connd watch connections: one stream for many flows, kept up across restarts of connd.
///
/// 1. Each flow is answered: by its path, or by an invalidation or a refusal, with which it is guarded no longer.
/// 2. A connection that is lost is told once, tried again after 100 ms, then in growing pauses of at most 2 s. connd
///    is told of all flows anew, with the paths that it named before, and answers each anew: what changed meanwhile
///    is not lost.
/// 3. Where there is no flow, nobody looks for connd: a guard that has no connection then makes none, and waits without
///    a timer. That connd is not there, if that was told, is taken back (`resumed`), and told again if the next flow
///    finds it so. A connection that there is stays.
/// 4. A connd in another network namespace is as good as none (`elsewhere`), until there is another one.
/// 5. Events are fetched as they are asked for; ``add(_:id:)`` and ``remove(_:)`` never wait.
///
/// It ends with its last reference.
///
/// Implements rule C7.
package final class FlowGuard: Sendable {
  private let keeper: GuardKeeper
  private let events: Handoff<GuardEvent>
  private let task: Task<Void, Never>

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - dialler: What makes the connections.
  package init(socket: String, through dialler: any Dialler) {
    let keeper = GuardKeeper(socket: socket, through: dialler)
    let events = Handoff<GuardEvent>()
    self.keeper = keeper
    self.events = events
    self.task = Task(executorPreference: dialler.executor) {
      try? await keeper.run { try await events.send($0) }
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }

  /// Guards a flow; does nothing where the id names one already.
  ///
  /// - Parameter id: What the caller calls it, until it is destroyed, refused or removed. One that was removed is
  ///   better not used again: what connd said of the flow before may be on its way.
  package func add(_ flow: Flow, id: UInt64) {
    self.keeper.change { $0.add(flow, id: id) }
  }

  /// Guards a flow no longer. An event that was on its way may still come.
  package func remove(_ id: UInt64) {
    self.keeper.change { $0.remove(id) }
  }

  /// The next event; `nil` when the task was cancelled, which ends the guard. At most one task may wait.
  package func next() async -> GuardEvent? {
    await self.events.next()
  }
}

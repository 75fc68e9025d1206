internal import Connectivity
private import Synchronization

/// A guard like ``FlowGuard``, shared by all channels of a process that use the same connd socket.
///
/// Each owner of a guarded flow retains the hub. When the last owner releases it, the stream to
/// connd ends. Events arrive on ``ClientThread``.
///
/// Implements rule C7.
package final class GuardHub: Sendable {
  /// The receiver of one flow's events. Must not block.
  struct Watcher: Sendable {
    /// Receives the flow's events until it is destroyed or refused.
    var onEvent: @Sendable (FlowEvent) -> Void
    /// Called when the flow's peer must be asked (E4).
    var onQuestion: @Sendable () -> Void = {}
    /// Called when connd is absent, so that the flow's state is unknown. Not called again until
    /// connd was back.
    var onAbsence: @Sendable (ConndAbsence) -> Void
  }

  private struct Weak { weak var hub: GuardHub? }
  private static let hubs = Mutex<[String: Weak]>([:])

  /// Returns the process's hub for a socket.
  package static func shared(socket: String) -> GuardHub {
    Self.hubs.withLock { hubs in
      if let hub = hubs[socket]?.hub { return hub }
      hubs = hubs.filter { $0.value.hub != nil }
      let hub = GuardHub(socket: socket)
      hubs[socket] = Weak(hub: hub)
      return hub
    }
  }

  private let keeper: GuardSession
  private let watchers = Watchers()
  private let hasSaidElsewhere = Mutex(false)
  private let task: Task<Void, Never>

  let connector = Connector.shared

  init(socket: String) {
    let keeper = GuardSession(socket: socket, through: self.connector)
    let watchers = self.watchers
    self.keeper = keeper
    self.task = Task(executorPreference: self.connector.executor) {
      try? await keeper.run { watchers.tell($0) }
    }
  }

  deinit { self.task.cancel() }

  /// Guards a flow until the returned object is released.
  ///
  /// - Parameters:
  ///   - path: The path that connd reported before the connection was made, if the connection was
  ///     made on it.
  ///   - watcher: If connd is already known to be absent, `onAbsence` is called immediately on the
  ///     caller's thread.
  func watch(
    _ flow: FlowGuard.Flow, madeOn path: KernelPath? = nil, _ watcher: Watcher
  ) -> GuardedFlow {
    let (id, absence) = self.watchers.add(watcher)
    if let absence { watcher.onAbsence(absence) }
    self.keeper.change { $0.add(flow, id: id, madeOn: path) }
    return GuardedFlow(hub: self, id: id)
  }

  /// Runs `say` the first time that connd turns out to be in another network namespace.
  package func sayElsewhere(_ say: () -> Void) {
    let isFirst = self.hasSaidElsewhere.withLock { hasSaid in
      defer { hasSaid = true }
      return !hasSaid
    }
    if isFirst { say() }
  }

  fileprivate func remove(_ id: UInt64) {
    self.watchers.remove(id)
    self.keeper.change { $0.remove(id) }
  }
}

/// A flow that is guarded until this object is released.
final class GuardedFlow: Sendable {
  private let hub: GuardHub
  private let id: UInt64

  fileprivate init(hub: GuardHub, id: UInt64) {
    self.hub = hub
    self.id = id
  }

  deinit { self.hub.remove(self.id) }
}

/// The watchers of all flows.
private final class Watchers: Sendable {
  private struct State {
    var watchers: [UInt64: GuardHub.Watcher] = [:]
    var lastID: UInt64 = 0
    /// The reported reason for connd's absence, or `nil` if connd is present or unknown.
    var absence: ConndAbsence?
  }

  private let state = Mutex(State())

  func add(_ watcher: GuardHub.Watcher) -> (id: UInt64, absence: ConndAbsence?) {
    self.state.withLock { state in
      state.lastID += 1
      state.watchers[state.lastID] = watcher
      return (state.lastID, state.absence)
    }
  }

  func remove(_ id: UInt64) {
    // Released outside the lock, because the watcher may refer to objects that remove flows.
    let watcher = self.state.withLock { $0.watchers.removeValue(forKey: id) }
    withExtendedLifetime(watcher) {}
  }

  func tell(_ event: GuardEvent) {
    switch event {
    case .flow(let id, _, let event):
      let watcher = self.state.withLock { state in
        event.isLast ? state.watchers.removeValue(forKey: id) : state.watchers[id]
      }
      watcher?.onEvent(event)
    case .question(let id): self.state.withLock { $0.watchers[id] }?.onQuestion()
    case .absent(let absence): self.tellAll(absence)
    case .resumed: self.state.withLock { $0.absence = nil }
    }
  }

  private func tellAll(_ absence: ConndAbsence) {
    let watchers = self.state.withLock { state in
      state.absence = absence
      return state.watchers.values
    }
    for watcher in watchers { watcher.onAbsence(absence) }
  }
}

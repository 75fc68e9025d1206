internal import Connectivity
internal import ConnectivitySession
private import Synchronization

/// One guard, as ``FlowGuard`` is, for all channels of a process that guard their flows with the connd of one socket.
///
/// Who guards flows holds the hub meanwhile; with its last holder the stream to connd ends. Its events are told on
/// ``ClientThread``.
final class GuardHub: Sendable {
  /// What a watcher of one flow is told.
  enum Event: Sendable {
    case flow(FlowEvent)
    /// connd is not there, or went away: what becomes of the flow, nobody knows. Not told again until connd was there.
    case disconnected(ConndError)
    /// connd is there, and speaks of another network namespace: it is as if it were not there.
    case elsewhere(ForeignNamespace)
  }

  typealias Watcher = @Sendable (Event) -> Void

  private struct Weak { weak var hub: GuardHub? }
  private static let hubs = Mutex<[String: Weak]>([:])

  /// The process's hub for a socket.
  static func shared(socket: String) -> GuardHub {
    Self.hubs.withLock { hubs in
      if let hub = hubs[socket]?.hub { return hub }
      hubs = hubs.filter { $0.value.hub != nil }
      let hub = GuardHub(socket: socket)
      hubs[socket] = Weak(hub: hub)
      return hub
    }
  }

  private let keeper: GuardKeeper
  private let watchers = Watchers()
  private let hasSaidElsewhere = Mutex(false)
  private let task: Task<Void, Never>

  init(socket: String) {
    let keeper = GuardKeeper(socket: socket, through: NIODialler())
    let watchers = self.watchers
    self.keeper = keeper
    self.task = Task(executorPreference: EventLoopTaskExecutor(ClientThread.eventLoop)) {
      try? await keeper.run { watchers.tell($0) }
    }
  }

  deinit { self.task.cancel() }

  /// Guards a flow for as long as what is returned lives.
  ///
  /// - Parameters:
  ///   - path: What connd told of the flow before its connection was made, where that was made on it.
  ///   - watcher: Told what becomes of the flow, until it is destroyed or refused; at once, and by the caller's thread, where
  ///     connd is known not to be there. It must not block.
  func watch(
    _ flow: FlowGuard.Flow, madeOn path: Path? = nil, _ watcher: @escaping Watcher
  ) -> GuardedFlow {
    let (id, absence) = self.watchers.add(watcher)
    if let absence { watcher(absence) }
    self.keeper.change { $0.add(flow, id: id, madeOn: path) }
    return GuardedFlow(hub: self, id: id)
  }

  /// Has it said that connd speaks of another network namespace: once, whoever guards flows.
  func sayElsewhere(_ say: () -> Void) {
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

/// A flow that is guarded until this is released.
final class GuardedFlow: Sendable {
  private let hub: GuardHub
  private let id: UInt64

  fileprivate init(hub: GuardHub, id: UInt64) {
    self.hub = hub
    self.id = id
  }

  deinit { self.hub.remove(self.id) }
}

/// Who is to be told of which flow.
private final class Watchers: Sendable {
  private struct State {
    var watchers: [UInt64: GuardHub.Watcher] = [:]
    var lastID: UInt64 = 0
    /// Why connd is not there, as watchers were told; `nil` where it is, or nobody knows yet.
    var absence: GuardHub.Event?
  }

  private let state = Mutex(State())

  func add(_ watcher: @escaping GuardHub.Watcher) -> (id: UInt64, absence: GuardHub.Event?) {
    self.state.withLock { state in
      state.lastID += 1
      state.watchers[state.lastID] = watcher
      return (state.lastID, state.absence)
    }
  }

  func remove(_ id: UInt64) {
    // The watcher may hold what removes flows itself: it is released outside.
    let watcher = self.state.withLock { $0.watchers.removeValue(forKey: id) }
    withExtendedLifetime(watcher) {}
  }

  func tell(_ event: GuardEvent) {
    switch event {
    case .flow(let id, _, let event):
      let watcher = self.state.withLock { state in
        event.isLast ? state.watchers.removeValue(forKey: id) : state.watchers[id]
      }
      watcher?(.flow(event))
    case .disconnected(let error): self.tellAll(.disconnected(error))
    case .elsewhere(let foreign): self.tellAll(.elsewhere(foreign))
    case .resumed: self.state.withLock { $0.absence = nil }
    }
  }

  private func tellAll(_ absence: GuardHub.Event) {
    let watchers = self.state.withLock { state in
      state.absence = absence
      return state.watchers.values
    }
    for watcher in watchers { watcher(absence) }
  }
}

extension FlowEvent {
  /// With it the flow is guarded no longer.
  fileprivate var isLast: Bool {
    switch self {
    case .path, .betterPathGone: false
    case .invalidation(let invalidation): invalidation.severity == .destroy
    case .refused: true
    }
  }
}

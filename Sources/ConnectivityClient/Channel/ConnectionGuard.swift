internal import Connectivity
private import Synchronization

/// Guards one connection's flow, from before it is made: no change can fall between.
final class ConnectionGuard: Sendable {
  /// What is known before the connection is made.
  enum Answer: Sendable {
    case path(Path)
    /// Nobody guards it: connd is not there, or refused.
    case unguarded
  }

  private struct State {
    var flow: FlowGuard.Flow
    var guarded: GuardedFlow?
    /// The source address of the first path that was told.
    var source: IPAddress?
    var local: IPAddress?
    var answer: Answer?
    var waiter: CheckedContinuation<Answer, Never>?
    var isOver = false
  }

  /// connd is on this machine: one that says nothing for so long is as good as none (C7).
  private static let patience: Duration = .seconds(1)

  private let hub: GuardHub
  private let state: Mutex<State>
  private let onEvent: @Sendable (GuardHub.Event) -> Void

  /// - Parameter onEvent: Told of all that connd says of the flow, on the thread of connections to connd.
  init(
    _ flow: FlowGuard.Flow, hub: GuardHub, onEvent: @escaping @Sendable (GuardHub.Event) -> Void
  ) {
    self.hub = hub
    self.state = Mutex(State(flow: flow))
    self.onEvent = onEvent
    self.watch()
  }

  /// The first thing that is known.
  func answer() async -> Answer {
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        try? await Task.sleep(for: Self.patience)
        self.answered(.unguarded)
      }
      let answer = await withCheckedContinuation { waiter in
        let answer = self.state.withLock { state in
          if state.answer == nil { state.waiter = waiter }
          return state.answer
        }
        if let answer { waiter.resume(returning: answer) }
      }
      group.cancelAll()
      return answer
    }
  }

  /// The connection has an address of its own.
  func connected(local: IPAddress) {
    let isOther = self.state.withLock { state in
      state.local = local
      return state.source.map { $0 != local } ?? false
    }
    // connd took another one for it: the route changed since, or the channel is bound to an address.
    if isOther { self.watch(local: local) }
  }

  /// Guards it no longer.
  func end() {
    let guarded = self.state.withLock { state in
      defer { (state.guarded, state.isOver) = (nil, true) }
      return state.guarded
    }
    withExtendedLifetime(guarded) {}
    self.answered(.unguarded)
  }

  private func watch(local: IPAddress? = nil) {
    let flow = self.state.withLock { state in
      state.flow.local = local ?? state.flow.local
      return state.flow
    }
    let guarded = self.hub.watch(flow) { [weak self] in self?.told($0, of: flow) }
    // What it replaces is released outside of the lock.
    let previous = self.state.withLock { state in
      defer { state.guarded = state.isOver ? nil : guarded }
      return state.guarded
    }
    withExtendedLifetime(previous) {}
  }

  private func told(_ event: GuardHub.Event, of flow: FlowGuard.Flow) {
    var other: IPAddress?
    let isMine = self.state.withLock { state in
      guard !state.isOver, state.flow == flow else { return false }
      if flow.local == nil, case .flow(.path(let path)) = event, state.source == nil {
        state.source = path.status == .satisfied ? path.source : nil
        if let source = state.source, let local = state.local, source != local { other = local }
      }
      return true
    }
    guard isMine else { return }
    if let other {
      // The path is that of another address: what is known of this connection's comes next.
      self.watch(local: other)
      return
    }
    self.onEvent(event)
    switch event {
    case .flow(.path(let path)): self.answered(.path(path))
    case .flow(.invalidation), .flow(.refused), .disconnected: self.answered(.unguarded)
    }
  }

  private func answered(_ answer: Answer) {
    let waiter = self.state.withLock { state in
      if state.answer != nil { return nil as CheckedContinuation<Answer, Never>? }
      state.answer = answer
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume(returning: answer)
  }
}

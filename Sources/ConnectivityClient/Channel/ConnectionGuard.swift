internal import Connectivity
private import Synchronization

/// Guards one connection's flow, from before it is made: no change can fall between.
final class ConnectionGuard: Sendable {
  /// What is known before the connection is made.
  enum Answer: Sendable {
    case path(Path)
    /// It would be invalid at once.
    case invalidation(FlowInvalidation)
    /// Nobody guards it: connd is not there, or refused.
    case unguarded
    /// connd took the request and says nothing.
    case silence
  }

  private struct State {
    var flow: FlowGuard.Flow
    var guarded: GuardedFlow?
    /// The source address of the first path that was told: connd takes it for the connection's.
    var source: IPAddress?
    var answer: Answer?
    var waiters: [CheckedContinuation<Answer, Never>] = []
    /// The attempt to connect goes on, with an answer or without.
    var isAnswered = false
    var isOver = false
    /// There is no connection; a flow that connd gives up is begun anew.
    var isFollowing = false
  }

  private let hub: GuardHub
  private let state: Mutex<State>
  private let onEvent: @Sendable (_ event: GuardHub.Event, _ isFirst: Bool) -> Void

  /// - Parameter onEvent: Told of all that connd says of the flow, on the thread of connections to connd; the first thing
  ///   is the ``answer()`` as well.
  init(
    _ flow: FlowGuard.Flow, hub: GuardHub,
    onEvent: @escaping @Sendable (_ event: GuardHub.Event, _ isFirst: Bool) -> Void
  ) {
    self.hub = hub
    self.state = Mutex(State(flow: flow))
    self.onEvent = onEvent
    self.watch(local: nil)
  }

  /// The first thing that is known. After a silence one may ask again.
  ///
  /// - Parameter patience: connd is on this machine: one that says nothing for so long is as good as none (C7).
  func answer(within patience: Duration) async -> Answer {
    self.state.withLock { state in
      if case .silence = state.answer { state.answer = nil }
    }
    return await withTaskGroup(of: Void.self) { group in
      group.addTask {
        try? await Task.sleep(for: patience)
        self.answered(.silence)
      }
      let answer = await withCheckedContinuation { waiter in
        let answer = self.state.withLock { state in
          if state.answer == nil { state.waiters.append(waiter) }
          return state.answer
        }
        if let answer { waiter.resume(returning: answer) }
      }
      group.cancelAll()
      return answer
    }
  }

  /// How long connd is waited for: who may not use every network would rather wait than use a wrong one.
  static func patience(_ access: NetworkAccess) -> Duration {
    .seconds(access == .unrestricted ? 1 : 5)
  }

  /// The connection has an address of its own.
  func connected(local: IPAddress) {
    // One of this machine's own says nothing of a network. To register the flow anew for it would only open a gap.
    if local.isLoopback { return }
    // connd took another one for it, because the route changed since or the channel is bound to an address; or it has not
    // said yet.
    if self.state.withLock({ $0.source }) != local { self.watch(local: local) }
  }

  /// No connection came of it: goes on following what becomes of the path to the address.
  func follow() {
    self.state.withLock { $0.isFollowing = true }
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

  private func watch(local: IPAddress?) {
    let flow = self.state.withLock { state in
      state.flow.local = local
      state.source = nil
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
    let (isFirst, isFollowing) = self.state.withLock { state -> (Bool?, Bool) in
      guard !state.isOver, state.flow == flow else { return (nil, false) }
      if case .flow(.path(let path)) = event, path.status == .satisfied {
        state.source = state.source ?? path.source
      }
      return (!state.isAnswered, state.isFollowing)
    }
    guard let isFirst else { return }
    self.onEvent(event, isFirst)
    if isFollowing, case .flow(.invalidation(let invalidation)) = event,
      invalidation.severity == .destroy, invalidation.reason != .policy
    {
      self.watch(local: nil)
    }
    switch event {
    case .flow(.path(let path)): self.answered(.path(path))
    case .flow(.invalidation(let invalidation)) where invalidation.severity == .destroy:
      self.answered(.invalidation(invalidation))
    case .flow(.invalidation): break
    case .flow(.refused), .disconnected: self.answered(.unguarded)
    }
  }

  private func answered(_ answer: Answer) {
    let waiters = self.state.withLock { state in
      switch state.answer {
      case nil, .silence: break
      case .path, .invalidation, .unguarded: return [] as [CheckedContinuation<Answer, Never>]
      }
      (state.answer, state.isAnswered) = (answer, true)
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume(returning: answer) }
  }
}

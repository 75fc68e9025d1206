internal import Connectivity
internal import ConnectivitySession
private import Synchronization

/// Guards one connection's flow, beginning before the connection is made. Once the connection is
/// made, its flow is registered again, with its own address and port, because rules and multipath
/// routes depend on them. The new registration includes the last known path, so connd immediately
/// reports what has changed since.
///
/// Implements rule I11.
final class ConnectionGuard: Sendable {
  /// connd's answer before the connection is made.
  enum Answer: Sendable {
    case path(Path)
    /// The connection would be invalid immediately.
    case invalidation(FlowInvalidation)
    /// The flow is not guarded: connd is not running, or refused it.
    case unguarded
    /// connd accepted the request but has not answered.
    case silence

    /// The path in the answer.
    var path: Path? {
      switch self {
      case .path(let path): path
      case .invalidation(let invalidation): invalidation.path
      case .unguarded, .silence: nil
      }
    }
  }

  private struct State {
    var flow: FlowGuard.Flow
    var guarded: GuardedFlow?
    /// The source address of the first reported path: connd assumes that the connection uses it.
    var source: IPAddress?
    /// The last reported path that carries traffic.
    var path: Path?
    var answer: Answer?
    var waiters: [UInt64: CheckedContinuation<Answer, Never>] = [:]
    var lastWaiter: UInt64 = 0
    /// Whether the attempt to connect has gone on, with an answer or without.
    var isAnswered = false
    var isOver = false
    /// Whether connd has destroyed the flow and no longer guards it.
    var isGone = false
    /// Whether connd has yet to report anything about the flow's latest registration.
    var isFresh = true
    /// Whether connd saw no path for the new connection, and has seen none since.
    var isDoubted = false
    var stage = Stage.attempt
    /// Whether it is kept despite a better path, and has to be notified when that path is gone.
    var awaitsReturn = false
    /// The path that new connections use in the meantime.
    var way: ConnectionGuard?

    /// Returns what an event means for the owner of the flow.
    func novelty(of event: GuardHub.Event) -> EventPhase {
      guard self.isFresh else {
        guard self.isDoubted, case .flow(let event) = event else { return .change }
        return event.settlesDoubt ? .outcome : .change
      }
      return switch self.stage {
      case .attempt: self.isAnswered ? .verdict : .answer
      case .connection: .verdict
      case .kept: .again
      case .returned, .way: .change
      }
    }

    /// Updates ``isDoubted`` for an event of a new connection.
    mutating func doubt(after event: FlowEvent) {
      if self.isFresh {
        self.isDoubted = self.stage == .connection && event.raisesDoubt
      } else if event.settlesDoubt {
        self.isDoubted = false
      }
    }
  }

  /// The subject of the flow's current registration.
  private enum Stage: Equatable {
    /// A connection that is being made.
    case attempt
    /// One that has been made, with its own address.
    case connection
    /// A connection that is kept although connd has given it up.
    case kept
    /// A connection that was kept until its path became the best again. Events from now on are new.
    case returned(to: String?)
    /// The path to the address, without a connection. If connd gives up the flow, it is registered
    /// again.
    case way
  }

  private let hub: GuardHub
  private let state: Mutex<State>
  private let onEvent: Receiver

  /// The meaning of an event for the owner of the flow.
  enum EventPhase: Sendable {
    /// The result of ``answer(within:)``.
    case answer
    /// The answer to the registration of a new connection, or of one that is being made without
    /// waiting for the answer.
    case verdict
    /// The outcome after a verdict without a path: the first path since, or the end.
    case outcome
    /// The answer to a later registration of the same flow.
    case again
    /// A change.
    case change

    /// Whether the event happened after the registration. A report that answers the registration
    /// would be repeated by the next one.
    var isNews: Bool {
      switch self {
      case .outcome, .change: true
      case .answer, .verdict, .again: false
      }
    }
  }

  /// Receives all events of the flow and the flow as registered, on the thread of the connections
  /// to connd.
  typealias Receiver = @Sendable (GuardHub.Event, EventPhase, FlowGuard.Flow) -> Void

  /// - Parameter flow: Includes its own address if it is already connected.
  init(
    _ flow: FlowGuard.Flow, hub: GuardHub, onEvent: @escaping Receiver
  ) {
    self.hub = hub
    self.state = Mutex(State(flow: flow, stage: flow.local == nil ? .attempt : .connection))
    self.onEvent = onEvent
    self.watch(local: flow.local)
  }

  /// Returns the first answer of connd. After a silence it may be called again.
  ///
  /// - Parameter patience: How long to wait. connd runs on this machine, so one that stays silent
  ///   for so long is treated as absent (C7).
  func answer(within patience: Duration) async -> Answer {
    let id = self.state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return await withTaskGroup(of: Void.self) { group in
      let answer = await withCheckedContinuation { waiter in
        let answer = self.state.withLock { state in
          if state.answer == nil { state.waiters[id] = waiter }
          return state.answer
        }
        if let answer { return waiter.resume(returning: answer) }
        // This also ends the wait when the task is cancelled.
        group.addTask {
          try? await ClientThread.eventLoop.sleep(for: patience)
          self.giveUp(id)
        }
      }
      group.cancelAll()
      return answer
    }
  }

  /// Ends a wait without an answer.
  private func giveUp(_ id: UInt64) {
    let waiter = self.state.withLock { state in
      let waiter = state.waiters.removeValue(forKey: id)
      if waiter != nil { state.isAnswered = true }
      return waiter
    }
    waiter?.resume(returning: .silence)
  }

  /// How long to wait for connd. A channel with access rules waits longer, because it must not use
  /// the wrong network.
  static func patience(isRestricted: Bool) -> Duration { .seconds(isRestricted ? 5 : 1) }

  /// Registers the connection again with its own address and port.
  func connected(local: IPAddress, port: UInt16) {
    // A loopback connection does not depend on a network. Registering it again would only leave a
    // gap.
    if local.isLoopback { return }
    let path = self.state.withLock { state in
      state.stage = .connection
      state.flow.transport?.localPort = port
      // If the path had changed before the connection was made, the connection would usually have
      // another address.
      return state.path?.source == local ? state.path : nil
    }
    self.watch(local: local, madeOn: path)
  }

  /// Follows the path to the address after a failed attempt, whether the path is allowed or not.
  func follow() {
    let isGone = self.state.withLock { state in
      state.stage = .way
      return state.isGone
    }
    if isGone { self.watch(local: nil) }
  }

  /// Keeps guarding a connection that connd has given up, as one bound to the link it was made on.
  /// Only the loss of its address or link matters from then on. A path that is preferred now
  /// matters only in that its end is reported.
  ///
  /// - Parameters:
  ///   - interface: The link of its path. If connd sees no path, the link that has its address is
  ///     used.
  ///   - awaitsReturn: Whether it was given up for a better path, whose end is to be reported.
  /// - Returns: Whether it is guarded. It is not if the link is unknown.
  @discardableResult
  func keepDespiteVerdict(on interface: String?, awaitsReturn: Bool = false) -> Bool {
    let (bound, address) = self.state.withLock { ($0.flow.interface, $0.flow.local) }
    guard let interface = interface ?? bound ?? address.flatMap({ linkName(of: $0) }) else {
      return false
    }
    let (flow, local, own) = self.state.withLock { state in
      (state.stage, state.awaitsReturn) = (.kept, awaitsReturn)
      state.flow.allowsAll()
      defer { state.flow.interface = interface }
      return (state.flow, state.flow.local ?? state.source, state.path)
    }
    self.replaceWay(by: nil)
    self.watch(local: local)
    if awaitsReturn { self.followWay(of: flow, until: interface, own) }
    return true
  }

  /// Follows the path of new connections until they use the link and subnet of this one.
  private func followWay(of flow: FlowGuard.Flow, until interface: String, _ own: Path?) {
    var new = flow
    new.local = nil
    new.transport?.localPort = 0
    let way = ConnectionGuard(new, hub: self.hub) { [weak self] event, _, _ in
      guard case .flow(let event) = event, let path = event.path, path.status == .satisfied,
        path.interface == interface, own.map(path.isOfSameSubnet) ?? true
      else { return }
      self?.returned(to: path, boundTo: flow.interface)
    }
    way.follow()
    self.replaceWay(by: way)
  }

  /// Registers the flow as before, because new connections use its link again. A rule may still
  /// send this flow elsewhere.
  private func returned(to path: Path, boundTo interface: String?) {
    let flow = self.state.withLock { state -> FlowGuard.Flow? in
      guard state.awaitsReturn, !state.isOver, !state.isGone else { return nil }
      state.awaitsReturn = false
      state.stage = .returned(to: path.interface)
      state.flow.interface = interface
      return state.flow
    }
    self.replaceWay(by: nil)
    guard let flow else { return }
    // The path to compare with: it may have changed again by now.
    self.watch(local: flow.local, madeOn: path.source == flow.local ? path : nil)
  }

  /// Returns the meaning of the first event after the flow has returned.
  private func settle(_ event: FlowEvent, on interface: String?) -> GuardHub.Event? {
    guard let path = event.ownPath else { return .flow(event) }
    if path.interface == interface { return .flow(.betterPathGone(path)) }
    // From its own address, the kernel uses another link: a better path still exists, so the flow
    // stays as it is.
    self.keepDespiteVerdict(on: interface)
    return nil
  }

  private func replaceWay(by way: ConnectionGuard?) {
    let previous = self.state.withLock { state in
      defer { state.way = state.isOver || !state.awaitsReturn ? nil : way }
      return state.way
    }
    // Outside the lock, which `end()` may take.
    previous?.end()
  }

  /// Stops guarding the flow.
  func end() {
    let guarded = self.state.withLock { state in
      defer { (state.guarded, state.isOver) = (nil, true) }
      return state.guarded
    }
    withExtendedLifetime(guarded) {}
    self.replaceWay(by: nil)
    self.answered(.unguarded)
  }

  private func watch(local: IPAddress?, madeOn path: Path? = nil) {
    let flow = self.state.withLock { state in
      state.flow.local = local
      if local == nil { state.flow.transport?.localPort = 0 }
      if state.stage == .way { state.flow.allowsAll() }
      (state.source, state.path, state.isGone) = (nil, nil, false)
      (state.isFresh, state.isDoubted) = (true, false)
      return state.flow
    }
    let guarded = self.hub.watch(flow, madeOn: path) { [weak self] in self?.told($0, of: flow) }
    // The previous registration is released outside the lock.
    let previous = self.state.withLock { state in
      defer { state.guarded = state.isOver ? nil : guarded }
      return state.guarded
    }
    withExtendedLifetime(previous) {}
  }

  private func told(_ event: GuardHub.Event, of flow: FlowGuard.Flow) {
    let (novelty, mustWatch, settled) = self.state.withLock {
      state -> (EventPhase?, Bool, String??) in
      guard !state.isOver, state.flow == flow else { return (nil, false, nil) }
      let (novelty, wasFresh) = (state.novelty(of: event), state.isFresh)
      var settled: String??
      if wasFresh, case .returned(let interface) = state.stage { settled = .some(interface) }
      if case .flow(let event) = event {
        state.doubt(after: event)
        state.isFresh = false
        state.isGone = event.destroys
        if let path = event.ownPath, path.status == .satisfied {
          state.source = state.source ?? path.source
          state.path = path
        }
      }
      // If a dead path were retried immediately, the verdict would repeat forever.
      return (novelty, state.isGone && state.stage == .way && !wasFresh, settled)
    }
    guard let novelty else { return }
    var event = event
    if let settled, case .flow(let first) = event {
      guard let meaning = self.settle(first, on: settled) else { return }
      event = meaning
    }
    self.onEvent(event, novelty, flow)
    if mustWatch { self.watch(local: nil) }
    switch event {
    case .flow(.path(let path)), .flow(.betterPathGone(let path)): self.answered(.path(path))
    case .flow(.invalidation(let invalidation)) where invalidation.severity == .destroy:
      self.answered(.invalidation(invalidation))
    case .flow(.invalidation): break
    case .flow(.refused), .disconnected, .elsewhere: self.answered(.unguarded)
    }
  }

  private func answered(_ answer: Answer) {
    let waiters = self.state.withLock { state in
      if state.answer != nil { return [:] as [UInt64: CheckedContinuation<Answer, Never>] }
      (state.answer, state.isAnswered) = (answer, true)
      defer { state.waiters = [:] }
      return state.waiters
    }
    for waiter in waiters.values { waiter.resume(returning: answer) }
  }
}

extension FlowGuard.Flow {
  /// Removes the cost rules, so that the flow is not given up because of the path's cost.
  fileprivate mutating func allowsAll() {
    (self.forbidsExpensive, self.forbidsConstrained) = (false, false)
  }
}

extension FlowEvent {
  /// The path to the remote address, or `nil` if the event has none.
  var path: Path? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation(let invalidation): invalidation.path
    case .refused: nil
    }
  }

  /// Whether the event reports that the flow has no path but does not end it. An unknown path does
  /// not count.
  fileprivate var raisesDoubt: Bool {
    guard !self.destroys, let status = self.path?.status else { return false }
    return status == .unsatisfied || status == .requiresConnection
  }

  /// Whether the event ends the doubt: a satisfied path, or the end of the flow.
  fileprivate var settlesDoubt: Bool { self.destroys || self.path?.status == .satisfied }

  /// Whether connd has declared the flow dead and stops guarding it.
  var destroys: Bool {
    if case .invalidation(let invalidation) = self {
      invalidation.severity == .destroy
    } else {
      false
    }
  }
}

internal import Connectivity
internal import ConnectivitySession
private import Synchronization

/// Guards one connection's flow, from before it is made. When it is made it is registered anew, with its own address and
/// port, by which rules and one of several nexthops are chosen, and with the path that was told before: what has changed
/// meanwhile is told at once.
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

    /// What was said of the way.
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
    /// The source address of the first path that was told: connd takes it for the connection's.
    var source: IPAddress?
    /// The last path that was told and that carries traffic.
    var path: Path?
    var answer: Answer?
    var waiters: [UInt64: CheckedContinuation<Answer, Never>] = [:]
    var lastWaiter: UInt64 = 0
    /// The attempt to connect goes on, with an answer or without.
    var isAnswered = false
    var isOver = false
    /// connd has destroyed the flow, and guards it no longer.
    var isGone = false
    /// connd has yet to say something of the flow as it is registered now.
    var isFresh = true
    /// connd saw no path for the connection when that had just been made, and has seen none since.
    var isDoubted = false
    var stage = Stage.attempt
    /// It goes on although there is a better path, and is to be told when that is gone.
    var awaitsReturn = false
    /// What new connections get meanwhile.
    var way: ConnectionGuard?

    /// What an event is to who guards the flow.
    func novelty(of event: GuardHub.Event) -> Novelty {
      guard self.isFresh else {
        guard self.isDoubted, case .flow(let event) = event else { return .change }
        return event.settlesDoubt ? .outcome : .change
      }
      return switch self.stage {
      case .attempt: self.isAnswered ? .verdict : .answer
      case .connection: .verdict
      case .survivor: .again
      case .returned, .way: .change
      }
    }

    /// What connd's word says of its doubt, in a connection that has just been made.
    mutating func doubt(after event: FlowEvent) {
      if self.isFresh {
        self.isDoubted = self.stage == .connection && event.raisesDoubt
      } else if event.settlesDoubt {
        self.isDoubted = false
      }
    }
  }

  /// What the flow stands for, as it is registered now.
  private enum Stage: Equatable {
    /// A connection that is being made.
    case attempt
    /// One that has been made, with its own address.
    case connection
    /// One that goes on although connd has given it up.
    case survivor
    /// One that went on until its way was the best again: what it is told now has happened since.
    case returned(to: String?)
    /// No connection, but the way to the address; a flow that connd gives up is begun anew.
    case way
  }

  private let hub: GuardHub
  private let state: Mutex<State>
  private let onEvent: Receiver

  /// What an event is to who guards the flow.
  enum Novelty: Sendable {
    /// The ``answer(within:)``.
    case answer
    /// The answer to the registration of the connection that has just been made, or is being made without waiting for it
    /// any longer.
    case verdict
    /// What the verdict came to that saw no path for the connection: the first path since, or the end.
    case outcome
    /// The answer to another registration of the same flow.
    case again
    /// Something has changed.
    case change

    /// It is told of what has happened since the flow was registered as it is. What is told at once would be told again.
    var isNews: Bool {
      switch self {
      case .outcome, .change: true
      case .answer, .verdict, .again: false
      }
    }
  }

  /// Told of all that connd says of the flow, and of which one as it was registered, on the thread of connections to connd.
  typealias Receiver = @Sendable (GuardHub.Event, Novelty, FlowGuard.Flow) -> Void

  /// - Parameter flow: With its own address where it is connected already.
  init(
    _ flow: FlowGuard.Flow, hub: GuardHub, onEvent: @escaping Receiver
  ) {
    self.hub = hub
    self.state = Mutex(State(flow: flow, stage: flow.local == nil ? .attempt : .connection))
    self.onEvent = onEvent
    self.watch(local: flow.local)
  }

  /// The first thing that is known. After a silence one may ask again.
  ///
  /// - Parameter patience: connd is on this machine: one that says nothing for so long is as good as none (C7).
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
        // Also where the task is cancelled; it waits no longer then.
        group.addTask {
          try? await ClientThread.eventLoop.sleep(for: patience)
          self.giveUp(id)
        }
      }
      group.cancelAll()
      return answer
    }
  }

  /// Who waited for so long goes on without an answer.
  private func giveUp(_ id: UInt64) {
    let waiter = self.state.withLock { state in
      let waiter = state.waiters.removeValue(forKey: id)
      if waiter != nil { state.isAnswered = true }
      return waiter
    }
    waiter?.resume(returning: .silence)
  }

  /// How long connd is waited for: who may not use every network would rather wait than use a wrong one.
  static func patience(isRestricted: Bool) -> Duration { .seconds(isRestricted ? 5 : 1) }

  /// The connection has an address and a port of its own.
  func connected(local: IPAddress, port: UInt16) {
    // One of this machine's own says nothing of a network. To register the flow anew for it would only open a gap.
    if local.isLoopback { return }
    let path = self.state.withLock { state in
      state.stage = .connection
      state.flow.transport?.localPort = port
      // Had the way moved before the connection was made, that had mostly another address.
      return state.path?.source == local ? state.path : nil
    }
    self.watch(local: local, madeOn: path)
  }

  /// No connection came of it: goes on following what becomes of the path to the address, whether it is allowed or not.
  func follow() {
    let isGone = self.state.withLock { state in
      state.stage = .way
      return state.isGone
    }
    if isGone { self.watch(local: nil) }
  }

  /// connd has given up the flow, and its connection goes on nevertheless: guards it as one that is bound to the link it was
  /// made on. What becomes of its address and its link concerns it; of what else is preferred now, at most that it is preferred
  /// no longer.
  ///
  /// - Parameters:
  ///   - interface: that of its path. Where connd sees none, the link is the one that has its address.
  ///   - awaitsReturn: What it was given up for is a better path: tells when that is gone.
  /// - Returns: Whether it is guarded: not where nobody knows the link.
  @discardableResult
  func goOn(on interface: String?, awaitsReturn: Bool = false) -> Bool {
    let (bound, address) = self.state.withLock { ($0.flow.interface, $0.flow.local) }
    guard let interface = interface ?? bound ?? address.flatMap({ linkName(of: $0) }) else {
      return false
    }
    let (flow, local, own) = self.state.withLock { state in
      (state.stage, state.awaitsReturn) = (.survivor, awaitsReturn)
      state.flow.allowsAll()
      defer { state.flow.interface = interface }
      return (state.flow, state.flow.local ?? state.source, state.path)
    }
    self.replaceWay(by: nil)
    self.watch(local: local)
    if awaitsReturn { self.followWay(of: flow, until: interface, own) }
    return true
  }

  /// Follows what new connections get, until that is the link and the subnet that this one is on.
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

  /// New connections get the link again that this one is on: it is registered as it was before. Whether the kernel sends it that way,
  /// too, a rule may decide.
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
    // What it may be compared with: that may be over again by now.
    self.watch(local: flow.local, madeOn: path.source == flow.local ? path : nil)
  }

  /// What the first word of a flow means that has returned.
  private func settle(_ event: FlowEvent, on interface: String?) -> GuardHub.Event? {
    guard let path = event.ownPath else { return .flow(event) }
    if path.interface == interface { return .flow(.betterPathGone(path)) }
    // Its own address leads it elsewhere: there is a better path still, and it stays where it is.
    self.goOn(on: interface)
    return nil
  }

  private func replaceWay(by way: ConnectionGuard?) {
    let previous = self.state.withLock { state in
      defer { state.way = state.isOver || !state.awaitsReturn ? nil : way }
      return state.way
    }
    // Outside of the lock, which it may take.
    previous?.end()
  }

  /// Guards it no longer.
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
    // What it replaces is released outside of the lock.
    let previous = self.state.withLock { state in
      defer { state.guarded = state.isOver ? nil : guarded }
      return state.guarded
    }
    withExtendedLifetime(previous) {}
  }

  private func told(_ event: GuardHub.Event, of flow: FlowGuard.Flow) {
    let (novelty, mustWatch, settled) = self.state.withLock { state -> (Novelty?, Bool, String??) in
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
      // Who is told at once that a way is dead would be told so for ever.
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
  /// What the path costs is no reason to give it up.
  fileprivate mutating func allowsAll() {
    (self.forbidsExpensive, self.forbidsConstrained) = (false, false)
  }
}

extension FlowEvent {
  /// The way to the remote address, as far as it is told.
  var path: Path? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation(let invalidation): invalidation.path
    case .refused: nil
    }
  }

  /// There is no path for the flow, it says, and yet no end. Of what is not known it says nothing.
  fileprivate var raisesDoubt: Bool {
    guard !self.destroys, let status = self.path?.status else { return false }
    return status == .unsatisfied || status == .requiresConnection
  }

  /// It ends the flow for which there was no path, or there is one.
  fileprivate var settlesDoubt: Bool { self.destroys || self.path?.status == .satisfied }

  /// With it connd guards the flow no longer, which it declares dead.
  var destroys: Bool {
    if case .invalidation(let invalidation) = self {
      invalidation.severity == .destroy
    } else {
      false
    }
  }
}

package import Connectivity
import LinuxSupport
private import Synchronization

/// The guard of one connection, from before it is made, as ``GuardMachine`` decides. Safe to use
/// from any thread.
///
/// Implements rules I11 and M6.
package final class ConnectionGuard: Sendable {
  package typealias Answer = GuardMachine.Answer
  package typealias EventPhase = GuardMachine.EventPhase

  /// An event for the owner of the connection.
  package struct Report: Sendable {
    package var event: FlowEvent
    package var phase: EventPhase
    /// The flow as registered.
    package var flow: FlowGuard.Flow
    /// How long new connections stay unguarded, if the event proves that connd is wrong.
    package var rest: Duration?
    /// The guard, which its owner may not have stored yet when the first events arrive.
    fileprivate var source: ConnectionGuard

    /// Keeps guarding a connection that its owner keeps despite an invalidation, if the connection
    /// can survive that. Does nothing after a rejection at registration, which connd would repeat
    /// immediately.
    ///
    /// - Parameter awaitsReturn: Whether the owner wants to know when a better path is gone.
    /// - Returns: Whether the connection is guarded.
    @discardableResult
    package func keep(despite invalidation: InvalidationError, awaitsReturn: Bool) -> Bool {
      guard invalidation.severity == .destroy, invalidation.isSurvivable, self.phase.isNews else {
        return false
      }
      return self.source.keep(awaitsReturn: awaitsReturn && invalidation.reason == .betterPath)
    }
  }

  private struct State {
    var machine: GuardMachine
    /// The machine's registrations with connd.
    var guarded: [GuardMachine.Registration.ID: GuardedFlow] = [:]
    var waiters: [UInt64: CheckedContinuation<Answer, Never>] = [:]
    var lastWaiter: UInt64 = 0
    /// Lists the subflows of a connection of Multipath TCP.
    var listSubflows: SubflowLister?
  }

  /// Lists the established subflows of a connection (``Subflow/list(of:)``).
  package typealias SubflowLister = @Sendable () async -> [Subflow]

  private let hub: GuardHub
  private let breaker: (any GuardBreaker)?
  private let state: Mutex<State>
  private let onAbsence: @Sendable (ConndAbsence) -> Void
  private let onEvent: @Sendable (Report) -> Void
  private let askPeer: @Sendable () -> Void
  /// Whether the guard only asks for the path, and then ends.
  package let onlyAsks: Bool

  /// - Parameters:
  ///   - flow: Includes its own address if the connection is already made.
  ///   - subflows: The subflows of a Multipath TCP connection that is already connected.
  ///   - listSubflows: Lists the subflows again.
  ///   - breaker: Counts the errors of connd.
  ///   - onlyAsks: Whether only ``answer(isRestricted:)`` is of interest.
  ///   - onAbsence: Called when connd is absent, on the thread of the connections to connd or on
  ///     the caller's thread.
  ///   - onEvent: Called on the thread of the connections to connd.
  ///   - askPeer: Asks the peer by ``FlowGuard/Flow/question``, on the thread of `onEvent`.
  package init(
    _ flow: FlowGuard.Flow, by subflows: [Subflow]? = nil,
    listSubflows: SubflowLister? = nil, hub: GuardHub, breaker: (any GuardBreaker)? = nil,
    onlyAsks: Bool = false, onAbsence: @escaping @Sendable (ConndAbsence) -> Void = { _ in },
    onEvent: @escaping @Sendable (Report) -> Void,
    askPeer: @escaping @Sendable () -> Void = {}
  ) {
    let (machine, beginning): (GuardMachine, [GuardMachine.Action])
    if let subflows {
      (machine, beginning) = GuardMachine.begin(flow, by: subflows)
    } else {
      let (first, action) = GuardMachine.begin(flow, onlyAsks: onlyAsks)
      (machine, beginning) = (first, [action])
    }
    self.hub = hub
    self.breaker = breaker
    self.state = Mutex(State(machine: machine, listSubflows: listSubflows))
    self.onlyAsks = onlyAsks
    self.onAbsence = onAbsence
    self.onEvent = onEvent
    self.askPeer = askPeer
    for action in beginning { self.perform(action) }
  }

  /// Guards a connection, unless its breaker is open.
  ///
  /// - Parameters:
  ///   - asksOtherwise: Whether the network must be known even if the connection is not guarded.
  /// - Returns: `nil` if the connection is not guarded and its network need not be known.
  package static func begin(
    _ flow: FlowGuard.Flow, hub: GuardHub, breaker: any GuardBreaker, asksOtherwise: Bool = false,
    onAbsence: @escaping @Sendable (ConndAbsence) -> Void = { _ in },
    onEvent: @escaping @Sendable (Report) -> Void,
    askPeer: @escaping @Sendable () -> Void
  ) -> ConnectionGuard? {
    let guards = breaker.allowsGuarding
    guard guards || asksOtherwise else { return nil }
    return ConnectionGuard(
      flow, hub: hub, breaker: breaker, onlyAsks: !guards, onAbsence: onAbsence, onEvent: onEvent,
      askPeer: askPeer)
  }

  // MARK: - The answer

  /// Returns the first answer of connd, as ``answer(within:)`` does.
  ///
  /// - Parameter isRestricted: Whether ``NetworkAccess`` restricts the networks of the connection.
  package func answer(isRestricted: Bool) async -> Answer {
    await self.answer(within: Self.maxWait(isRestricted: isRestricted))
  }

  /// Returns the first answer of connd. May be called again after a silence.
  package func answer(within maxWait: Duration) async -> Answer {
    let id = self.state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return await withTaskGroup(of: Void.self) { group in
      let answer = await withCheckedContinuation { waiter in
        let answer = self.state.withLock { state in
          if state.machine.answer == nil { state.waiters[id] = waiter }
          return state.machine.answer
        }
        if let answer { return waiter.resume(returning: answer) }
        // If the task is cancelled, the sleep and therefore the wait end immediately.
        group.addTask {
          try? await self.hub.connector.thread.sleep(for: maxWait)
          self.giveUp(id)
        }
      }
      group.cancelAll()
      return answer
    }
  }

  /// How long to wait for connd. Afterwards it is treated as absent (C7), because it runs on this
  /// machine and should be fast. With access rules the wait is longer, because the wrong network
  /// must not be used.
  package static func maxWait(isRestricted: Bool) -> Duration { .seconds(isRestricted ? 5 : 1) }

  /// Ends a wait without an answer.
  private func giveUp(_ id: UInt64) {
    let (waiter, actions) = self.state.withLock { state in
      let waiter = state.waiters.removeValue(forKey: id)
      return (waiter, waiter == nil ? [] : state.machine.handle(.silence))
    }
    for action in actions { self.perform(action) }
    waiter?.resume(returning: .silence)
  }

  // MARK: - Inputs of the owner

  /// Registers the connection again with its own address and port.
  package func connected(local: IPAddress, port: UInt16) {
    self.handle(.connected(local, port: port))
  }

  /// Guards the subflows of a connection of Multipath TCP.
  ///
  /// - Parameters:
  ///   - subflows: The present subflows.
  ///   - list: Lists the subflows again.
  package func connected(by subflows: [Subflow], list: @escaping SubflowLister) {
    self.state.withLock { $0.listSubflows = list }
    self.handle(.subflows(subflows))
  }

  /// Follows the path to the address after a failed attempt, whether the path is allowed or not.
  package func follow() { self.handle(.follow) }

  /// Stops guarding the connection.
  package func end() {
    self.handle(.end)
    // The closure may refer to the channel, and the channel's handler to this guard. Releasing the
    // closure may run other code, so it is released outside the lock.
    let list = self.state.withLock { $0.listSubflows.take() }
    withExtendedLifetime(list) {}
  }

  /// Keeps guarding a connection that connd has given up, as if bound to the link it was made on.
  /// Only the loss of its address or link matters from then on. A connection of Multipath TCP that
  /// was given up with all its subflows still ends with the last of them.
  ///
  /// - Parameters:
  ///   - link: The link of the connection. The default is the link of its last path, or else the
  ///     link that has its address.
  ///   - awaitsReturn: Whether to report the loss of the better path. connd gave the connection up
  ///     because of that path.
  /// - Returns: Whether the connection is guarded. `false` if the link is unknown.
  @discardableResult
  package func keep(on link: String? = nil, awaitsReturn: Bool = false) -> Bool {
    let (known, local) = self.state.withLock { ($0.machine.link, $0.machine.local) }
    guard let link = link ?? known ?? local.flatMap({ linkName(of: $0) }) else { return false }
    self.handle(.keep(on: link, awaitsReturn: awaitsReturn))
    return true
  }

  // MARK: - Actions

  private func handle(_ input: GuardMachine.Input) {
    for action in self.state.withLock({ $0.machine.handle(input) }) { self.perform(action) }
  }

  /// Performs an action, outside the lock: another thread may perform others meanwhile.
  private func perform(_ action: GuardMachine.Action) {
    switch action {
    case .register(let id, let flow, let path):
      let guarded = self.hub.watch(
        flow, madeOn: path,
        GuardHub.Watcher { [weak self] in
          self?.handle(.event($0, of: id))
        } onQuestion: { [weak self] in
          self?.askPeer()
        } onAbsence: { [weak self] in
          self?.handle(.absent($0, of: id))
        })
      // Another thread may have ended the registration. If so, release the flow outside the lock.
      let obsolete = self.state.withLock { state -> GuardedFlow? in
        guard state.machine.listens(to: id) else { return guarded }
        state.guarded[id] = guarded
        return nil
      }
      withExtendedLifetime(obsolete) {}
    case .release(let id):
      let guarded = self.state.withLock { $0.guarded.removeValue(forKey: id) }
      withExtendedLifetime(guarded) {}
    case .report(let event, let phase, let flow):
      let rest = self.breaker?.record(event, of: flow, phase)
      self.onEvent(Report(event: event, phase: phase, flow: flow, rest: rest, source: self))
    case .reportAbsence(let absence): self.onAbsence(absence)
    case .listSubflows(let pause, let number):
      let thread = self.hub.connector.thread
      Task(executorPreference: self.hub.connector.executor) { [weak self] in
        if pause > .zero { try? await thread.sleep(for: pause) }
        // Read after the pause, because the guard may have ended meanwhile.
        guard let list = self?.state.withLock({ $0.listSubflows }) else { return }
        self?.handle(.subflows(await list(), number))
      }
    case .answer(let answer):
      let waiters = self.state.withLock { state in
        defer { state.waiters = [:] }
        return state.waiters
      }
      for waiter in waiters.values { waiter.resume(returning: answer) }
    }
  }
}

extension FlowGuard.Flow {
  /// Creates the flow of a connection with access rules. Returns `nil` for loopback, which needs no
  /// guard.
  ///
  /// - Parameters:
  ///   - remote: `nil` for a Unix socket, which needs no guard either.
  ///   - guardsLoopback: Whether loopback counts as a network.
  package init?(
    to remote: IPAddress?, from local: IPAddress? = nil, _ transport: Transport?, mark: UInt32,
    boundTo link: String?, for access: NetworkAccess, guardsLoopback: Bool
  ) {
    guard let remote, guardsLoopback || !remote.isLoopback else { return nil }
    self.init(
      remote: remote, local: local, transport: transport, mark: mark, interface: link,
      forbidsExpensive: !access.allowsExpensiveAccess,
      forbidsConstrained: !access.allowsConstrainedAccess)
  }
}

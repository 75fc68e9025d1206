internal import Connectivity

/// Decides how one connection is guarded, from before it is made to its end. A state machine that
/// takes inputs and returns the actions to perform.
///
/// Once the connection is made, its flow is registered again with its own address and port, because
/// rules and multipath routes depend on them. The new registration includes the last known path, so
/// connd immediately reports what has changed since. Events of a replaced registration are ignored.
///
/// Implements rules I11 and M6.
package struct GuardMachine: Sendable {
  enum State: Equatable, Sendable {
    /// Only the path to the address is of interest, until it is known.
    case asking(Registration)
    /// The connection is being made.
    case attempt(Registration)
    /// The connection has been made, with its own address.
    case connection(Registration)
    /// connd has given up the flow, but the connection stays in use, bound to its link.
    case kept(Registration, until: Return?)
    /// The connection was kept, and new connections use this link again. The first event shows
    /// whether the kernel also uses the link for the connection's own address.
    case returning(Registration, to: String)
    /// A Multipath TCP connection, of which each subflow is guarded.
    case subflows(Subflows)
    /// The attempt failed. The path to the address is followed, whether it is allowed or not.
    case following(Registration)
    case ended
  }

  /// The path of new connections. It shows when the better path of a kept connection is gone.
  struct Return: Equatable, Sendable {
    var registration: Registration
    /// The link of the kept connection.
    var link: String
    /// The last path of the kept connection that was satisfied.
    var own: KernelPath?

    /// Returns whether new connections use the link and subnet of the kept connection.
    func isOpen(by path: KernelPath?) -> Bool {
      guard let path, path.status == .satisfied, path.interface == self.link else { return false }
      return self.own.map(path.isOfSameSubnet) ?? true
    }
  }

  enum Input: Sendable {
    case event(FlowEvent, of: Registration.ID)
    case absent(ConndAbsence, of: Registration.ID)
    /// The caller stops waiting for the answer.
    case silence
    /// The connection is made, with this address and port.
    case connected(IPAddress, port: UInt16)
    /// The subflows of a Multipath TCP connection that has been made, or the answer to the request
    /// with this number.
    case subflows([Subflow], ListNumber? = nil)
    /// connd has given up the flow, but the connection stays in use, bound to this link.
    ///
    /// `awaitsReturn`: whether to report the loss of the better path.
    case keep(on: String, awaitsReturn: Bool)
    /// The attempt failed.
    case follow
    case end
  }

  enum Action: Equatable, Sendable {
    /// Registers a flow with the path that it was made on, if it is known.
    case register(Registration.ID, FlowGuard.Flow, madeOn: KernelPath?)
    case release(Registration.ID)
    case report(FlowEvent, EventPhase, FlowGuard.Flow)
    case reportAbsence(ConndAbsence)
    /// Reads the list of subflows again, after a pause. The answer must contain the number.
    case listSubflows(after: Duration, ListNumber)
    /// The first answer, for all callers that wait for it.
    case answer(Answer)
  }

  private enum Answering: Sendable {
    case awaited
    /// The attempt to connect has continued without an answer.
    case late
    case given(Answer)
  }

  var state: State
  private var answering = Answering.awaited
  private var lastID: Registration.ID = 1
  /// The link that the application has bound the connection to.
  let boundTo: String?
  /// The link of the connection's last path that had one.
  var link: String?
  /// Whether subflows of the connection were ever guarded.
  var isMultipath = false
  /// The number of the last request for a list of subflows.
  var lastList: ListNumber = 0

  private init(_ state: State, boundTo link: String?) {
    (self.state, self.boundTo, self.link) = (state, link, link)
  }

  /// Returns the machine for a connection, and its first action.
  ///
  /// - Parameters:
  ///   - flow: Includes its own address if the connection is already made.
  ///   - onlyAsks: Whether only the path is of interest.
  static func begin(_ flow: FlowGuard.Flow, onlyAsks: Bool = false) -> (Self, Action) {
    let first = Registration(id: 1, flow: flow)
    let state: State =
      onlyAsks ? .asking(first) : flow.local == nil ? .attempt(first) : .connection(first)
    return (Self(state, boundTo: flow.interface), .register(1, flow, madeOn: nil))
  }

  /// Returns the machine for a connection of Multipath TCP that is already connected, and its first
  /// actions.
  static func begin(_ flow: FlowGuard.Flow, by subflows: [Subflow]) -> (Self, [Action]) {
    var machine = Self(.ended, boundTo: flow.interface)
    let actions = machine.begin(flow, subflows)
    return (machine, actions)
  }

  /// connd's first answer, or `nil` before it.
  var answer: Answer? { if case .given(let answer) = self.answering { answer } else { nil } }

  /// The connection's own address, or the one that connd assumes.
  var local: IPAddress? { self.registration?.address }

  /// The registration of the connection, or of the path to its address.
  private var registration: Registration? {
    switch self.state {
    case .asking(let own), .attempt(let own), .connection(let own), .kept(let own, _),
      .returning(let own, _), .following(let own):
      own
    case .subflows(let subflows): subflows.guarded.first?.registration
    case .ended: nil
    }
  }

  var pathBack: Return? { if case .kept(_, let back) = self.state { back } else { nil } }

  /// Returns whether events of this registration matter.
  func listens(to id: Registration.ID) -> Bool {
    if case .subflows(let subflows) = self.state { return subflows.listens(to: id) }
    return id == self.registration?.id || id == self.pathBack?.registration.id
  }

  mutating func handle(_ input: Input) -> [Action] {
    switch input {
    case .event(let event, let id): self.received(event, id)
    case .absent(let absence, let id): self.absent(absence, id)
    case .silence: self.silence()
    case .connected(let local, let port): self.connected(local, port)
    case .subflows(let list, let number): self.listed(list, number)
    case .keep(let link, let awaitsReturn): self.keep(on: link, awaitsReturn: awaitsReturn)
    case .follow: self.follow()
    case .end: self.end()
    }
  }

  // MARK: - Reports of connd

  private mutating func received(_ event: FlowEvent, _ id: Registration.ID) -> [Action] {
    if case .kept(let own, let back?) = self.state, back.registration.id == id {
      return self.received(event, own, back)
    }
    if case .subflows(let subflows) = self.state { return self.received(event, id, subflows) }
    guard var own = self.registration, own.id == id else { return [] }
    let (phase, isFirst) = (self.phase(of: event, own), own.progress == .unreported)
    if case .connection = self.state {
      own.note(event, isNew: true)
    } else {
      own.note(event)
    }
    var actions = [Action.report(event, phase, own.flow)]
    switch self.state {
    case .asking:
      guard let answer = Answer(event) else { return [] }
      self.state = .ended
      return self.give(answer) + [.release(id)]
    case .attempt: self.state = .attempt(own)
    case .connection: self.state = .connection(own)
    case .kept(_, let back):
      let isOver = own.progress == .destroyed
      self.state = .kept(own, until: isOver ? nil : back)
      if isOver, let back { actions.append(.release(back.registration.id)) }
    case .returning(_, let link):
      guard let path = event.ownPath else {
        self.state = .connection(own)
        break
      }
      // The kernel uses another link for the own address, so a better path still exists.
      guard path.interface == link else { return self.keep(on: link, awaitsReturn: false) }
      self.state = .connection(own)
      actions = [.report(.betterPathGone(path), phase, own.flow)]
    case .following:
      self.state = .following(own)
      // If a dead path were registered again immediately, the verdict would repeat forever.
      if own.progress == .destroyed, !isFirst { actions += self.registerPath() }
    case .subflows, .ended: return []
    }
    self.link = event.ownPath?.interface ?? self.link
    return actions + (Answer(event).map { self.give($0) } ?? [])
  }

  /// Returns the meaning of an event for the owner of the connection.
  private func phase(of event: FlowEvent, _ own: Registration) -> EventPhase {
    if own.progress == .doubted, event.settlesDoubt { return .outcome }
    guard own.progress == .unreported else { return .change }
    switch self.state {
    case .attempt: if case .awaited = self.answering { return .answer } else { return .verdict }
    case .connection: return .verdict
    case .kept: return .again
    case .following: return self.answer == nil ? .again : .change
    case .asking, .returning, .subflows, .ended: return .change
    }
  }

  /// Handles an event about the path of new connections while the guarded connection is kept.
  private mutating func received(
    _ event: FlowEvent, _ own: Registration, _ back: Return
  ) -> [Action] {
    var back = back
    let isFirst = back.registration.progress == .unreported
    back.registration.note(event)
    if back.isOpen(by: event.path), let path = event.path {
      // A routing rule may still select another link for this connection.
      let next = self.next(own.flow, boundTo: self.boundTo)
      self.state = .returning(next, to: back.link)
      return [
        // The path may have changed again by now.
        .register(next.id, next.flow, madeOn: path.source == next.flow.local ? path : nil),
        .release(own.id), .release(back.registration.id),
      ]
    }
    guard event.destroys, !isFirst else {
      self.state = .kept(own, until: back)
      return []
    }
    let former = back.registration.id
    back.registration = self.next(back.registration.flow, boundTo: self.boundTo)
    self.state = .kept(own, until: back)
    return [
      .register(back.registration.id, back.registration.flow, madeOn: nil), .release(former),
    ]
  }

  private mutating func absent(_ absence: ConndAbsence, _ id: Registration.ID) -> [Action] {
    guard let own = self.registration, own.id == id else { return [] }
    guard case .asking = self.state else {
      return [.reportAbsence(absence)] + self.give(.unguarded)
    }
    self.state = .ended
    return self.give(.unguarded) + [.release(id)]
  }

  mutating func give(_ answer: Answer) -> [Action] {
    if self.answer != nil { return [] }
    self.answering = .given(answer)
    return [.answer(answer)]
  }

  // MARK: - Inputs of the owner

  private mutating func silence() -> [Action] {
    if self.answer == nil { self.answering = .late }
    guard case .asking(let own) = self.state else { return [] }
    self.state = .ended
    return [.release(own.id)]
  }

  private mutating func connected(_ local: IPAddress, _ port: UInt16) -> [Action] {
    // A loopback connection does not depend on a network. Registering it again would only interrupt
    // the guard.
    if local.isLoopback { return [] }
    switch self.state {
    case .attempt(let own), .connection(let own), .kept(let own, _), .returning(let own, _):
      var next = self.next(own.flow, boundTo: own.flow.interface)
      next.flow.local = local
      next.flow.transport?.localPort = port
      // A connection that is kept before it is made stays kept.
      self.state =
        if case .kept(_, let back) = self.state { .kept(next, until: back) } else {
          .connection(next)
        }
      // If the connection has the path's source address, it was made on that path: on a changed
      // path, it would usually have another address.
      let path = own.path?.source == local ? own.path : nil
      return [.register(next.id, next.flow, madeOn: path), .release(own.id)]
    case .asking, .subflows, .following, .ended: return []
    }
  }

  private mutating func keep(on link: String, awaitsReturn: Bool) -> [Action] {
    switch self.state {
    case .attempt(let own), .connection(let own), .kept(let own, _), .returning(let own, _):
      let former = self.pathBack
      var next = self.next(own.flow, boundTo: link)
      next.flow.local = own.address
      next.flow.allowsAll()
      var actions = [Action.register(next.id, next.flow, madeOn: nil)]
      var back: Return?
      if awaitsReturn {
        let registration = self.next(next.flow.ofNewConnection, boundTo: self.boundTo)
        back = Return(registration: registration, link: link, own: own.path)
        actions.append(.register(registration.id, registration.flow, madeOn: nil))
      }
      self.state = .kept(next, until: back)
      actions.append(.release(own.id))
      return actions + (former.map { [.release($0.registration.id)] } ?? [])
    case .subflows(let subflows): return self.keep(subflows)
    case .asking, .following, .ended: return []
    }
  }

  private mutating func follow() -> [Action] {
    switch self.state {
    case .attempt(var own), .connection(var own):
      // The failed attempt has proved nothing about connd.
      if own.progress == .doubted { own.progress = .reported }
      self.state = .following(own)
      return own.progress == .destroyed ? self.registerPath() : []
    case .subflows(let subflows):
      let former = subflows.guarded.map { Action.release($0.registration.id) }
      return self.registerPath(of: subflows.flow) + former
    case .kept, .returning:
      // The flow is bound to the link of the failed attempt.
      let back = self.pathBack
      return self.registerPath() + (back.map { [.release($0.registration.id)] } ?? [])
    case .asking, .following, .ended: return []
    }
  }

  /// Registers the path that a new connection would use, instead of the flow.
  private mutating func registerPath() -> [Action] {
    guard let own = self.registration else { return [] }
    return self.registerPath(of: own.flow) + [.release(own.id)]
  }

  private mutating func registerPath(of flow: FlowGuard.Flow) -> [Action] {
    var next = self.next(flow.ofNewConnection, boundTo: self.boundTo)
    next.flow.allowsAll()
    self.state = .following(next)
    return [.register(next.id, next.flow, madeOn: nil)]
  }

  private mutating func end() -> [Action] {
    var ids = [self.registration?.id, self.pathBack?.registration.id].compactMap { $0 }
    if case .subflows(let subflows) = self.state { ids = subflows.guarded.map(\.registration.id) }
    self.state = .ended
    return ids.map { .release($0) } + self.give(.unguarded)
  }

  mutating func next(_ flow: FlowGuard.Flow, boundTo link: String?) -> Registration {
    self.lastID += 1
    var flow = flow
    flow.interface = link
    return Registration(id: self.lastID, flow: flow)
  }
}

extension FlowGuard.Flow {
  /// Removes the cost rules, so that the flow is not given up because of the path's cost.
  mutating func allowsAll() {
    (self.forbidsExpensive, self.forbidsConstrained) = (false, false)
  }

  /// The flow of a new connection to the same destination.
  fileprivate var ofNewConnection: Self {
    var flow = self
    flow.local = nil
    flow.transport?.localPort = 0
    return flow
  }
}

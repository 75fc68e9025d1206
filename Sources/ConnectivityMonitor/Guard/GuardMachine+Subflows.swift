internal import Connectivity

/// The guarding of a Multipath TCP connection, which ends with its last subflow.
///
/// Implements rule M6.
extension GuardMachine {
  /// The subflows of one connection.
  struct Subflows: Equatable, Sendable {
    struct Guarded: Equatable, Sendable {
      let subflow: Subflow
      var registration: Registration
      /// The last reported path, whether it is satisfied or not.
      var path: KernelPath?
      /// Whether connd has reported since that path that the subflow may be dead.
      var isInDoubt = false

      /// Whether the subflow's packets leave by the link that has its address.
      var stands: Bool {
        guard !self.isInDoubt, let path, path.status == .satisfied else { return false }
        return self.subflow.isBound || path.interface == self.subflow.link ?? path.interface
      }

      /// Whether the kernel sends the packets of an unbound subflow on another link, with the wrong
      /// address.
      var isElsewhere: Bool { self.path?.status == .satisfied && !self.isInDoubt && !self.stands }

      mutating func note(_ event: FlowEvent) {
        self.registration.note(event)
        if let path = event.ownPath { (self.path, self.isInDoubt) = (path, false) }
        if event.doubtsSubflow { self.isInDoubt = true }
      }
    }

    /// The search for another subflow, from the loss of the last subflow until another one works.
    struct Search: Equatable, Sendable {
      /// connd's report about the loss of the last subflow.
      var event: FlowEvent
      var lost: Guarded
      /// The number of the awaited list, or `nil` after the last list.
      var list: ListNumber?
      /// Whether the awaited list is the last one, at the end of the grace period.
      var isLast = false
    }

    /// The flow of the connection, before its addresses were known.
    var flow: FlowGuard.Flow
    /// The guarded subflows, oldest first.
    var guarded: [Guarded] = []
    var search: Search?
    /// The last reported path of the connection, or `nil` after it was reported to be in doubt.
    var path: KernelPath?
    /// Whether the connection has ever had a working subflow. Otherwise the end is a verdict about
    /// a connection that has just been made (I11).
    var hasStood = false
    /// Whether the connection was given up with all its subflows. Its owner may keep it.
    var isGivenUp = false

    func listens(to id: Registration.ID) -> Bool {
      self.guarded.contains { $0.registration.id == id }
    }

    /// The first subflow that works. If none works, the first that is not in doubt, or `nil` if
    /// all are in doubt.
    var current: Guarded? {
      self.guarded.first(where: \.stands) ?? self.guarded.first { !$0.isInDoubt }
    }
  }

  typealias ListNumber = UInt64

  /// How long the kernel may take to make a subflow, after connecting or after the loss of the last
  /// subflow. In the latter case, another program may have to add an endpoint first.
  static let subflowGrace = Duration.seconds(1)

  // MARK: - The list

  /// Handles a list of established subflows.
  ///
  /// - Parameter number: The number of the request, or `nil` for the first list.
  mutating func listed(_ list: [Subflow], _ number: ListNumber?) -> [Action] {
    switch self.state {
    case .attempt(let own), .connection(let own), .kept(let own, _), .returning(let own, _):
      // A list may arrive after the connection was given up.
      if self.isMultipath || list.contains(where: \.local.isLoopback) { return [] }
      let former = [own.id, self.pathBack?.registration.id].compactMap { $0 }
      return self.begin(own.flow, list, madeOn: own.path) + former.map { .release($0) }
    case .subflows(var subflows):
      if subflows.isGivenUp { return [] }
      guard let search = subflows.search else { return self.update(&subflows, list) }
      // A list that was requested earlier must not end the grace period.
      guard search.list == number else { return [] }
      return search.isLast
        ? self.endSearch(subflows, search, list) : self.search(&subflows, search, list)
    case .asking, .following, .ended: return []
    }
  }

  private mutating func list(after pause: Duration = .zero) -> (ListNumber, Action) {
    self.lastList += 1
    return (self.lastList, .listSubflows(after: pause, self.lastList))
  }

  /// Begins to guard the subflows. The kernel makes further ones shortly after the first.
  mutating func begin(
    _ flow: FlowGuard.Flow, _ list: [Subflow], madeOn path: KernelPath? = nil
  ) -> [Action] {
    self.isMultipath = true
    // A question to the peer would use an arbitrary subflow.
    var flow = flow
    flow.question = .none
    var subflows = Subflows(flow: flow, path: path)
    let actions = self.register(list, in: &subflows, madeOn: path)
    self.state = .subflows(subflows)
    return actions + [self.list(after: Self.subflowGrace).1]
  }

  /// Guards new subflows in the list, and releases missing ones, which the kernel has closed.
  private mutating func update(_ subflows: inout Subflows, _ list: [Subflow]) -> [Action] {
    // Without subflows the connection is closing. Its owner learns that from the socket.
    if list.isEmpty { return [] }
    let closed = subflows.guarded.filter { one in !list.contains { one.subflow.isSame(as: $0) } }
    subflows.guarded.removeAll { one in !list.contains { one.subflow.isSame(as: $0) } }
    let actions = self.register(list, in: &subflows) + self.tell(&subflows, .change)
    self.state = .subflows(subflows)
    return actions + closed.map { .release($0.registration.id) }
  }

  /// Registers the subflows that are not guarded yet.
  private mutating func register(
    _ list: [Subflow], in subflows: inout Subflows, madeOn path: KernelPath? = nil
  ) -> [Action] {
    let new = list.filter { listed in
      !subflows.guarded.contains { $0.subflow.isSame(as: listed) }
    }
    return new.map { subflow in
      var flow = subflows.flow
      (flow.remote, flow.local) = (subflow.remote, subflow.local)
      flow.transport?.localPort = subflow.localPort
      flow.transport?.remotePort = subflow.remotePort
      let registration = self.next(flow, boundTo: subflow.isBound ? subflow.link : self.boundTo)
      subflows.guarded.append(Subflows.Guarded(subflow: subflow, registration: registration))
      let isSame = !subflow.isBound && path?.source == subflow.local
      return .register(registration.id, registration.flow, madeOn: isSame ? path : nil)
    }
  }

  // MARK: - The search

  /// Guards the subflows of the first list except the lost one, and requests the last list.
  private mutating func search(
    _ subflows: inout Subflows, _ search: Subflows.Search, _ list: [Subflow]
  ) -> [Action] {
    let found = list.filter { !$0.isSame(as: search.lost.subflow) }
    let actions = self.register(found, in: &subflows)
    let (number, request) = self.list(after: Self.subflowGrace)
    subflows.search = .init(event: search.event, lost: search.lost, list: number, isLast: true)
    self.state = .subflows(subflows)
    return actions + [request]
  }

  /// Guards the subflows of the last list, including the lost one, which may have recovered. Gives
  /// the connection up if no subflow is left, or if connd's answers show that none works.
  private mutating func endSearch(
    _ known: Subflows, _ search: Subflows.Search, _ list: [Subflow]
  ) -> [Action] {
    var subflows = known
    subflows.search?.list = nil
    let over = subflows.guarded.filter { $0.registration.progress != .unreported }
    subflows.guarded.removeAll { $0.registration.progress != .unreported }
    let found = list.filter { listed in !over.contains { $0.subflow.isSame(as: listed) } }
    let actions = self.register(found, in: &subflows) + over.map { .release($0.registration.id) }
    if subflows.guarded.isEmpty { return actions + self.giveUp(search) }
    self.state = .subflows(subflows)
    return actions
  }

  /// Reports the end of the connection. Its owner may keep the last subflow.
  private mutating func giveUp(_ search: Subflows.Search) -> [Action] {
    guard case .subflows(let subflows) = self.state else { return [] }
    let (lost, event) = (search.lost, search.event)
    self.state = .connection(lost.registration)
    self.link = lost.subflow.link ?? lost.path?.interface ?? self.link
    return [.report(event, subflows.hasStood ? .change : .outcome, lost.registration.flow)]
      + (Answer(event).map { self.give($0) } ?? [])
  }

  // MARK: - Reports of connd

  /// Handles a report about a subflow, and requests a list, because the same change may have made
  /// or closed other subflows.
  mutating func received(
    _ event: FlowEvent, _ id: Registration.ID, _ known: Subflows
  ) -> [Action] {
    var subflows = known
    guard !subflows.isGivenUp,
      let index = subflows.guarded.firstIndex(where: { $0.registration.id == id })
    else { return [] }
    subflows.guarded[index].note(event)
    let one = subflows.guarded[index]
    if event.concernsAllSubflows { return self.received(event, one, ofAll: subflows) }
    let isOver =
      subflows.search.map { one.isElsewhere || $0.list == nil && !one.stands } ?? false
    if event.isLast || isOver {
      subflows.guarded.remove(at: index)
      return self.lost(one, event, &subflows)
    }
    if one.stands { subflows.search = nil }
    let phase = subflows.hasStood ? EventPhase.change : .verdict
    subflows.hasStood = subflows.hasStood || one.stands
    var actions: [Action] = []
    if event.doubtsSubflow, subflows.search == nil, subflows.current == nil {
      subflows.path = nil
      actions = [.report(event, phase, one.registration.flow)]
    } else {
      actions = self.tell(&subflows, phase)
    }
    if subflows.search == nil { actions.append(self.list().1) }
    self.state = .subflows(subflows)
    return actions
  }

  /// Handles a report about a sleep or a forbidden cost, which concerns all subflows.
  private mutating func received(
    _ event: FlowEvent, _ one: Subflows.Guarded, ofAll known: Subflows
  ) -> [Action] {
    var subflows = known
    subflows.isGivenUp = event.destroys
    self.state = .subflows(subflows)
    let phase: EventPhase =
      subflows.hasStood ? .change : event.destroys ? .outcome : .verdict
    let report = Action.report(event, phase, one.registration.flow)
    guard let answer = Answer(event) else { return [report, self.list().1] }
    return [report] + self.give(answer)
  }

  /// Guards all subflows of a connection that was given up but that its owner keeps.
  mutating func keep(_ known: Subflows) -> [Action] {
    guard known.isGivenUp else { return [] }
    var subflows = Subflows(flow: known.flow, path: known.path, hasStood: known.hasStood)
    subflows.flow.allowsAll()
    let actions = self.register(known.guarded.map(\.subflow), in: &subflows)
    let request = self.list().1
    self.state = .subflows(subflows)
    return actions + known.guarded.map { .release($0.registration.id) } + [request]
  }

  private mutating func lost(
    _ one: Subflows.Guarded, _ event: FlowEvent, _ subflows: inout Subflows
  ) -> [Action] {
    var actions = [Action.release(one.registration.id)]
    defer { if case .subflows = self.state { self.state = .subflows(subflows) } }
    if let search = subflows.search {
      if search.list == nil, subflows.guarded.isEmpty { actions += self.giveUp(search) }
    } else if subflows.guarded.isEmpty {
      let (number, request) = self.list()
      subflows.search = Subflows.Search(event: event, lost: one, list: number)
      actions.append(request)
    } else {
      actions += self.tell(&subflows, .change)
    }
    return actions
  }

  /// Reports the path of the connection, if it is new.
  private mutating func tell(_ subflows: inout Subflows, _ phase: EventPhase) -> [Action] {
    guard let current = subflows.current, let path = current.path,
      path != subflows.path || phase == .verdict
    else { return [] }
    subflows.path = path
    self.link = path.interface ?? self.link
    return [.report(.path(path), phase, current.registration.flow)] + self.give(.path(path))
  }
}

extension FlowEvent {
  /// Whether the event means that a subflow may be dead. A better path does not mean that.
  fileprivate var doubtsSubflow: Bool {
    guard let invalidation, !self.destroys else { return false }
    return invalidation.reason != .betterPath && !self.concernsAllSubflows
  }

  /// Whether the event concerns all subflows of a connection: a sleep, or a forbidden cost, because
  /// the kernel sends on each subflow.
  fileprivate var concernsAllSubflows: Bool {
    [.resumed, .policy].contains(self.invalidation?.reason)
  }
}

internal import Connectivity

/// A connection of Multipath TCP ends with its last subflow.
///
/// Implements rule M6.
extension GuardMachine {
  /// The subflows of one connection.
  struct Subflows: Equatable, Sendable {
    struct Guarded: Equatable, Sendable {
      let subflow: Subflow
      var registration: Registration
      /// The last reported path, whether it carries traffic or not.
      var path: KernelPath?

      /// Whether the subflow's packets leave by the link that has its address.
      var stands: Bool {
        guard let path, path.status == .satisfied else { return false }
        return self.subflow.isBound || path.interface == self.subflow.link ?? path.interface
      }
    }

    /// The search for another subflow, from the loss of the last one until one stands.
    struct Search: Equatable, Sendable {
      /// connd's report about the last one.
      var event: FlowEvent
      var lost: Guarded
      /// Whether the grace period has ended.
      var isLast = false
    }

    /// The flow of the connection, before its addresses were known.
    let flow: FlowGuard.Flow
    /// Oldest first.
    var guarded: [Guarded] = []
    var search: Search?
    /// The last reported path of the connection.
    var path: KernelPath?
    /// Whether any subflow ever stood. Otherwise the end is a verdict about a connection that has
    /// just been made (I11).
    var hasStood = false

    func listens(to id: Registration.ID) -> Bool {
      self.guarded.contains { $0.registration.id == id }
    }

    /// The path of the first subflow that stands, or else of the first.
    var currentPath: KernelPath? {
      (self.guarded.first(where: \.stands) ?? self.guarded.first)?.path
    }
  }

  /// How long the kernel may take to make a subflow: after the connection was made, and after the
  /// last subflow was lost. Then it needs an endpoint, which another program may have to add first.
  static let subflowGrace = Duration.seconds(1)

  // MARK: - The list

  /// Handles the list of established subflows.
  mutating func listed(_ list: [Subflow]) -> [Action] {
    switch self.state {
    case .attempt(let own), .connection(let own), .kept(let own, _), .returning(let own, _):
      // A list may arrive after the connection was given up.
      if self.isMultipath || list.contains(where: \.local.isLoopback) { return [] }
      let former = [own.id, self.wayBack?.registration.id].compactMap { $0 }
      return self.begin(own.flow, list, madeOn: own.path) + former.map { .release($0) }
    case .subflows(var subflows):
      guard let search = subflows.search else { return self.update(&subflows, list) }
      // connd is still judging the ones found.
      if !subflows.guarded.isEmpty { return [] }
      // The one that was just lost may have recovered at the end of the grace period.
      let found = list.filter { search.isLast || !$0.isSame(as: search.lost.subflow) }
      if found.isEmpty { return self.searchOn(subflows, search) }
      defer { self.state = .subflows(subflows) }
      return self.register(found, in: &subflows)
    case .asking, .following, .ended: return []
    }
  }

  /// Begins to guard the subflows. The kernel makes further ones shortly after the first.
  mutating func begin(
    _ flow: FlowGuard.Flow, _ list: [Subflow], madeOn path: KernelPath? = nil
  ) -> [Action] {
    self.isMultipath = true
    var subflows = Subflows(flow: flow, path: path)
    let actions = self.register(list, in: &subflows, madeOn: path)
    self.state = .subflows(subflows)
    return actions + [.listSubflows(after: Self.subflowGrace)]
  }

  /// Guards the new ones of the list. The kernel has closed the missing ones.
  private mutating func update(_ subflows: inout Subflows, _ list: [Subflow]) -> [Action] {
    // Without any, the connection is closing, which its owner learns from the socket.
    if list.isEmpty { return [] }
    let closed = subflows.guarded.filter { one in !list.contains { one.subflow.isSame(as: $0) } }
    subflows.guarded.removeAll { one in !list.contains { one.subflow.isSame(as: $0) } }
    let new = list.filter { listed in
      !subflows.guarded.contains { $0.subflow.isSame(as: listed) }
    }
    let actions = self.register(new, in: &subflows)
    self.state = .subflows(subflows)
    return actions + closed.map { .release($0.registration.id) }
  }

  private mutating func register(
    _ list: [Subflow], in subflows: inout Subflows, madeOn path: KernelPath? = nil
  ) -> [Action] {
    list.map { subflow in
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

  /// Looks again at the end of the grace period, or gives the connection up.
  private mutating func searchOn(
    _ subflows: Subflows, _ search: Subflows.Search
  ) -> [Action] {
    guard search.isLast else {
      var subflows = subflows
      subflows.search?.isLast = true
      self.state = .subflows(subflows)
      return [.listSubflows(after: Self.subflowGrace)]
    }
    return self.giveUp(search.lost, search.event, subflows)
  }

  /// Reports the end of the connection. Its owner may keep the last subflow.
  private mutating func giveUp(
    _ lost: Subflows.Guarded, _ event: FlowEvent, _ subflows: Subflows
  ) -> [Action] {
    self.state = .connection(lost.registration)
    let others = subflows.guarded.filter { $0.registration.id != lost.registration.id }
    return [.report(event, subflows.hasStood ? .change : .outcome, lost.registration.flow)]
      + others.map { .release($0.registration.id) } + (Answer(event).map { self.give($0) } ?? [])
  }

  // MARK: - Reports of connd

  /// Handles a report about a subflow. Each may be due to a change that also makes or ends others.
  mutating func received(
    _ event: FlowEvent, _ id: Registration.ID, _ known: Subflows
  ) -> [Action] {
    var subflows = known
    guard let index = subflows.guarded.firstIndex(where: { $0.registration.id == id }) else {
      return []
    }
    subflows.guarded[index].registration.note(event)
    if let path = event.ownPath { subflows.guarded[index].path = path }
    let one = subflows.guarded[index]
    // A sleep concerns all subflows. A forbidden cost does, too: the kernel sends on each of them.
    if event.destroys, [.resumed, .policy].contains(event.invalidation?.reason) {
      return self.giveUp(one, event, subflows)
    }
    // The kernel sends the packets of an unbound subflow on another link, with the wrong address.
    let isElsewhere = subflows.search != nil && one.path?.status == .satisfied && !one.stands
    if event.isLast || isElsewhere {
      subflows.guarded.remove(at: index)
      return self.lost(one, event, &subflows)
    }
    if one.stands { subflows.search = nil }
    let phase = subflows.hasStood ? EventPhase.change : .verdict
    subflows.hasStood = subflows.hasStood || one.stands
    var actions = self.tell(&subflows, phase)
    self.state = .subflows(subflows)
    if subflows.search == nil { actions.append(.listSubflows(after: .zero)) }
    return actions
  }

  private mutating func lost(
    _ one: Subflows.Guarded, _ event: FlowEvent, _ subflows: inout Subflows
  ) -> [Action] {
    let release = Action.release(one.registration.id)
    if !subflows.guarded.isEmpty {
      let actions = self.tell(&subflows, .change)
      self.state = .subflows(subflows)
      return [release] + actions
    }
    if let search = subflows.search { return [release] + self.searchOn(subflows, search) }
    subflows.search = Subflows.Search(event: event, lost: one)
    self.state = .subflows(subflows)
    return [release, .listSubflows(after: .zero)]
  }

  /// Reports the path of the connection, if it is new.
  private mutating func tell(_ subflows: inout Subflows, _ phase: EventPhase) -> [Action] {
    guard let path = subflows.currentPath, let first = subflows.guarded.first,
      path != subflows.path || phase == .verdict
    else { return [] }
    subflows.path = path
    self.link = path.interface ?? self.link
    return [.report(.path(path), phase, first.registration.flow)] + self.give(.path(path))
  }
}

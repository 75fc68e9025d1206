import Connectivity
import ConnectivityRules

/// The schedule for querying the sockets of flows that a change touches (E2). The query follows one
/// second after a change that may have cost a path. Does no I/O.
///
/// Implements rule E3.
struct SocketInquiry {
  /// The first and the last change since the last inquiry began.
  private var changes: (first: Instant, last: Instant)?
  /// The links, addresses and routes that these changes name.
  private var scope = ChangeScope()
  /// The cause of the last change.
  private(set) var cause = ChangeCause(.start, "started")
  /// The flows that the current inquiry still has to query. The next flow is the last element.
  private var flows: [FlowTable.Key] = []
  /// The changes that the current inquiry is about.
  private var change = Change()

  /// The changes that an inquiry is about.
  struct Change {
    /// When the last of the changes happened.
    var time = Instant(sinceStart: .zero)
    var scope = ChangeScope()
    /// Whether no further inquiry covers the last of these changes.
    var isOver = true
  }

  var isRunning: Bool { !self.flows.isEmpty }

  /// When the next inquiry begins, or `nil` if none is needed.
  var deadline: Instant? { self.changes?.first.advanced(by: SocketEvidence.firstQuestion) }

  mutating func note(_ trigger: ReadTrigger, at time: Instant) {
    let scope = ChangeScope(trigger)
    guard !scope.isEmpty else { return }
    self.scope.add(scope)
    self.cause = trigger.firstCause
    self.changes = (self.changes?.first ?? time, time)
  }

  /// Begins the inquiry if it is due.
  mutating func begin(with flows: [GuardedFlow], at now: Instant) {
    guard let deadline, deadline <= now, !self.isRunning, let changes else { return }
    // Flows that a later change has affected are also queried one second after that change.
    let isOver = changes.last.advanced(by: SocketEvidence.firstQuestion) <= now
    self.change = Change(time: changes.last, scope: self.scope, isOver: isOver)
    self.flows = flows.reversed().map(\.key)
    self.changes = isOver ? nil : (changes.last, changes.last)
    if isOver { self.scope = ChangeScope() }
  }

  /// Removes and returns the next flows to query.
  mutating func take(_ count: Int) -> (flows: [FlowTable.Key], change: Change) {
    let taken = Array(self.flows.suffix(count).reversed())
    self.flows.removeLast(taken.count)
    return (taken, self.change)
  }
}

extension GuardedFlow {
  /// Whether a change touches the flow: the change names something that the flow uses, or the
  /// flow's path has moved since the last inquiry. Any change touches a flow if its real path is
  /// unknown: the socket has refuted the lookup (E1), the lookup is not proof (E0), or the flow's
  /// address is on another link.
  func takeIsTouched(by change: SocketInquiry.Change, isProof: () -> Bool) -> Bool {
    defer { if change.isOver { self.hasMoved = false } }
    guard self.flow.namesSocket, self.machine.isTrusted else { return false }
    return self.hasMoved || self.machine.isSpared || self.machine.isSourceForeign
      || change.scope.touches(self.tracker.question, on: [self.reported, self.tracker.path])
      || !isProof()
  }
}

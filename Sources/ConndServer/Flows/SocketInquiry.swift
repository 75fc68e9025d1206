import Connectivity
import ConnectivityRules

/// Schedules the query of sockets one second after a change that may have cost a path, for the
/// flows that the change touches (E2). A value without I/O. Without a change it has no deadline.
///
/// Implements rule E3.
struct SocketInquiry {
  /// The first and the last change since the last inquiry began.
  private var changes: (first: Instant, last: Instant)?
  /// The links, addresses and routes that these changes name.
  private var scope = ChangeScope()
  /// The cause of the last change.
  private(set) var cause = ChangeCause(.start, "started")
  /// The flows that the current inquiry still has to query, the next one last.
  private var flows: [FlowTable.Key] = []
  /// The change that the current inquiry is about.
  private var change = Instant(sinceStart: .zero)

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
    self.change = changes.last
    self.flows = flows.reversed().filter { $0.takeIsTouched(by: self.scope) }.map(\.key)
    // Flows that a later change has hurt are also queried one second after that change.
    let isOver = changes.last.advanced(by: SocketEvidence.firstQuestion) <= now
    self.changes = isOver ? nil : (changes.last, changes.last)
    if isOver { self.scope = ChangeScope() }
  }

  /// Removes and returns the next flows to query.
  mutating func take(_ count: Int) -> (flows: [FlowTable.Key], change: Instant) {
    let taken = Array(self.flows.suffix(count).reversed())
    self.flows.removeLast(taken.count)
    return (taken, self.change)
  }
}

extension GuardedFlow {
  /// Whether a change touches the flow: it names what the flow uses, or the flow's path has moved
  /// since the last inquiry. If the socket has refuted the lookup, the flow's real path is unknown,
  /// and any change may touch it.
  fileprivate func takeIsTouched(by scope: ChangeScope) -> Bool {
    defer { self.hasMoved = false }
    guard self.tracker.flow.namesSocket else { return false }
    return self.hasMoved || self.examination.isSpared
      || scope.touches(self.tracker.question, on: [self.told, self.tracker.path])
  }
}

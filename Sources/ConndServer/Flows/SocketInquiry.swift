import Connectivity
import ConnectivityRules

/// Schedules the query of all flows' sockets, one second after a change that may have cost a path
/// (E2). A value without I/O. Without a change it has no deadline.
///
/// Implements rule E3.
struct SocketInquiry {
  /// The first and the last change since the last inquiry began.
  private var changes: (first: Instant, last: Instant)?
  /// The cause of the last change.
  private(set) var cause = ChangeCause(.start, "started")
  /// The flows that the current inquiry still has to query, the next one last.
  private var flows: [FlowTable.Key] = []
  /// The change that the current inquiry is about.
  private var change = Instant(sinceStart: .zero)

  var isRunning: Bool { !self.flows.isEmpty }

  /// When the next inquiry begins, or `nil` if none is needed.
  var deadline: Instant? { self.changes?.first.advanced(by: SocketEvidence.firstQuestion) }

  mutating func note(_ cause: ChangeCause, at time: Instant) {
    self.cause = cause
    self.changes = (self.changes?.first ?? time, time)
  }

  /// Begins the inquiry if it is due.
  mutating func begin(with flows: some Sequence<FlowTable.Key>, at now: Instant) {
    guard let deadline, deadline <= now, !self.isRunning, let changes else { return }
    self.change = changes.last
    self.flows = flows.reversed()
    // Flows that a later change has hurt are also queried one second after that change.
    self.changes =
      changes.last.advanced(by: SocketEvidence.firstQuestion) > now
      ? (changes.last, changes.last) : nil
  }

  /// Removes and returns the next flows to query.
  mutating func take(_ count: Int) -> (flows: [FlowTable.Key], change: Instant) {
    let taken = Array(self.flows.suffix(count).reversed())
    self.flows.removeLast(taken.count)
    return (taken, self.change)
  }
}

extension ReadTrigger {
  /// Whether a connection may have lost its path, even if its lookup still succeeds.
  var mayCostPath: Bool {
    switch self {
    case .events(let events): events.contains(where: \.mayCostPath)
    case .resumed, .kernelBack: true
    case .start, .configuration, .timer, .expiry, .kernelLost, .modem, .override, .metering,
      .validation, .quality:
      false
    }
  }
}

extension KernelEvent {
  fileprivate var mayCostPath: Bool {
    switch self {
    case .link, .linkRemoved, .address, .addressRemoved, .route, .routeRemoved, .rule, .ruleRemoved,
      .nexthop, .nexthopRemoved, .setting, .overrun:
      true
    case .neighbour(let neighbour): neighbour.isFailed
    case .bridgeEntry, .wireless, .signal, .malformed: false
    }
  }
}

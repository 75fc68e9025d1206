import Connectivity
import ConnectivityRules

/// Which flows' sockets are asked after a change that may have cost a path, and when (E2): all of
/// them once, a second after it. A value without I/O; without a change it has no deadline.
struct SocketInquiry {
  /// The first change that no inquiry was made for, and the last one.
  private var changes: (first: Instant, last: Instant)?
  /// What the last change was.
  private(set) var cause = Cause(.start, "started")
  /// The flows that the present inquiry has still to ask, the next one last.
  private var flows: [FlowTable.Key] = []
  /// The change that it is about.
  private var change = Instant(sinceStart: .zero)

  var isRunning: Bool { !self.flows.isEmpty }

  /// When the next inquiry begins, or `nil` if none is needed.
  var deadline: Instant? { self.changes?.first.advanced(by: SocketEvidence.firstQuestion) }

  mutating func note(_ cause: Cause, at time: Instant) {
    self.cause = cause
    self.changes = (self.changes?.first ?? time, time)
  }

  /// Begins the inquiry that is due.
  mutating func begin(with flows: some Sequence<FlowTable.Key>, at now: Instant) {
    guard let deadline, deadline <= now, !self.isRunning, let changes else { return }
    self.change = changes.last
    self.flows = flows.reversed()
    // Flows that a later change has hurt are asked a second after that one, too.
    self.changes =
      changes.last.advanced(by: SocketEvidence.firstQuestion) > now
      ? (changes.last, changes.last) : nil
  }

  /// Takes out the next flows to be asked.
  mutating func take(_ count: Int) -> (flows: [FlowTable.Key], change: Instant) {
    let taken = Array(self.flows.suffix(count).reversed())
    self.flows.removeLast(taken.count)
    return (taken, self.change)
  }
}

extension Occasion {
  /// Whether a connection may have lost its path by it, even if its lookup stands.
  var mayCostPath: Bool {
    switch self {
    case .events(let events): events.contains(where: \.mayCostPath)
    case .resumed, .kernelBack: true
    case .start, .configuration, .timer, .expiry, .kernelLost, .modem, .choice, .metering: false
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
    case .bridgeEntry, .wireless, .malformed: false
    }
  }
}

import Connectivity
import ConnectivityRules
import UnixTransport

/// Registration of flows, and repeated registration after the kernel was unavailable.
///
/// Implements rule I7.
extension FlowTable {
  /// Guards a flow, unless it is already dead.
  ///
  /// - Returns: The path, or why the flow is dead or in doubt.
  mutating func add(
    _ registration: Registration, of account: Account, _ registrar: RegistrationContext,
    policy: InvalidationPolicy,
    at now: Instant
  ) throws(KernelUnavailable) -> FlowEvent {
    let (flow, reader) = (registration.flow, registrar.reader)
    var first = flow.destination
    first.source = flow.local
    let present = try reader.way(to: first, registrar.answer(for: first))
    if case .unanswered(let words) = present.answer {
      throw KernelUnavailable(description: words, isOfOneQuestion: true)
    }
    let known = try self.path(known: registration, present, reader)
    let made = known ?? present.judged
    try registrar.use(made, boundTo: flow.destination.outLink)

    var tracker = FlowTracker(
      flow, on: made, network: present.network,
      isSourceAssignedByVPN: try known.map { (path) throws(KernelUnavailable) in
        try reader.mayBeGiven(path)
      } ?? false)
    var (question, way) = (first, present)
    if tracker.question != first {
      // A flow without a source address gets the one that the kernel just chose. Policy rules may
      // match on it.
      let own = try reader.way(to: tracker.question)
      let isSame = own.judged.chain.first == present.judged.chain.first
      if known != nil || isSame { (question, way) = (tracker.question, own) }
      if known == nil, isSame {
        tracker = FlowTracker(flow, on: own.judged, network: own.network)
      }
    }
    var reading = try reader.reading(of: question, madeOn: tracker.path, &way)
    // The flow has never been seen with this address.
    if known == nil, reading.isSourceGone { reading.sourceLoss = .final }
    let since = registrar.gravest(of: registration, way.judged, reading)
    let verdict = tracker.register(on: reading, since: since, policy: policy, at: now)
    var examination = FlowExamination()
    let outcome = examination.conclude(
      FlowExamination.Look(
        verdict, isCertain: try reader.isGone(reading, madeOn: made), change: now,
        report: Self.report(on: tracker, verdict, reader), at: now))
    self.spared += examination.timesSpared
    guard case .verdict(let told) = outcome else {
      self.insert(registration.key, of: account, tracker, examination, told: way.shown)
      return .path(way.shown)
    }
    if told.severity == .destroy {
      return .invalidation(
        told,
        since?.cause
          ?? Cause(.registration, "diedBefore", interface: made.interface, learntLate: true),
        try reader.way(to: flow.destination).shown)
    }
    self.insert(
      registration.key, of: account, tracker, examination, told: way.shown,
      isDoubted: registration.isNew && tracker.isInDoubt)
    let late = Cause(.registration, "pathMissing", interface: made.interface, learntLate: true)
    return .invalidation(told, since?.cause ?? late, way.shown)
  }

  /// Returns the socket's report if it may refute the verdict, or `nil` if not.
  private static func report(
    on tracker: FlowTracker, _ verdict: FlowTracker.Verdict?, _ reader: FlowReader
  ) -> SocketReport? {
    guard let verdict, verdict.isRefutable, tracker.flow.namesSocket else { return nil }
    return reader.view.socketReports(on: [tracker.question]).first ?? nil
  }

  /// Returns the path that the client already knows, for comparison, or `nil` if it knows none. A
  /// client that asked before it connected knew neither its address nor its port. If its original
  /// query still has the same answer, nothing has changed. Only the address or port leads the flow
  /// elsewhere (`ip rule from`, `sport`, one of several nexthops).
  private func path(
    known registration: Registration, _ present: FlowPath, _ reader: FlowReader
  ) throws(KernelUnavailable) -> Path? {
    guard let known = registration.knownPath else { return nil }
    let flow = registration.flow
    guard registration.sinceGeneration == nil, known.source == flow.local,
      known.chain.first != present.judged.chain.first
    else { return known }
    var question = flow.destination
    question.transport?.localPort = 0
    return try reader.way(to: question).judged.chain.first == known.chain.first ? nil : known
  }

  /// Guards a flow while the kernel is unavailable. It is registered again once the kernel is back.
  mutating func addPending(_ registration: Registration, of account: Account) -> FlowEvent {
    let made = registration.knownPath ?? .unknown
    self.insert(
      registration.key, of: account, FlowTracker(registration.flow, on: made), told: .unknown)
    self.pending[registration.key] = registration
    return .path(.unknown)
  }

  /// Removes and returns the flows that were registered while the kernel was unavailable, in the
  /// order of their keys.
  mutating func takePending() -> [Registration] {
    if self.pending.isEmpty { return [] }
    let registrations = self.pending.sorted {
      ($0.key.mailbox, $0.key.id) < ($1.key.mailbox, $1.key.id)
    }
    for (key, _) in registrations { self.remove(key) }
    // Nothing could be said about them until now.
    return registrations.map { _, registration in
      var registration = registration
      registration.hasWaited = true
      return registration
    }
  }
}

import Connectivity
import ConnectivityRules
import LinuxSupport

// Evaluation of the flows that are due, in slices.
extension FlowTable {
  /// The result of evaluating a slice of flows.
  struct Slice {
    var notifications: [FlowNotification] = []
    /// Whether a flow is still due because waiting messages may explain its reading.
    var awaitsMessages = false
  }

  /// Evaluates the next slice of flows.
  ///
  /// - Parameter isFinal: Whether flows are destroyed even before waiting messages are read.
  mutating func evaluate(
    _ reader: FlowReader, policy: InvalidationPolicy, isFinal: Bool = false, at now: Instant,
    clock: Clock? = nil
  ) throws(KernelUnavailable) -> Slice {
    var slice = Slice()
    guard self.isBusy else { return slice }
    var (count, hasMessages) = (0, false)
    while count < Self.slice, self.due > 0, !hasMessages {
      let part = self.takePart()
      count += part.count
      // Read everything before drawing conclusions, so that no event is lost if the kernel fails.
      let readings = try self.read(part, reader)
      let readAt = clock?() ?? now
      hasMessages = reader.view.hasMessages
      var examinations: [Examination] = []
      for (flow, flowPath, reading) in readings {
        guard var examination = try self.examination(at: flow, flowPath, reading, reader) else {
          continue
        }
        // The lookup may already reflect a later change, although its messages still wait.
        if hasMessages, examination.step.time != nil { examination.step.time = readAt }
        try examination.handleLookup(reading, reader, policy, at: now, readAt: readAt)
        if examination.verdict?.severity == .destroy, hasMessages, !isFinal {
          // The readings may belong to two moments, and the waiting messages explain the difference
          // (K8). The next slice begins with this flow.
          if !slice.awaitsMessages { self.cursor = flow.place }
          slice.awaitsMessages = true
        } else {
          examinations.append(examination)
        }
      }
      let contrasts = examinations.map {
        $0.asks(.askContrast) ? self.newest(besides: $0.flow) : nil
      }
      let questions = examinations.map { $0.asks(.askSocket) ? $0.flow.tracker.question : nil }
      let (reports, heard) = Self.reports(
        on: questions + contrasts.map { $0?.tracker.question }, reader, at: now, clock)
      for (number, examination) in examinations.enumerated() {
        let contrast = contrasts[number]?.contrast(
          reports[examinations.count + number], lastChange: self.lastChange, at: heard)
        guard
          let (event, asksPeer) = try self.conclude(
            examination, reports[number], contrast, reader, at: heard)
        else { continue }
        let flow = examination.flow
        slice.notifications.append(
          FlowNotification(
            key: flow.key, event: event, askedUntil: asksPeer ? .endOfQuestion : nil,
            isRefutation: flow.isDoubted && event.refutesDoubted))
        if event.path?.status == .satisfied { flow.isDoubted = false }
      }
      // Sends the first events without waiting for the rest of the slice.
      if !slice.notifications.isEmpty, part.count < Self.maxPart { break }
    }
    if self.due == 0, !hasMessages { slice.notifications += self.ask(reader, at: now, clock) }
    if !self.isBusy {
      self.log.clear()
      self.findEarliestDeadline()
    }
    self.check()
    return slice
  }

  private typealias Reading = (flow: GuardedFlow, flowPath: FlowPath, reading: FlowReading)

  private func read(
    _ flows: [GuardedFlow], _ reader: FlowReader
  ) throws(KernelUnavailable) -> [Reading] {
    let questions = flows.map(\.tracker.question)
    let answers = try reader.view.routes(to: questions)
    var readings: [Reading] = []
    readings.reserveCapacity(flows.count)
    for (flow, (question, answer)) in zip(flows, zip(questions, answers)) {
      let reading = try reader.view.unlessRefused { () throws(KernelUnavailable) -> Reading in
        // An IPv6 lookup that fails without a source may succeed when it is repeated.
        var flowPath = try reader.flowPath(
          to: question, answer == .noRoute(.noRoute) && question.source == nil ? nil : answer)
        let tracker = flow.tracker
        let reading = try reader.reading(
          of: question, madeOn: tracker.path, by: tracker.firstGateway, &flowPath)
        return (flow, flowPath, reading)
      }
      readings.append(reading ?? (flow, FlowPath(unknownTo: question), .unknown))
    }
    return readings
  }

  /// A flow under evaluation and its lookup.
  private struct Examination {
    let flow: GuardedFlow
    /// A copy of the flow's machine. It replaces the original after the evaluation.
    var machine: FlowMachine
    var flowPath: FlowPath
    var step: PendingCauses.Step
    var actions: [FlowMachine.Action] = []
    /// The verdict that follows from the lookup, or `nil` without such a verdict.
    var verdict: FlowTracker.Verdict?

    func asks(_ question: FlowMachine.Action) -> Bool { self.actions.contains(question) }

    mutating func handleLookup(
      _ reading: FlowReading, _ reader: FlowReader, _ policy: InvalidationPolicy, at now: Instant,
      readAt: Instant
    ) throws(KernelUnavailable) {
      self.actions = self.machine.handle(
        .lookup(
          FlowMachine.Lookup(
            reading, isCertain: try reader.isGone(reading, madeOn: self.flow.tracker.path),
            isTunnelled: self.flowPath.isTunnelled, slept: self.step.slept, change: self.step.time,
            readAt: readAt, policy: policy)),
        at: now)
      if !self.flow.tracker.hasBegun, self.machine.tracker.hasBegun {
        // Policy rules may match the source address that the kernel has now chosen for the flow.
        let question = self.machine.tracker.question
        let own = try reader.view.unlessRefused { () throws(KernelUnavailable) in
          try reader.flowPath(to: question)
        }
        if let own, own.shown.chain.first == self.flowPath.shown.chain.first { self.flowPath = own }
      }
      self.verdict = self.machine.pendingVerdict
    }

    /// Whether the client has heard from the flow's peer since the flow came into doubt (I12). A
    /// connection that can migrate moves instead.
    func isSpared(from verdict: FlowTracker.Verdict) -> Bool {
      guard verdict.isRefutable, !self.flow.flow.migrates, let heard = self.flow.heard,
        let doubt = self.machine.inDoubtSince
      else { return false }
      // A later change needs a later report.
      return heard > max(doubt, self.step.time ?? doubt).advanced(by: Self.maxInFlight)
    }

    /// How long after a change a packet may arrive that was sent before the change. The same as the
    /// longest wait for a silent socket (E1).
    private static let maxInFlight = Duration.milliseconds(100)

    /// Returns why the flow is not viable. If its socket decided, this is the cause of the socket's
    /// query.
    func cause(of verdict: FlowTracker.Verdict) -> ChangeCause {
      if self.verdict == nil, let cause = self.flow.examinedCause { return cause }
      return self.step.trigger.cause(
        of: verdict, self.flow.flow.destination.address.family, from: self.flow.tracker.path,
        to: self.flowPath.shown)
    }
  }

  /// Begins the evaluation of a flow. Returns `nil` if the flow waits to be registered.
  private mutating func examination(
    at flow: GuardedFlow, _ flowPath: FlowPath, _ reading: FlowReading, _ reader: FlowReader
  ) throws(KernelUnavailable) -> Examination? {
    guard self.pending[flow.key] == nil else {
      self.isSeen(flow)
      return nil
    }
    return Examination(
      flow: flow, machine: flow.machine, flowPath: flowPath, step: self.log.step(since: flow.seen))
  }

  /// Returns the event for the client after a flow's evaluation, and whether the client must ask
  /// its peer, or `nil` if nothing has changed.
  private mutating func conclude(
    _ examination: Examination, _ report: SocketReport?, _ contrast: Contrast?,
    _ reader: FlowReader,
    at now: Instant
  ) throws(KernelUnavailable) -> (FlowEvent, asksPeer: Bool)? {
    let flow = examination.flow
    var machine = examination.machine
    let isProof = !examination.asks(.askProof) || self.isLookupProof(reader)
    let actions = machine.handle(
      .report(report, isProof: isProof, contrast: contrast), at: now)
    self.spared += machine.timesSpared - flow.machine.timesSpared
    // Only the socket shows whether a stranded flow works. It is queried a second later (E2, E5).
    if machine.isStranded, !flow.machine.isStranded { flow.hasMoved = true }
    flow.machine = machine
    self.isSeen(flow)
    // Keeps the cause of the query until the socket has decided.
    if let verdict = examination.verdict { flow.examinedCause = examination.cause(of: verdict) }
    let shown = examination.flowPath.shown
    var event: FlowEvent? = flow.reported != shown ? .path(shown) : nil
    for action in actions {
      switch action {
      case .end(let verdict) where examination.isSpared(from: verdict):
        // The next change judges it again, by the path on which it was made.
        let before = examination.machine.tracker
        self.remove(flow.key)
        self.insert(
          flow.key, of: flow.account,
          FlowMachine(
            FlowTracker(
              flow.flow, on: before.path, network: before.network ?? NetworkIdentity())),
          reported: shown)
        return (.path(shown), false)
      case .end(var verdict):
        self.remove(flow.key)
        // The client is notified even if this lookup fails.
        let path =
          (try? self.pathForNew(flow, reader)) ?? FlowPath(unknownTo: flow.flow.destination)
        let isForbidden = flow.flow.forbids(path.judged)
        if flow.flow.migrates, verdict.isMigration, !isForbidden {
          self.move(flow.flow, flow.key, of: flow.account, to: path)
          let end = FlowEvent.invalidation(verdict, examination.cause(of: verdict), path.shown)
          return (end.asMigration, false)
        }
        if flow.flow.migrates, isForbidden { verdict.reason = .policy }
        return (.invalidation(verdict, examination.cause(of: verdict), path.shown), false)
      case .report(let verdict):
        event = .invalidation(verdict, examination.cause(of: verdict), shown)
      case .betterPathGone: event = .betterPathGone(shown)
      case .recovered, .askPeer: event = event ?? .path(shown)
      case .askSocket, .askProof, .askContrast, .watch: break
      }
    }
    self.note(flow)
    guard let event else { return nil }
    flow.reported = shown
    return (event, actions.contains(.askPeer))
  }

  /// Guards a flow on the path to which its connection moves (I12).
  mutating func move(_ flow: Flow, _ key: Key, of account: Account, to path: FlowPath) {
    let tracker = FlowTracker(flow.migrated, on: path.judged, network: path.network)
    self.insert(key, of: account, FlowMachine(tracker), reported: path.shown)
  }

  private mutating func isSeen(_ flow: GuardedFlow) {
    if self.isDue(flow) { self.due -= 1 }
    (flow.seen, flow.isOverdue) = (self.log.last, false)
  }

  mutating func note(_ flow: GuardedFlow) {
    if flow.machine.deadline != nil {
      self.inDoubt.insert(flow.key)
    } else if !self.inDoubt.isEmpty {
      self.inDoubt.remove(flow.key)
    }
  }

  /// Returns the path of a new connection to the same destination.
  private func pathForNew(
    _ flow: GuardedFlow, _ reader: FlowReader
  ) throws(KernelUnavailable) -> FlowPath? {
    var question = flow.flow.destination
    question.transport?.localPort = 0
    return try reader.view.unlessRefused { () throws(KernelUnavailable) in
      try reader.flowPath(to: question)
    }
  }
}

extension WallTime {
  /// The deadline of a client that begins to ask its peer now.
  static var endOfQuestion: WallTime { .now().advanced(by: PeerQuestion.time) }
}

extension FlowEvent {
  /// Whether the event refutes the connection of a flow that had no path at registration (I11). A
  /// sleep or a better path may also end a working connection, so they refute nothing.
  fileprivate var refutesDoubted: Bool { self.destroys && self.invalidation?.isSurvivable == false }
}

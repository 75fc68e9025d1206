import Connectivity
import ConnectivityRules

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
  /// - Parameter isFinal: Whether flows are destroyed even if messages wait that may explain it.
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
      // All readings come before any conclusion. If the kernel fails in between, no event may be
      // lost.
      let readings = try self.read(part, reader)
      let readAt = clock?() ?? now
      hasMessages = reader.view.hasMessages
      var looks: [Look] = []
      for (flow, way, reading) in readings {
        guard
          var look = try self.look(at: flow, way, reading, reader, policy, at: now, readAt: readAt)
        else { continue }
        // Waiting messages may be about a later change, which the lookup has already found.
        if hasMessages, look.step.time != nil { look.step.time = readAt }
        if look.verdict?.severity == .destroy, hasMessages, !isFinal {
          // The readings may belong to two moments, and the waiting messages explain the difference
          // (K8). The next slice begins with this flow.
          if !slice.awaitsMessages { self.cursor = flow.place }
          slice.awaitsMessages = true
        } else {
          if look.verdict?.isRefutable == true || look.isLookupNew,
            flow.tracker.flow.namesSocket
          {
            look.isProof = look.path.isDropped || self.isLookupProof(reader)
          }
          looks.append(look)
        }
      }
      let (reports, heard) = Self.reports(for: looks, reader, at: now, clock)
      for (look, report) in zip(looks, reports) {
        guard let (event, asksPeer) = try self.conclude(look, report, reader, at: heard)
        else { continue }
        let flow = look.flow
        slice.notifications.append(
          FlowNotification(
            key: flow.key, event: event, askedUntil: asksPeer ? .endOfQuestion : nil,
            isRefutation: flow.isDoubted && event.refutesDoubted))
        if event.path?.status == .satisfied { flow.isDoubted = false }
      }
      // The first events do not wait for the rest of the slice.
      if !slice.notifications.isEmpty, part.count < Self.largestPart { break }
    }
    if self.due == 0, !hasMessages { slice.notifications += self.ask(reader, at: now, clock) }
    if !self.isBusy {
      self.log.clear()
      self.findEarliestDeadline()
    }
    return slice
  }

  private typealias Reading = (flow: GuardedFlow, way: FlowPath, reading: FlowReading)

  private func read(
    _ flows: [GuardedFlow], _ reader: FlowReader
  ) throws(KernelUnavailable) -> [Reading] {
    let questions = flows.map(\.tracker.question)
    let answers = try reader.view.routes(to: questions)
    var readings: [Reading] = []
    readings.reserveCapacity(flows.count)
    for (flow, (question, answer)) in zip(flows, zip(questions, answers)) {
      let reading = try reader.view.unlessRefused { () throws(KernelUnavailable) -> Reading in
        // A lookup without a source may have an answer with one (IPv6).
        var way = try reader.way(
          to: question, answer == .noRoute(.noRoute) && question.source == nil ? nil : answer)
        let tracker = flow.tracker
        let reading = try reader.reading(
          of: question, madeOn: tracker.path, by: tracker.firstGateway, &way)
        return (flow, way, reading)
      }
      readings.append(reading ?? (flow, FlowPath(unknownTo: question), .unknown))
    }
    return readings
  }

  /// Returns the result of the lookup of a flow, or `nil` if the flow waits to be registered.
  private mutating func look(
    at flow: GuardedFlow, _ way: FlowPath, _ reading: FlowReading, _ reader: FlowReader,
    _ policy: InvalidationPolicy, at now: Instant, readAt: Instant
  ) throws(KernelUnavailable) -> Look? {
    guard self.pending[flow.key] == nil else {
      self.isSeen(flow)
      return nil
    }
    let step = self.log.step(since: flow.seen)
    var tracker = flow.tracker
    var verdict = tracker.update(to: reading, slept: step.slept, policy: policy, at: now)
    // A registration would learn the same at this moment (E5).
    if verdict == nil, reading.isSourceStranded, !flow.isStranded, !tracker.isInDoubt {
      verdict = FlowTracker.Verdict(.interfaceLost, .advise)
      // Only its socket knows more, and is asked after the change (E2).
      flow.hasMoved = true
    }
    var way = way
    if !flow.tracker.hasBegun, tracker.hasBegun {
      // The flow has the address that the kernel chose. Policy rules may match on it.
      let own = try reader.view.unlessRefused { () throws(KernelUnavailable) in
        try reader.way(to: tracker.question)
      }
      if let own, own.shown.chain.first == way.shown.chain.first { way = own }
    }
    return Look(
      flow: flow, way: way, tracker: tracker, verdict: verdict, step: step,
      isCertain: try reader.isGone(reading, madeOn: flow.tracker.path),
      path: reading.path, isStranded: reading.isSourceStranded, readAt: readAt)
  }

  /// Returns what the client must learn about a flow after its evaluation and whether it must ask
  /// its peer, or `nil` if nothing has changed.
  private mutating func conclude(
    _ look: Look, _ report: SocketReport?, _ reader: FlowReader, at now: Instant
  ) throws(KernelUnavailable) -> (FlowEvent, asksPeer: Bool)? {
    let (flow, old) = (look.flow, look.flow.tracker)
    var examination = flow.examination
    let outcome = examination.conclude(look.forExamination(report, at: now))
    let inDoubtSince = look.inDoubtSince
    self.spared += examination.timesSpared - flow.examination.timesSpared
    let isBetterPathGone = old.hasBetterPath && !look.tracker.hasBetterPath
    (flow.tracker, flow.examination) = (look.tracker, examination)
    flow.refutedPath = examination.isSpared ? flow.refutedPath ?? look.path : nil
    if look.isLookupNew { flow.refutedPath = look.path }
    (flow.inDoubtSince, flow.isStranded) = (inDoubtSince, look.isStranded)
    self.isSeen(flow)
    let shown = look.way.shown
    // The cause of the query remains until the socket has decided.
    let news = look.verdict.map { (reason: $0.reason, cause: look.cause(of: $0)) }
    if let news { flow.examinedCause = news.cause }
    guard case .verdict(let verdict) = outcome else {
      self.note(flow)
      guard outcome != .none || isBetterPathGone || flow.told != shown else { return nil }
      flow.told = shown
      return (isBetterPathGone ? .betterPathGone(shown) : .path(shown), outcome == .question)
    }
    let cause =
      if let news, news.reason == verdict.reason { news.cause } else { look.cause(of: verdict) }
    guard verdict.severity == .destroy else {
      flow.told = shown
      self.note(flow)
      return (.invalidation(verdict, cause, shown), verdict.asksPeer)
    }
    self.remove(flow.key)
    return (.invalidation(verdict, cause, try self.pathForNew(flow, reader)), false)
  }

  private mutating func isSeen(_ flow: GuardedFlow) {
    if self.isDue(flow) { self.due -= 1 }
    (flow.seen, flow.isOverdue) = (self.log.last, false)
  }

  mutating func note(_ flow: GuardedFlow) {
    if flow.deadline != nil {
      self.inDoubt.insert(flow.key)
    } else if !self.inDoubt.isEmpty {
      self.inDoubt.remove(flow.key)
    }
  }

  /// Returns the path of a new connection to the same destination.
  private func pathForNew(
    _ flow: GuardedFlow, _ reader: FlowReader
  ) throws(KernelUnavailable) -> KernelPath {
    var question = flow.tracker.flow.destination
    question.transport?.localPort = 0
    let way = try reader.view.unlessRefused { () throws(KernelUnavailable) in
      try reader.way(to: question)
    }
    return way?.shown ?? .unknown
  }
}

extension WallTime {
  /// The end of the time that a client has from now on to ask its peer.
  static var endOfQuestion: WallTime { .now().advanced(by: PeerQuestion.time) }
}

extension FlowEvent {
  /// Whether the event refutes the connection of a flow that had no path at registration (I11). A
  /// sleep or a better path may also end a working connection, so they refute nothing.
  fileprivate var refutesDoubted: Bool { self.destroys && self.invalidation?.isSurvivable == false }
}

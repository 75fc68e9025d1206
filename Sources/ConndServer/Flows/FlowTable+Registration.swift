import Connectivity
import ConnectivityRules
import LinuxSupport

/// Registration of flows, and repeated registration after the kernel was unavailable.
///
/// Implements rule I7.
extension FlowTable {
  /// A client's registration of a flow.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client received earlier for the flow, with only the compared fields.
    var knownPath: KernelPath?
    /// The last generation that the client knew before it connected.
    var sinceGeneration: UInt64?
    /// Whether the flow was registered while the kernel was unavailable, and may have died since.
    var hasWaited = false

    /// Whether the client says that the connection was made some time ago.
    var isExisting = false

    /// Whether the client describes a connection that has just been made.
    var isNew: Bool {
      self.flow.local != nil && self.knownPath == nil && !self.hasWaited && !self.isExisting
    }
  }

  enum Admission {
    case answer(GuardAnswer)
    /// The flow may be guarded.
    case register(Registration)
  }

  /// Handles the parts of a request that need no kernel query.
  mutating func admit(
    _ request: GuardRequest, _ limits: Limits, at now: Instant
  ) -> Admission {
    let key = request.key
    switch request.action {
    case .addAgain(let registration): return .register(registration)
    case .add(let registration):
      if self.contains(key) {
        return .answer(.event(.refused(.invalid("add.id: flow \(key.id) is already guarded"))))
      }
      return self.exceeded(by: registration, of: request.account, limits).map { .answer($0) }
        ?? .register(registration)
    case .remove:
      guard self.contains(key) else {
        return .answer(.event(.refused(.invalid("remove.id: flow \(key.id) is not guarded"))))
      }
      self.remove(key)
      return .answer(.removed)
    case .heard:
      // connd asks a TCP socket itself.
      if let flow = self.entries[key], !flow.flow.namesSocket { flow.heard = now }
      return .answer(.handled)
    }
  }

  /// Guards a flow. If the flow has a link-local address, first adds the link of that address.
  ///
  /// - Throws: If the kernel query fails. Nothing has changed then.
  mutating func register(
    _ registration: Registration, for request: GuardRequest, _ present: RegistrationContext,
    policy: InvalidationPolicy, at now: Instant
  ) throws(KernelUnavailable) -> GuardAnswer {
    do throws(KernelUnavailable) {
      guard let placed = try present.placed(registration) else {
        return .event(.refused(.needsLink(registration.flow.destination.address)))
      }
      let event = try self.add(placed, of: request.account, present, policy: policy, at: now)
      return request.answer(event)
    } catch {
      guard error.isOfOneQuestion else { throw error }
      present.reader.view.note(refusal: error)
      return self.registerLater(registration, for: request)
    }
  }

  /// Guards a flow once the kernel is available, or once it answers the query that it refused for
  /// this flow.
  mutating func registerLater(
    _ registration: Registration, for request: GuardRequest
  ) -> GuardAnswer {
    request.answer(self.addPending(registration, of: request.account))
  }

  /// Returns a refusal with the limit that one more flow would exceed, or `nil` below all limits.
  private func exceeded(
    by registration: Registration, of account: Account, _ limits: Limits
  ) -> GuardAnswer? {
    let (limit, words): (String, String)
    if self.count(of: registration.key.mailbox) >= limits.flowsPerStream {
      (limit, words) = ("flowsPerStream", "a stream guards at most \(limits.flowsPerStream)")
    } else {
      do throws(Quota.Refusal) {
        try Quota(inAll: limits.flows, ofOneUser: limits.flowsPerUser)
          .check(
            of: AccountUser(registration.flow.destination.uid, of: account), beside: self.usage)
        return nil
      } catch {
        switch error {
        case .ofOneUser(let bound):
          (limit, words) = ("flowsPerUser", "a user guards at most \(bound)")
        case .forOtherUnknown(let bound):
          (limit, words) = (
            "flowsPerUser", "all users without a known owner together guard at most \(bound)"
          )
        case .inAll(let bound), .forOthers(let bound):
          (limit, words) = ("flows", "connd guards at most \(bound)")
        }
      }
    }
    return .exceeds(limit: limit, .exhausted("add: \(words) flows (limits.\(limit))"))
  }

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
    let present = try reader.flowPath(to: first, registrar.answer(for: first))
    if case .unanswered(let reason) = present.answer {
      throw KernelUnavailable(description: reason, isOfOneQuestion: true)
    }
    let known = try self.path(known: registration, present, reader)
    let made = known ?? present.judged
    try registrar.use(made, boundTo: flow.destination.outLink)

    var tracker = FlowTracker(
      flow, on: made, network: present.network,
      isSourceAssignedByVPN: try known.map { (path) throws(KernelUnavailable) in
        try reader.mayBeGiven(path)
      } ?? false)
    var (question, flowPath) = (first, present)
    if tracker.question != first {
      // A flow without a source address gets the address that the kernel just chose. Policy rules
      // may match that address.
      let own = try reader.flowPath(to: tracker.question)
      let isSame = own.judged.chain.first == present.judged.chain.first
      if known != nil || isSame { (question, flowPath) = (tracker.question, own) }
      if known == nil, isSame {
        tracker = FlowTracker(flow, on: own.judged, network: own.network)
      }
    }
    var reading = try reader.reading(of: question, madeOn: tracker.path, &flowPath)
    // connd has never seen the flow with this address, so the loss counts as final.
    if known == nil, reading.isSourceGone { reading.sourceLoss = .final }
    let since = registrar.gravest(of: registration, flowPath.judged, reading)
    var machine = FlowMachine(tracker)
    let lookup = FlowMachine.Lookup(
      reading, isCertain: try reader.isGone(reading, madeOn: made),
      isTunnelled: flowPath.isTunnelled,
      change: now, readAt: now, policy: policy)
    let actions = machine.evaluate(
      .registration(lookup, since: since), isProof: { self.isLookupProof(reader) },
      report: { reader.view.socketReports(on: [tracker.question]).first ?? nil }, at: now)
    self.spared += machine.timesSpared
    let late = ChangeCause(
      .registration, "pathMissing", interface: made.interface, learntLate: true)
    // A connection is not new if its client made it before losing contact with connd.
    let isNew =
      registration.sinceGeneration == nil && !registration.hasWaited && !registration.isExisting
    let madeAt =
      isNew && flow.namesSocket && !self.inDoubt.isEmpty
      ? reader.view.socketReports(on: [machine.tracker.question]).first.flatMap { $0 }
        .map { Contrast.Made(at: now, progress: $0.progress) } : nil
    switch actions.first {
    case .end(var verdict):
      let path = try reader.flowPath(to: flow.destination)
      if flow.migrates, flow.forbids(path.judged) { verdict.reason = .policy }
      let end = FlowEvent.invalidation(
        verdict,
        since?.cause
          ?? ChangeCause(.registration, "diedBefore", interface: made.interface, learntLate: true),
        path.shown)
      guard flow.migrates, verdict.isMigration else { return end }
      self.move(flow, registration.key, of: account, to: path)
      return end.asMigration
    case .report(let verdict):
      self.insert(
        registration.key, of: account, machine, reported: flowPath.shown,
        isDoubted: registration.isNew && machine.tracker.isInDoubt, made: madeAt)
      return .invalidation(verdict, since?.cause ?? late, flowPath.shown)
    default:
      self.insert(registration.key, of: account, machine, reported: flowPath.shown, made: madeAt)
      return .path(flowPath.shown)
    }
  }

  /// Returns the client's known path, or `nil` if it need not be compared. A client that queried
  /// the path before connecting did not know its local address and port. If the query without them
  /// still has the same answer, nothing has changed. Only the address or port selects another route
  /// (`ip rule from`, `sport`, one of several nexthops).
  private func path(
    known registration: Registration, _ present: FlowPath, _ reader: FlowReader
  ) throws(KernelUnavailable) -> KernelPath? {
    guard let known = registration.knownPath else { return nil }
    let flow = registration.flow
    guard registration.sinceGeneration == nil, known.source == flow.local,
      known.chain.first != present.judged.chain.first
    else { return known }
    var question = flow.destination
    question.transport?.localPort = 0
    return try reader.flowPath(to: question).judged.chain.first == known.chain.first ? nil : known
  }

  /// Guards a flow while the kernel is unavailable. It is registered again once the kernel is back.
  mutating func addPending(_ registration: Registration, of account: Account) -> FlowEvent {
    let made = registration.knownPath ?? .unknown
    self.insert(
      registration.key, of: account, FlowMachine(FlowTracker(registration.flow, on: made)),
      reported: .unknown)
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
    // connd could not check these flows until now.
    return registrations.map { _, registration in
      var registration = registration
      registration.hasWaited = true
      return registration
    }
  }
}

extension FlowTable.Registration {
  /// The lookup that decides the flow's fate.
  var question: Destination {
    var question = self.flow.destination
    question.source = self.flow.local
    return question
  }
}

extension GuardRequest {
  fileprivate func answer(_ event: FlowEvent) -> GuardAnswer {
    if case .addAgain = self.action, case .path(let path) = event, path.status == .unknown {
      return .unchanged
    }
    return .event(event)
  }
}

extension KernelPath {
  /// A copy with only the fields that are compared. A flow keeps the known path that its client
  /// sends, so this lists each kept field. The only kept text is the names of links.
  var compared: KernelPath {
    var path = KernelPath(
      status: self.status, reason: self.reason, chain: self.chain, medium: self.medium,
      source: self.source, sourcePrefixLength: self.sourcePrefixLength, gateway: self.gateway,
      table: self.table, isExpensive: self.costsMoney,
      constraint: self.constraint)
    path.guessedLinks = self.guessedLinks
    return path
  }
}

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
    /// The path that the client received for it before, without what is not compared.
    var knownPath: KernelPath?
    /// The last generation that the client knew before it connected.
    var sinceGeneration: UInt64?
    /// Whether it was registered while the kernel was unavailable, so that the flow may have died
    /// since.
    var hasWaited = false

    /// Whether the client describes a connection that has just been made.
    var isNew: Bool { self.flow.local != nil && self.knownPath == nil && !self.hasWaited }
  }

  enum Admission {
    case answer(GuardAnswer)
    /// The flow may be guarded.
    case register(Registration)
  }

  /// Handles everything about a request that needs no kernel.
  mutating func admit(_ request: GuardRequest, _ limits: Limits) -> Admission {
    let key = request.key
    switch request.action {
    case .addAgain(let registration): return .register(registration)
    case .add(let registration):
      if self.contains(key) {
        return .answer(.event(.refused(.invalid("add.id: flow \(key.id) is already guarded"))))
      }
      return self.exceeded(by: request, limits).map { .answer($0) } ?? .register(registration)
    case .remove:
      guard self.contains(key) else {
        return .answer(.event(.refused(.invalid("remove.id: flow \(key.id) is not guarded"))))
      }
      self.remove(key)
      return .answer(.removed)
    }
  }

  /// Guards a flow. A link-local address gets its link first.
  ///
  /// - Throws: If the kernel cannot be asked. Then nothing has changed.
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

  /// Guards a flow once the kernel is available, or once it answers the query that it has refused
  /// for this flow.
  mutating func registerLater(
    _ registration: Registration, for request: GuardRequest
  ) -> GuardAnswer {
    request.answer(self.addPending(registration, of: request.account))
  }

  /// Returns the refusal by the limit that one more flow would exceed, or `nil` below all limits.
  private func exceeded(by request: GuardRequest, _ limits: Limits) -> GuardAnswer? {
    let (limit, words): (String, String)
    if self.count(of: request.key.mailbox) >= limits.flowsPerStream {
      (limit, words) = ("flowsPerStream", "a stream guards at most \(limits.flowsPerStream)")
    } else {
      do throws(Quota.Refusal) {
        try Quota(inAll: limits.flows, ofOneUser: limits.flowsPerUser)
          .check(of: request.account, beside: self.usage)
        return nil
      } catch {
        switch error {
        case .ofOneUser(let most):
          (limit, words) = ("flowsPerUser", "a user guards at most \(most)")
        case .inAll(let most), .forOthers(let most):
          (limit, words) = ("flows", "connd guards at most \(most)")
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
    let present = try reader.way(to: first, registrar.answer(for: first))
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
    var machine = FlowMachine(tracker)
    let lookup = FlowMachine.Lookup(
      reading, isCertain: try reader.isGone(reading, madeOn: made), isTunnelled: way.isTunnelled,
      change: now, readAt: now, policy: policy)
    let actions = machine.evaluate(
      .registration(lookup, since: since), isProof: { self.isLookupProof(reader) },
      report: { reader.view.socketReports(on: [tracker.question]).first ?? nil }, at: now)
    self.spared += machine.timesSpared
    let late = ChangeCause(
      .registration, "pathMissing", interface: made.interface, learntLate: true)
    // A connection that its client knew before it lost connd is not new.
    let isNew = registration.sinceGeneration == nil && !registration.hasWaited
    let madeAt =
      isNew && flow.namesSocket && !self.inDoubt.isEmpty
      ? reader.view.socketReports(on: [machine.tracker.question]).first.flatMap { $0 }
        .map { Contrast.Made(at: now, progress: $0.progress) } : nil
    switch actions.first {
    case .end(let verdict):
      return .invalidation(
        verdict,
        since?.cause
          ?? ChangeCause(.registration, "diedBefore", interface: made.interface, learntLate: true),
        try reader.way(to: flow.destination).shown)
    case .report(let verdict):
      self.insert(
        registration.key, of: account, machine, reported: way.shown,
        isDoubted: registration.isNew && machine.tracker.isInDoubt, made: madeAt)
      return .invalidation(verdict, since?.cause ?? late, way.shown)
    default:
      self.insert(registration.key, of: account, machine, reported: way.shown, made: madeAt)
      return .path(way.shown)
    }
  }

  /// Returns the path that the client already knows, for comparison, or `nil` if it knows none. A
  /// client that asked before it connected knew neither its address nor its port. If its original
  /// query still has the same answer, nothing has changed. Only the address or port leads the flow
  /// elsewhere (`ip rule from`, `sport`, one of several nexthops).
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
    return try reader.way(to: question).judged.chain.first == known.chain.first ? nil : known
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
    // Nothing could be said about them until now.
    return registrations.map { _, registration in
      var registration = registration
      registration.hasWaited = true
      return registration
    }
  }
}

extension FlowTable.Registration {
  /// The lookup that decides about the flow.
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
  /// A copy with the fields that a flow is compared with. A client sends its known path, and the
  /// flow keeps it. So this names each field that is kept, and the only text is the links' names.
  var compared: KernelPath {
    var path = KernelPath(
      status: self.status, reason: self.reason, chain: self.chain, medium: self.medium,
      source: self.source, sourcePrefixLength: self.sourcePrefixLength, gateway: self.gateway,
      table: self.table, isExpensive: self.isExpensive, isConstrained: self.isConstrained)
    path.isCostUnknown = self.isCostUnknown
    path.guessedLinks = self.guessedLinks
    return path
  }
}

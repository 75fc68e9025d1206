package import Connectivity

/// Guards one flow from its registration to its end, as a value: it receives lookups of the kernel
/// and reports of the flow's socket, and returns actions.
///
/// A lookup comes first. If ``Action/askSocket`` follows, the socket is queried. Then
/// ``Input/report(_:isProof:)`` ends the evaluation, with or without a report. Until then the
/// machine may be thrown away, and the flow is as before.
///
/// ``FlowTracker`` derives the lookup's verdict, and ``FlowExamination`` that of the socket.
package struct FlowMachine: Hashable, Sendable {
  /// A lookup of the flow's own path.
  package struct Lookup: Hashable, Sendable {
    package var reading: FlowReading
    /// Whether the flow's address and link are gone, which no socket can refute.
    package var isCertain: Bool
    /// Whether the path uses a tunnel.
    package var isTunnelled: Bool
    /// How long the machine slept before it (I6).
    package var slept: Duration?
    /// When the change happened that led to it, or `nil` if only time has passed.
    package var change: Instant?
    /// The time after the lookup.
    package var readAt: Instant
    package var policy: InvalidationPolicy

    package init(
      _ reading: FlowReading, isCertain: Bool, isTunnelled: Bool, slept: Duration? = nil,
      change: Instant?, readAt: Instant, policy: InvalidationPolicy
    ) {
      (self.reading, self.isCertain, self.isTunnelled) = (reading, isCertain, isTunnelled)
      (self.slept, self.change, self.readAt, self.policy) = (slept, change, readAt, policy)
    }
  }

  package enum Input: Sendable {
    /// The flow is registered. `since` is its invalidation while nobody guarded it, if any.
    case registration(Lookup, since: Invalidation?)
    /// The network has changed, or the deadline is over.
    case lookup(Lookup)
    /// The socket's report, or `nil` without one. `isProof` tells whether the lookup is proof; it
    /// matters only after ``Action/askProof``. The contrast answers ``Action/askContrast``.
    case report(SocketReport?, isProof: Bool, contrast: Contrast?)
    /// The socket's report a second after a change that touches the flow (E2), whose path is now
    /// `path`.
    case inquiry(SocketReport, change: Instant, path: KernelPath)
  }

  package enum Action: Hashable, Sendable {
    /// Query the flow's socket.
    case askSocket
    /// Find out whether the lookup is proof (E0).
    case askProof
    /// Query the newest connection to the same host, too (E2).
    case askContrast
    /// The deadline has changed, because the socket is watched from now on (E2).
    case watch
    /// Tell the owner that the flow is in doubt.
    case report(FlowTracker.Verdict)
    /// Tell the owner that the flow is lost. The machine must not be used again.
    case end(FlowTracker.Verdict)
    /// The flow is no longer in doubt. The owner had received advice.
    case recovered
    case betterPathGone
    /// Ask the owner to ask its peer (E4).
    case askPeer
  }

  /// The state, as the owner knows it.
  package enum State: String, CaseIterable, Sendable {
    /// It has no path yet, and no address.
    case awaitingPath
    case alive
    /// Its path or address is gone and may come back (I10).
    case inGrace
    /// The lookup declares it dead, and its socket may refute that (E1).
    case disputed
    /// Its socket has refuted the lookup.
    case spared
    /// The lookup declares it dead, and its peer cannot be asked.
    case drained
    /// The lookup succeeds, and its socket has been silent since a change (E2).
    case suspected
    /// The kernel cannot be queried (K8).
    case kernelUnavailable
  }

  package private(set) var tracker: FlowTracker
  private var examination = FlowExamination()
  /// The lookup that its socket has refuted.
  private var refutedPath: KernelPath?
  /// When its grace period began, or its address was lost during it; `nil` without one.
  private var inDoubtSince: Instant?
  /// Whether its address is on a failed link while another link sends its packets (E5).
  package private(set) var isStranded = false
  /// The lookup whose evaluation is not over.
  private var open: Evaluation?

  private struct Evaluation: Hashable, Sendable {
    var lookup: Lookup
    var isRegistration: Bool
    /// The tracker before the lookup.
    var before: FlowTracker
    /// The news from the lookup, if any.
    var verdict: FlowTracker.Verdict?
    /// Whether the lookup differs from the one that the socket has refuted.
    var isLookupNew: Bool
    /// Whether the socket is queried about the lookup's verdict.
    var asksSocket = false
  }

  package init(_ tracker: FlowTracker) { self.tracker = tracker }

  package mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .registration(let lookup, let since):
      return self.begin(lookup, since: since, at: now)
    case .lookup(let lookup): return self.look(lookup, at: now)
    case .report(let report, let isProof, let contrast):
      guard let evaluation = self.open.take() else { return [] }
      return self.conclude(evaluation, report, isProof: isProof, contrast, at: now)
    case .inquiry(let report, let change, let path):
      return self.inquire(report, change: change, on: path, at: now)
    }
  }

  /// Handles a lookup and, if need be, the socket's report.
  ///
  /// - Parameters:
  ///   - lookup: An input with a lookup.
  ///   - began: When a grace period began that the lookup begins, if that was earlier.
  package mutating func evaluate(
    _ lookup: Input, isProof: () -> Bool, report: () -> SocketReport?, at now: Instant,
    began: Instant? = nil
  ) -> [Action] {
    let questions = self.handle(lookup, at: began ?? now)
    return self.handle(
      .report(
        questions.contains(.askSocket) ? report() : nil,
        isProof: !questions.contains(.askProof) || isProof(), contrast: nil),
      at: now)
  }

  // MARK: - What is known

  package var flow: Flow { self.tracker.flow }

  package var state: State {
    if self.tracker.isKernelUnavailable { return .kernelUnavailable }
    if let dispute = self.examination.dispute {
      return switch dispute.state {
      case .open, .waiting: .disputed
      case .spared: .spared
      case .drained: .drained
      }
    }
    if !self.tracker.hasBegun { return .awaitingPath }
    if self.tracker.isInDoubt { return .inGrace }
    return self.examination.suspicion == nil ? .alive : .suspected
  }

  /// When it must be evaluated even without a kernel message.
  package var deadline: Instant? {
    switch (self.tracker.deadline, self.examination.deadline) {
    case (let first?, let second?): min(first, second)
    case (let deadline, nil), (nil, let deadline): deadline
    }
  }

  /// Whether it goes on although the lookup declares it dead.
  package var isSpared: Bool { self.examination.isSpared }

  /// How often its socket has proved the lookup wrong.
  package var timesSpared: Int { self.examination.timesSpared }

  /// Whether its lookup shows a working path, or its socket has proved one, so that silence would
  /// be news (E2).
  package var isTrusted: Bool { self.isSpared || self.isLookupTrusted }

  /// Whether the last lookup showed a working path, and nothing disputes it.
  private var isLookupTrusted: Bool {
    self.examination.dispute == nil && self.tracker.hasBegun && !self.tracker.isInDoubt
  }

  /// What its owner was told and still applies, or `nil` for a flow that works.
  package var standing: FlowTracker.Verdict? {
    if let dispute = self.examination.dispute {
      return .init(dispute.verdict.reason, dispute.state == .drained ? .drain : .advise)
    }
    if self.examination.suspicion?.isAdvised == true { return .init(.silent, .advise) }
    return self.tracker.standing
  }

  /// The verdict of the lookup that is being evaluated. A `destroy` may still be refuted.
  package var pendingVerdict: FlowTracker.Verdict? { self.open?.verdict }
}

// MARK: - Lookups

extension FlowMachine {
  private mutating func begin(
    _ lookup: Lookup, since: Invalidation?, at now: Instant
  ) -> [Action] {
    let before = self.tracker
    let verdict = self.tracker.register(
      on: lookup.reading, since: since, policy: lookup.policy, at: now)
    var evaluation = Evaluation(
      lookup: lookup, isRegistration: true, before: before, verdict: verdict, isLookupNew: false)
    // Only its socket knows whether a flow works that sends from the address of a failed link (I2).
    let asksSocket =
      self.flow.namesSocket
      && (verdict?.isRefutable ?? lookup.reading.isSourceStranded)
    evaluation.asksSocket = asksSocket
    self.open = evaluation
    guard asksSocket else { return [] }
    return verdict != nil && !lookup.reading.path.isDropped ? [.askSocket, .askProof] : [.askSocket]
  }

  private mutating func look(_ lookup: Lookup, at now: Instant) -> [Action] {
    let before = self.tracker
    let path = lookup.reading.path
    var verdict = self.tracker.update(
      to: lookup.reading, slept: lookup.slept, policy: lookup.policy, at: now)
    // A registration would learn the same at this moment (E5).
    if verdict == nil, lookup.reading.isSourceStranded, !self.isStranded, !self.tracker.isInDoubt {
      verdict = FlowTracker.Verdict(.interfaceLost, .advise)
    }
    // Without the kernel nothing is known, and the flow stays spared (K8).
    let isLookupNew =
      path.status != .unknown && self.refutedPath?.isOtherLookup(than: path) ?? false
    var evaluation = Evaluation(
      lookup: lookup, isRegistration: false, before: before, verdict: verdict,
      isLookupNew: isLookupNew)
    evaluation.asksSocket =
      self.flow.namesSocket
      && (isLookupNew
        || self.examination.needsReport(
          on: verdict, isCertain: lookup.isCertain,
          isSound: path.status == .satisfied && self.isLookupTrusted, at: now))
    self.open = evaluation
    let asksProof =
      self.flow.namesSocket && !path.isDropped && (verdict?.isRefutable == true || isLookupNew)
    let asksContrast = self.examination.needsContrast(at: now)
    return (evaluation.asksSocket ? [.askSocket] : []) + (asksProof ? [.askProof] : [])
      + (asksContrast ? [.askContrast] : [])
  }
}

// MARK: - Reports

extension FlowMachine {
  private mutating func conclude(
    _ evaluation: Evaluation, _ report: SocketReport?, isProof: Bool, _ contrast: Contrast?,
    at now: Instant
  ) -> [Action] {
    let (lookup, path) = (evaluation.lookup, evaluation.lookup.reading.path)
    var verdict = evaluation.verdict
    if evaluation.isRegistration, verdict == nil, lookup.reading.isSourceStranded {
      verdict = self.beginStranded(report, isTunnelled: lookup.isTunnelled, at: now)
    }
    let disputed = self.examination.disputed
    let look = FlowExamination.Look(
      verdict, isCertain: lookup.isCertain,
      isProof: isProof || path.isDropped || !self.flow.namesSocket,
      drainsFirst: !evaluation.isRegistration,
      earliestQuestion: self.earliestQuestion(evaluation, at: now),
      isAdvised: !evaluation.isRegistration
        && verdict.map {
          evaluation.before.isReported(of: $0.reason) || disputed?.reason == $0.reason
        } ?? false,
      isDisputeStanding: disputed.map { $0.isEvent || self.tracker.holds($0.reason) } ?? false,
      isLookupNew: evaluation.isLookupNew,
      isSound: path.status == .satisfied && self.isLookupTrusted,
      isTunnelled: lookup.isTunnelled,
      // The end of a grace period belongs to the change that began it.
      change: lookup.change ?? self.inDoubtSince ?? now, report: report,
      contrast: contrast, at: now)
    let outcome = self.examination.conclude(look)
    self.inDoubtSince = self.doubt(after: evaluation)
    self.isStranded = lookup.reading.isSourceStranded
    self.refutedPath =
      evaluation.isLookupNew ? path : self.isSpared ? self.refutedPath ?? path : nil
    let isBetterPathGone = evaluation.before.hasBetterPath && !self.tracker.hasBetterPath
    return self.actions(outcome, isBetterPathGone: isBetterPathGone)
  }

  private func actions(_ outcome: FlowOutcome, isBetterPathGone: Bool) -> [Action] {
    let isGone: [Action] = isBetterPathGone ? [.betterPathGone] : []
    switch outcome {
    case .none: return isGone
    case .recovered: return isGone + [.recovered]
    case .question: return isGone + [.askPeer]
    case .verdict(let verdict) where verdict.severity == .destroy: return [.end(verdict)]
    case .verdict(let verdict):
      return verdict.asksPeer ? [.report(verdict), .askPeer] : [.report(verdict)]
    }
  }

  /// When its owner may ask its peer, or `nil` if it cannot. The answer to a registration contains
  /// no question, so the next evaluation asks.
  private func earliestQuestion(_ evaluation: Evaluation, at now: Instant) -> Instant? {
    guard self.flow.canBeAsked(on: evaluation.lookup.reading.path) else { return nil }
    return evaluation.isRegistration ? now.advanced(by: .milliseconds(1)) : now
  }

  /// The time of the lookup that found the flow in doubt, or `nil` if it is not in doubt. The lookup
  /// may have found a later change than the one that woke the thread, and data that arrived in
  /// between proves nothing. The loss of the flow's address is a change of its own, although its
  /// route was missing before.
  private func doubt(after evaluation: Evaluation) -> Instant? {
    guard self.tracker.isInDoubt else { return nil }
    let isOther = evaluation.verdict.map { !evaluation.before.isReported(of: $0.reason) } ?? false
    return (isOther ? nil : self.inDoubtSince) ?? evaluation.lookup.readAt
  }

  /// Judges a flow that is registered with the address of a failed link by its socket (I2).
  private mutating func beginStranded(
    _ report: SocketReport?, isTunnelled: Bool, at now: Instant
  ) -> FlowTracker.Verdict? {
    let evidence = report.map { SocketEvidence($0, on: now, at: now) }
    if let evidence, evidence.isSuspect { self.examination.suspect(evidence, at: now) }
    guard
      let severity = SocketEvidence.severityOfStranded(evidence, at: now, isTunnelled: isTunnelled)
    else { return nil }
    var verdict = FlowTracker.Verdict(.interfaceLost, severity, by: evidence)
    verdict.isCertain = severity == .destroy
    return verdict
  }

  /// Suspects a flow whose data is not acknowledged, and asks the peer of one that is idle (E2).
  private mutating func inquire(
    _ report: SocketReport, change: Instant, on path: KernelPath, at now: Instant
  ) -> [Action] {
    let evidence = SocketEvidence(report, on: change, at: now)
    if evidence.isSuspect {
      let advice = self.examination.suspect(evidence, at: now)
      return [.watch] + (advice.map { [.report($0)] } ?? [])
    }
    guard self.flow.canBeAsked(on: path), self.examination.question(evidence, at: now) else {
      return []
    }
    return [.watch, .askPeer]
  }
}

extension FlowMachine.Action {
  /// The verdict that the owner learns, if any.
  package var verdict: FlowTracker.Verdict? {
    switch self {
    case .report(let verdict), .end(let verdict): verdict
    case .askSocket, .askProof, .askContrast, .watch, .recovered, .betterPathGone, .askPeer: nil
    }
  }
}

extension KernelPath {
  /// Whether a lookup has another result than the one that a socket has refuted.
  fileprivate func isOtherLookup(than other: KernelPath) -> Bool {
    self.status != other.status || self.reason != other.reason
      || self.chain.first != other.chain.first
  }
}

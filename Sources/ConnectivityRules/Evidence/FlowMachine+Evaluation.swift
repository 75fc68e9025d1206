import Connectivity

// MARK: - Lookups

extension FlowMachine {
  mutating func begin(
    _ lookup: Lookup, since: Invalidation?, at now: Instant
  ) -> [Action] {
    let before = self.tracker
    let verdict = self.tracker.register(
      on: lookup.reading, since: since, policy: lookup.policy, at: now)
    var evaluation = Evaluation(
      lookup: lookup, isRegistration: true, before: before, verdict: verdict, isLookupNew: false,
      at: now)
    // If a flow sends from a failed link's address, only its socket shows whether it works (I2).
    let asksSocket =
      self.flow.namesSocket
      && (verdict?.isRefutable ?? lookup.reading.isSourceStranded)
    evaluation.asksSocket = asksSocket
    self.step = .evaluating(evaluation)
    guard asksSocket else { return [] }
    return verdict != nil && !lookup.reading.path.isDropped
      ? [.askSocket, .askProof] : [.askSocket]
  }

  mutating func examine(_ lookup: Lookup, at now: Instant) -> [Action] {
    let before = self.tracker
    let path = lookup.reading.path
    var verdict = self.tracker.update(
      to: lookup.reading, slept: lookup.slept, policy: lookup.policy, at: now)
    // A registration at this moment would have the same result (E5).
    if verdict == nil, lookup.reading.isSourceStranded, !self.isStranded, !self.tracker.isInDoubt {
      verdict = FlowTracker.Verdict(.interfaceLost, .advise)
    }
    // While the kernel is unavailable, the flow stays spared (K8).
    let isLookupNew =
      path.status != .unknown && self.refutedPath?.isOtherLookup(than: path) ?? false
    var evaluation = Evaluation(
      lookup: lookup, isRegistration: false, before: before, verdict: verdict,
      isLookupNew: isLookupNew, at: now)
    evaluation.asksSocket =
      self.flow.namesSocket
      && (isLookupNew
        || self.examination.needsReport(
          on: verdict, isCertain: lookup.isCertain,
          isSound: path.status == .satisfied && self.isLookupTrusted, at: now))
    self.step = .evaluating(evaluation)
    let asksProof =
      self.flow.namesSocket && !path.isDropped && (verdict?.isRefutable == true || isLookupNew)
    let asksContrast = self.examination.needsContrast(at: now)
    return (evaluation.asksSocket ? [.askSocket] : []) + (asksProof ? [.askProof] : [])
      + (asksContrast ? [.askContrast] : [])
  }
}

// MARK: - Reports

extension FlowMachine {
  mutating func conclude(
    _ evaluation: Evaluation, _ report: SocketReport?, isProof: Bool, _ contrast: Contrast?,
    at now: Instant
  ) -> [Action] {
    // Without a socket query, deadlines that have passed since the lookup are not considered.
    let now = evaluation.asksSocket ? now : evaluation.at
    let (lookup, path) = (evaluation.lookup, evaluation.lookup.reading.path)
    var verdict = evaluation.verdict
    if evaluation.isRegistration, verdict == nil, lookup.reading.isSourceStranded {
      verdict = self.beginStranded(report, isTunnelled: lookup.isTunnelled, at: now)
    }
    let disputed = self.examination.disputed
    let facts = FlowExamination.Facts(
      verdict, isCertain: lookup.isCertain,
      isProof: isProof || path.isDropped || !self.flow.namesSocket,
      drainsFirst: !evaluation.isRegistration,
      earliestQuestion: self.earliestQuestion(evaluation, at: now),
      isAdvised: !evaluation.isRegistration
        && verdict.map {
          evaluation.before.isReported(of: $0.reason) || disputed?.reason == $0.reason
        } ?? false,
      isDisputed: disputed.map { $0.isEvent || self.tracker.holds($0.reason) } ?? false,
      isLookupNew: evaluation.isLookupNew,
      isSound: path.status == .satisfied && self.isLookupTrusted,
      isTunnelled: lookup.isTunnelled,
      // The end of a grace period belongs to the change that began it.
      change: lookup.change ?? self.inDoubtSince ?? now, report: report,
      contrast: contrast, at: now)
    let outcome = self.examination.conclude(facts)
    self.inDoubtSince = self.doubt(after: evaluation)
    self.isStranded = lookup.reading.isSourceStranded
    self.isSourceForeign = lookup.reading.isSourceForeign
    if !self.isStranded {
      self.isAdvisedAsStranded = false
    } else if case .verdict(let verdict) = outcome, verdict.reason == .interfaceLost {
      self.isAdvisedAsStranded = true
    }
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

  /// Returns when the owner may ask its peer, or `nil` if it cannot ask. The answer to a
  /// registration contains no question, so the next evaluation asks.
  private func earliestQuestion(_ evaluation: Evaluation, at now: Instant) -> Instant? {
    guard self.flow.canBeAsked(on: evaluation.lookup.reading.path) else { return nil }
    return evaluation.isRegistration ? now.advanced(by: .milliseconds(1)) : now
  }

  /// Returns the time of the lookup that found the flow in doubt, or `nil` if it is not in doubt.
  /// That lookup may have found a later change than the change that woke the thread. Data that
  /// arrived between the two changes proves nothing. The loss of the flow's address is a separate
  /// change, even if the flow's route was missing before.
  private func doubt(after evaluation: Evaluation) -> Instant? {
    guard self.tracker.isInDoubt else { return nil }
    let isOther = evaluation.verdict.map { !evaluation.before.isReported(of: $0.reason) } ?? false
    return (isOther ? nil : self.inDoubtSince) ?? evaluation.lookup.readAt
  }

  /// Judges a flow that is registered with the address of a failed link, by its socket (I2).
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

  /// Handles the socket's report a second after a change (E2). Data without an acknowledgement
  /// makes the flow suspect. If the flow is idle, its owner must ask its peer.
  mutating func inquire(
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

extension KernelPath {
  /// Whether the path differs from that of a refuted lookup in its status, reason or out-link.
  fileprivate func isOtherLookup(than other: KernelPath) -> Bool {
    self.status != other.status || self.reason != other.reason
      || self.chain.first != other.chain.first
  }
}

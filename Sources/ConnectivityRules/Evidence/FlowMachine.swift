package import Connectivity

/// The state machine that guards one flow, from its registration to its end. It receives lookups of
/// the kernel and reports of the flow's socket, and returns actions.
///
/// An evaluation begins with a lookup. If that returns ``Action/askSocket``, the caller queries the
/// socket. ``Input/report(_:isProof:contrast:)`` ends the evaluation, with or without a report.
/// Until then the machine may be discarded without effect on the flow.
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
    /// How long the machine slept before the lookup (I6).
    package var slept: Duration?
    /// When the change behind the lookup happened, or `nil` if only time has passed.
    package var change: Instant?
    /// When the lookup was complete.
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
    /// The flow is registered. `since` is its invalidation while the flow was not guarded, if any.
    case registration(Lookup, since: Invalidation?)
    /// The network has changed, or the deadline has passed.
    case lookup(Lookup)
    /// The socket's report, or `nil` without one. `isProof` is whether the lookup is proof, and
    /// matters only after ``Action/askProof``. The contrast answers ``Action/askContrast``.
    case report(SocketReport?, isProof: Bool, contrast: Contrast?)
    /// The socket's report a second after a change that touches the flow (E2). `path` is the flow's
    /// current path.
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
    /// Report to the owner that the flow is in doubt.
    case report(FlowTracker.Verdict)
    /// Report to the owner that the flow is lost. The machine must not be used again.
    case end(FlowTracker.Verdict)
    /// The flow works after all. Its owner had received advice.
    case recovered
    case betterPathGone
    /// Ask the owner to ask its peer (E4).
    case askPeer
  }

  /// The state of the flow, derived from the machine's parts.
  package enum State: String, CaseIterable, Sendable {
    /// The flow does not have a path or an address yet.
    case awaitingPath
    case alive
    /// The flow's path or address is gone and may come back (I10).
    case inGrace
    /// The lookup declares the flow dead, and its socket may refute that (E1).
    case disputed
    /// The flow's socket has refuted the lookup.
    case spared
    /// The lookup declares the flow dead, and its peer cannot be asked.
    case drained
    /// The lookup succeeds, and the flow's socket has been silent since a change (E2).
    case suspected
    /// The kernel cannot be queried (K8).
    case kernelUnavailable
  }

  package internal(set) var tracker: FlowTracker
  var examination = FlowExamination()
  /// The path of the lookup that the flow's socket has refuted.
  var refutedPath: KernelPath?
  /// When the flow's grace period began, or its address was lost in that period; else `nil`.
  package internal(set) var inDoubtSince: Instant?
  /// Whether the flow's address is on a failed link while another link sends its packets (E5).
  package internal(set) var isStranded = false
  /// Whether the flow sends from the address of another link (E2).
  package internal(set) var isSourceForeign = false
  /// Whether the owner was advised because of `isStranded`.
  var isAdvisedAsStranded = false
  /// The evaluation that waits for a socket's report.
  var step = Step.idle

  /// Boxed, because flows are kept between evaluations, and an evaluation is large.
  indirect enum Step: Hashable, Sendable {
    case idle
    case evaluating(Evaluation)

    var evaluation: Evaluation? {
      if case .evaluating(let evaluation) = self { evaluation } else { nil }
    }
  }

  struct Evaluation: Hashable, Sendable {
    var lookup: Lookup
    var isRegistration: Bool
    /// The tracker before the lookup.
    var before: FlowTracker
    /// The news from the lookup, if any.
    var verdict: FlowTracker.Verdict?
    /// Whether the lookup differs from the lookup that the socket has refuted.
    var isLookupNew: Bool
    /// Whether the socket is queried about the lookup's verdict.
    var asksSocket = false
    /// The time of the lookup.
    var at: Instant
  }

  package init(_ tracker: FlowTracker) { self.tracker = tracker }

  package mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .registration(let lookup, let since):
      return self.begin(lookup, since: since, at: now)
    case .lookup(let lookup): return self.examine(lookup, at: now)
    case .report(let report, let isProof, let contrast):
      guard let evaluation = self.step.evaluation else { return [] }
      self.step = .idle
      return self.conclude(evaluation, report, isProof: isProof, contrast, at: now)
    case .inquiry(let report, let change, let path):
      return self.inquire(report, change: change, on: path, at: now)
    }
  }

  /// Handles a lookup and, if needed, the socket's report.
  ///
  /// - Parameters:
  ///   - lookup: An input with a lookup.
  ///   - began: The start of the grace period that the lookup begins, or `nil` for `now`.
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

  // MARK: - State

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

  /// Whether the machine's parts agree on exactly one state. They do so between two evaluations.
  package var isBetweenEvaluations: Bool {
    self.step == .idle && self.examination.dispute?.state != .open
      && (self.inDoubtSince != nil) == self.tracker.isInDoubt
      && (self.isStranded || !self.isAdvisedAsStranded)
  }

  /// When the flow must be evaluated even without a kernel message.
  package var deadline: Instant? {
    switch (self.tracker.deadline, self.examination.deadline) {
    case (let first?, let second?): min(first, second)
    case (let deadline, nil), (nil, let deadline): deadline
    }
  }

  /// Whether the flow continues although the lookup declares it dead.
  package var isSpared: Bool { self.examination.isSpared }

  /// How often the flow's socket has proved the lookup wrong.
  package var timesSpared: Int { self.examination.timesSpared }

  /// Whether the flow's lookup or socket shows that the flow works, so that silence is evidence
  /// (E2).
  package var isTrusted: Bool { self.isSpared || self.isLookupTrusted }

  /// Whether the last lookup showed a working path, and nothing disputes it.
  var isLookupTrusted: Bool {
    self.examination.dispute == nil && self.tracker.hasBegun && !self.tracker.isInDoubt
  }

  /// The gravest verdict that was reported and still applies, or `nil` for a flow that works.
  package var unresolved: FlowTracker.Verdict? {
    var unresolved: [FlowTracker.Verdict] = []
    if let dispute = self.examination.dispute {
      let isDrained = dispute.state == .drained || dispute.verdict.reason == .betterPath
      unresolved.append(.init(dispute.verdict.reason, isDrained ? .drain : .advise))
    }
    if let verdict = self.tracker.unresolved {
      // A flow that still exists after a `destroy` has a socket that has refuted the lookup.
      unresolved.append(
        .init(verdict.reason, verdict.severity == .destroy ? .advise : verdict.severity))
    }
    if self.isAdvisedAsStranded { unresolved.append(.init(.interfaceLost, .advise)) }
    if self.examination.suspicion?.isAdvised == true { unresolved.append(.init(.silent, .advise)) }
    let gravest = unresolved.map(\.severity).max()
    return unresolved.first { $0.severity == gravest }
  }

  /// The verdict of the lookup that is being evaluated. A `destroy` may still be refuted.
  package var pendingVerdict: FlowTracker.Verdict? { self.step.evaluation?.verdict }
}

extension FlowMachine.Action {
  /// The verdict for the owner, or `nil` if the action has none.
  package var verdict: FlowTracker.Verdict? {
    switch self {
    case .report(let verdict), .end(let verdict): verdict
    case .askSocket, .askProof, .askContrast, .watch, .recovered, .betterPathGone, .askPeer: nil
    }
  }
}

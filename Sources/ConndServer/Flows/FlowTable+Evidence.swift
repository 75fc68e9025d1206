import Connectivity
import ConnectivityRules

// Queries about the sockets of guarded flows, and their consequences (E1 to E3).
extension FlowTable {
  /// The result of one lookup of a flow, before its socket is queried.
  struct Look {
    var flow: GuardedFlow
    var way: FlowPath
    /// The flow's tracker after the lookup.
    var tracker: FlowTracker
    var verdict: FlowTracker.Verdict?
    var step: PendingCauses.Step
    /// Whether the flow's address and link are gone, which no socket can refute.
    var isCertain: Bool
    /// Whether the lookup is proof (E0). Only decided for a verdict that a socket may refute, and
    /// for a lookup that differs from the refuted one.
    var isProof = true
    /// The flow's path according to the lookup.
    var path: KernelPath
    /// Whether the flow's address is on a failed link while another link sends its packets (E5).
    var isStranded: Bool
    /// The time after the lookup.
    var readAt: Instant

    /// Whether the lookup differs from the one that the socket has refuted.
    var isLookupNew: Bool {
      guard let refuted = self.flow.refutedPath else { return false }
      return refuted.status != self.path.status || refuted.reason != self.path.reason
        || refuted.chain.first != self.path.chain.first
    }

    func needsReport(at now: Instant) -> Bool {
      self.flow.tracker.flow.namesSocket
        && (self.isLookupNew
          || self.flow.examination.needsReport(
            on: self.verdict, isCertain: self.isCertain, isSound: self.isSound, at: now))
    }

    /// Whether the flow's path carries traffic according to the lookup.
    private var isSound: Bool {
      self.path.status == .satisfied && self.flow.examination.disputed == nil
        && !self.tracker.isInDoubt
    }

    /// The time of the lookup that found the flow in doubt, or `nil` if it is not in doubt. The
    /// lookup may have found a later change than the one that woke the thread, and data that
    /// arrived in between proves nothing. The loss of the flow's address is a change of its own,
    /// although its route was missing before.
    var inDoubtSince: Instant? {
      guard self.tracker.isInDoubt else { return nil }
      let isOther = self.verdict.map { !self.flow.tracker.isReported(of: $0.reason) } ?? false
      return (isOther ? nil : self.flow.inDoubtSince) ?? self.readAt
    }

    /// Returns why the flow is not viable. A socket's decision has the cause that led to the query.
    func cause(of verdict: FlowTracker.Verdict) -> ChangeCause {
      if self.verdict == nil, let cause = self.flow.examinedCause { return cause }
      return self.step.trigger.cause(
        of: verdict, self.tracker.flow.destination.address.family,
        from: self.flow.tracker.path, to: self.way.shown)
    }

    func forExamination(_ report: SocketReport?, at now: Instant) -> FlowExamination.Look {
      let (flow, disputed) = (self.flow, self.flow.examination.disputed)
      return FlowExamination.Look(
        self.verdict, isCertain: self.isCertain, isProof: self.isProof,
        drainsFirst: true,
        earliestQuestion: self.tracker.flow.canBeAsked(on: self.path) ? now : nil,
        isAdvised: self.verdict.map {
          flow.tracker.isReported(of: $0.reason) || disputed?.reason == $0.reason
        } ?? false,
        isDisputeStanding: disputed.map { $0.isEvent || self.tracker.holds($0.reason) } ?? false,
        isLookupNew: self.isLookupNew,
        isSound: self.isSound,
        isTunnelled: self.way.facts.links.contains(where: \.isTunnel),
        // The end of a grace period belongs to the change that began it.
        change: self.step.time ?? flow.inDoubtSince ?? now, report: report, at: now)
    }
  }

  /// Returns the current instant.
  typealias Clock = () -> Instant

  /// Queries the sockets of the flows that need a report, in one batch. Also returns the time of
  /// the reports, because silence is measured at that time. The earlier lookups may have waited
  /// long for the kernel's locks.
  static func reports(
    for looks: [Look], _ reader: FlowReader, at now: Instant, _ clock: Clock?
  ) -> (reports: [SocketReport?], time: Instant) {
    var reports: [SocketReport?] = looks.map { _ in nil }
    let places = looks.indices.filter { looks[$0].needsReport(at: now) }
    let (answers, time) = Self.reports(
      on: places.map { looks[$0].flow.tracker.question }, reader, at: now, clock)
    for (place, answer) in zip(places, answers) { reports[place] = answer }
    return (reports, time)
  }

  /// Returns the reports of the connections' sockets, and the time after them. On a busy machine,
  /// the thread may pause between a report and its look at the clock.
  private static func reports(
    on connections: [Destination], _ reader: FlowReader, at now: Instant, _ clock: Clock?
  ) -> (reports: [SocketReport?], time: Instant) {
    guard !connections.isEmpty else { return ([], now) }
    let before = clock?() ?? now
    let reports = reader.view.socketReports(on: connections)
    let after = clock?() ?? now
    let dated = reports.map { report in
      var report = report
      report?.uncertainty = before.duration(to: after)
      return report
    }
    return (dated, after)
  }

  /// The number of flows that are queried before kernel messages are read again: about half a
  /// millisecond.
  private static let mostQuestions = 256

  /// Queries the next flows of an inquiry and suspects those whose data is not acknowledged (E2).
  /// For each idle flow that must be asked, returns a notification to its owner.
  mutating func ask(
    _ reader: FlowReader, at now: Instant, _ clock: Clock?
  ) -> [FlowNotification] {
    guard self.inquiry.isRunning else { return [] }
    var notifications: [FlowNotification] = []
    let (keys, change) = self.inquiry.take(Self.mostQuestions)
    let flows = keys.compactMap { self.entries[$0] }
      .filter { $0.takeIsTouched(by: change, isProof: { self.isLookupProof(reader) }) }
    let (reports, now) = Self.reports(on: flows.map(\.tracker.question), reader, at: now, clock)
    for (flow, report) in zip(flows, reports) {
      guard let report else { continue }
      let evidence = SocketEvidence(report, on: change.time, at: now)
      if evidence.isSuspect {
        flow.examination.suspect(evidence, at: now)
      } else if flow.tracker.flow.canBeAsked(on: flow.told),
        flow.examination.question(evidence, at: now)
      {
        notifications.append(
          FlowNotification(key: flow.key, event: .path(flow.told), askedUntil: .endOfQuestion))
      } else {
        continue
      }
      flow.examinedCause = self.inquiry.cause
      self.note(flow)
    }
    return notifications
  }
}

extension FlowReader {
  /// Whether the flow's address is gone, and its original link is gone or down.
  func isGone(_ reading: FlowReading, madeOn path: KernelPath) throws(KernelUnavailable) -> Bool {
    guard reading.isSourceGone, let link = path.chain.first?.index else { return false }
    let isGone = try self.view.unlessRefused { () throws(KernelUnavailable) in
      try self.view.link(link).map { $0.link.state == .down } ?? true
    }
    return isGone ?? false
  }
}

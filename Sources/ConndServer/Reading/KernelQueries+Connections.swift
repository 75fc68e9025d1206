import Connectivity
import ConnectivityRules

/// The answer to a client about one connection of this machine.
struct ConnectionReport: Sendable {
  /// The path that the connection's packets take now.
  var path: KernelPath
  /// The link with the connection's local address, or `nil` if the machine does not have it.
  var link: Link?
  /// The verdict, or `nil` for a connection that works.
  var verdict: FlowTracker.Verdict?
  /// The state of the connection's socket, or `nil` if the connection has just ended.
  var socket: SocketReport?
}

extension KernelQueries {
  /// The facts about connections besides the kernel's present state.
  struct History {
    var past: PastInvalidations
    /// The time of the last change that may have broken a path.
    var lastChange: Instant?
    /// The current verdicts of guarded connections, or `nil` for a working one.
    var verdicts: [Destination: FlowTracker.Verdict?]
  }

  /// Returns a report about each connection. A connection that `Guard` guards has its current
  /// verdict. Any other is judged as if it were registered now. Its age is unknown, but it existed
  /// when its peer was last heard, so the registration has the generation of that moment.
  func judge(
    _ connections: [FlowTable.Registration], _ history: History,
    _ policy: InvalidationPolicy, at now: Instant
  ) throws(KernelUnavailable) -> [ConnectionReport] {
    let reader = FlowReader(self.reader, self.view)
    let sockets = self.view.socketReports(on: connections.map(\.question))
    var reports: [ConnectionReport] = []
    for (connection, socket) in zip(connections, sockets) {
      let report = try self.view.unlessRefused { () throws(KernelUnavailable) in
        try self.judge(connection, socket, history, policy, reader, at: now)
      }
      reports.append(report ?? ConnectionReport(path: .unknown, socket: socket))
    }
    return reports
  }

  private func judge(
    _ connection: FlowTable.Registration, _ socket: SocketReport?, _ history: History,
    _ policy: InvalidationPolicy, _ reader: FlowReader, at now: Instant
  ) throws(KernelUnavailable) -> ConnectionReport {
    let question = connection.question
    var flowPath = try reader.flowPath(to: question)
    if case .unanswered(let reason) = flowPath.answer {
      throw KernelUnavailable(description: reason, isOfOneQuestion: true)
    }
    let owner = try connection.flow.local.flatMap { (local) throws(KernelUnavailable) in
      try self.view.owner(of: local)
    }
    let link = try owner.flatMap { (owner) throws(KernelUnavailable) in
      try self.view.link(owner)?.link
    }
    var report = ConnectionReport(path: flowPath.shown, link: link, socket: socket)
    if let verdict = history.verdicts[question.socket] {
      report.verdict = verdict
      return report
    }
    // If the peer was heard after the last change, the connection works on its current path (I0).
    let evidence = history.lastChange.flatMap { change in
      socket.map { SocketEvidence($0, on: change, at: now) }
    }
    let isHeardSince = evidence?.isAnsweredSince ?? false
    let left =
      isHeardSince
      ? nil
      : link.flatMap { link in
        history.past.departure(
          from: link.name, question.address.family, since: connection.sinceGeneration)
      }
    let wasMoved = flowPath.judged.status != .satisfied || left != nil
    let made = try wasMoved ? self.path(of: question, madeOn: link, flowPath, reader) : nil
    var reading = try reader.reading(
      of: question, madeOn: made ?? flowPath.judged, &flowPath)
    if made == nil, reading.isSourceGone { reading.sourceLoss = .final }
    let isAway = reading.path.status != .satisfied || reading.isSourceStranded
    var machine = FlowMachine(
      FlowTracker(connection.flow, on: made ?? flowPath.judged, network: flowPath.network))
    // If a grace period is running, it began no later than the last change.
    let began = min(history.lastChange ?? now, now)
    var lookup = FlowMachine.Lookup(
      reading, isCertain: try reader.isGone(reading, madeOn: made ?? flowPath.judged),
      isTunnelled: flowPath.isTunnelled, change: began, readAt: began, policy: policy)
    var actions = machine.evaluate(
      .registration(lookup, since: isAway ? left : nil), isProof: { self.view.isLookupProof() },
      report: { socket }, at: now, began: began)
    if case .report = actions.first, let end = machine.tracker.deadline, end <= now {
      lookup.change = nil
      actions = machine.evaluate(
        .lookup(lookup), isProof: { self.view.isLookupProof() }, report: { socket }, at: now)
    }
    report.verdict = actions.lazy.compactMap(\.verdict).first ?? machine.unresolved
    return report
  }

  /// Returns the path on which a connection was made, judging by the link that has the local
  /// address. Returns `nil` if no link or only loopback has that address.
  private func path(
    of question: Destination, madeOn link: Link?, _ present: FlowPath, _ reader: FlowReader
  ) throws(KernelUnavailable) -> KernelPath? {
    guard let link, !link.flags.contains(.loopback) else { return nil }
    var path = present.judged
    if path.chain.first?.index != link.index {
      var bound = question
      bound.outLink = link.index
      path = try reader.flowPath(to: bound).judged
    }
    if path.chain.first?.index != link.index {
      path = KernelPath(
        status: .satisfied, chain: [KernelPath.Link(index: link.index, name: link.name)],
        source: question.source)
    }
    (path.status, path.reason) = (.satisfied, nil)
    return path
  }
}

import Connectivity
import ConnectivityRules

/// The answer to a client about one connection of this machine.
struct ConnectionReport: Sendable {
  /// The path that its packets take now.
  var path: KernelPath
  /// The link with its own address, or `nil` if the machine does not have the address.
  var link: Link?
  /// The verdict, or `nil` for a connection that works.
  var verdict: FlowTracker.Verdict?
  /// The state of its socket, or `nil` if it has just ended.
  var socket: SocketReport?
}

extension KernelQueries {
  /// The facts about connections besides the kernel's present state.
  struct History {
    var past: PastInvalidations
    /// When anything last changed that may have cost a path.
    var lastChange: Instant?
    /// The standing verdicts of guarded connections. A working one has `nil`.
    var standing: [Destination: FlowTracker.Verdict?]
  }

  /// Judges connections. The verdict of `Guard` holds for the connections that it guards. The
  /// others are judged as `Guard` does when they are registered. When they were made is unknown,
  /// but a connection existed when its peer was last heard: the registration's generation is that
  /// of this moment.
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
    var way = try reader.way(to: question)
    if case .unanswered(let reason) = way.answer {
      throw KernelUnavailable(description: reason, isOfOneQuestion: true)
    }
    let owner = try connection.flow.local.flatMap { (local) throws(KernelUnavailable) in
      try self.view.owner(of: local)
    }
    let link = try owner.flatMap { (owner) throws(KernelUnavailable) in
      try self.view.link(owner)?.link
    }
    var report = ConnectionReport(path: way.shown, link: link, socket: socket)
    if let standing = history.standing[question.socket] {
      report.verdict = standing
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
    let wasMoved = way.judged.status != .satisfied || left != nil
    let made = try wasMoved ? self.path(of: question, madeOn: link, way, reader) : nil
    var reading = try reader.reading(
      of: question, madeOn: made ?? way.judged, &way)
    if made == nil, reading.isSourceGone { reading.sourceLoss = .final }
    let isAway = reading.path.status != .satisfied || reading.isSourceStranded
    var machine = FlowMachine(
      FlowTracker(connection.flow, on: made ?? way.judged, network: way.network))
    // A grace period that it is in began with the last change, if not before.
    let began = min(history.lastChange ?? now, now)
    var lookup = FlowMachine.Lookup(
      reading, isCertain: try reader.isGone(reading, madeOn: made ?? way.judged),
      isTunnelled: way.isTunnelled, change: now, readAt: began, policy: policy)
    var actions = machine.evaluate(
      .registration(lookup, since: isAway ? left : nil), isProof: { self.view.isLookupProof() },
      report: { socket }, at: now, began: began)
    if case .report = actions.first, let end = machine.tracker.deadline, end <= now {
      lookup.change = nil
      actions = machine.evaluate(
        .lookup(lookup), isProof: { self.view.isLookupProof() }, report: { socket }, at: now)
    }
    report.verdict = actions.lazy.compactMap(\.verdict).first ?? machine.standing
    return report
  }

  /// Returns the path on which a connection was made, by the link of its own address. Returns `nil`
  /// if that is its present path.
  private func path(
    of question: Destination, madeOn link: Link?, _ present: FlowPath, _ reader: FlowReader
  ) throws(KernelUnavailable) -> KernelPath? {
    guard let link, !link.flags.contains(.loopback) else { return nil }
    var path = present.judged
    if path.chain.first?.index != link.index {
      var bound = question
      bound.outLink = link.index
      path = try reader.way(to: bound).judged
    }
    if path.chain.first?.index != link.index {
      path = KernelPath(
        status: .satisfied, chain: [PathLink(index: link.index, name: link.name)],
        source: question.source)
    }
    (path.status, path.reason) = (.satisfied, nil)
    return path
  }
}

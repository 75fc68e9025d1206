import Connectivity
import ConnectivityRules

// How well links pass traffic.
extension MonitorLoop {
  /// The minimum interval between examinations of sockets (Q4).
  private static let censusInterval = Duration.seconds(1)

  /// Changes the conditions, and notes that the kernel must be read for the effect on paths.
  mutating func change(_ body: (inout LinkConditions) -> Void) {
    let former = self.engine.conditions.reports
    body(&self.engine.conditions)
    if self.engine.conditions.reports != former { self.note(.quality) }
  }

  /// Notes a client's report about its attempt to connect over the default path.
  ///
  /// - Returns: The quality for the client's traffic.
  mutating func note(
    _ outcome: AttemptOutcome, to destination: Destination
  ) -> KernelAnswer<LinkQuality> {
    let path: KernelPath
    switch self.ask({ queries throws(KernelUnavailable) in try queries.path(to: destination) }) {
    case .success(let found): path = found
    case .failure(let error): return .failure(error)
    }
    self.feed.statistics.count(outcome)
    guard let link = path.chain.first?.index else { return .success(path.quality) }
    let now = self.clock.now
    let attempt = LinkAttempt(outcome, to: destination.address, by: destination.uid)
    let census = outcome.isTrouble ? self.census(of: link, beside: destination.uid, at: now) : nil
    self.change { conditions in
      if let census { conditions.handle(.census(census), on: link, at: now) }
      conditions.handle(.attempt(attempt), on: link, at: now)
    }
    return .success(self.engine.conditions.quality(of: path.chain, for: destination.uid))
  }

  /// Examines the sockets of other users' flows on a link, because a user's report counts for that
  /// user only (Q3). Returns `nil` if sockets were examined within the last second.
  private mutating func census(
    of link: UInt32, beside user: UInt32, at now: Instant
  ) -> SocketCensus? {
    if let next = self.pauses.census, next > now { return nil }
    self.pauses.census = now.advanced(by: Self.censusInterval)
    let flows = self.engine.flows.connections(on: link, beside: user)
    let reports = self.ask { queries throws(KernelUnavailable) in
      queries.view.socketReports(on: flows)
    }
    var census = SocketCensus()
    for (flow, report) in zip(flows, (try? reports.get()) ?? []) {
      if let report { census.count(report, of: flow.address) }
    }
    return census
  }
}

extension AttemptOutcome {
  /// Whether the outcome is a reason to examine sockets.
  fileprivate var isTrouble: Bool { self == .contrast || self == .stalled }
}

extension FlowTable {
  /// The maximum number of sockets per examination, which takes about a millisecond.
  private static let maxCensus = 512

  /// Returns connections on a link that do not belong to a user, as questions about their sockets.
  func connections(on link: UInt32, beside user: UInt32) -> [Destination] {
    self.entries.values.lazy.filter { flow in
      let tracker = flow.tracker
      return tracker.flow.namesSocket && tracker.flow.destination.uid != user
        && tracker.path.chain.first?.index == link
    }.prefix(Self.maxCensus).map(\.tracker.question)
  }
}

import Connectivity
import ConnectivityRules
import LinuxSupport

// How well links pass traffic.
extension MonitorLoop {
  /// The minimum interval between examinations of sockets (Q4).
  private static let censusInterval = Duration.seconds(1)

  /// Changes the conditions, and notes that the kernel must be read for the effect on paths. A
  /// quality for one user's traffic concerns only that user's connections and watched paths.
  mutating func change(_ body: (inout LinkConditions) -> Void) {
    let former = self.engine.conditions.reports
    body(&self.engine.conditions)
    guard let users = self.engine.conditions.users(differingFrom: former) else {
      return self.note(.quality)
    }
    // The status describes root's traffic.
    if users.contains(0) { self.note(.quality) } else { self.engine.examine(trafficOf: users) }
  }

  /// Notes a client's report about its attempt to connect over the default path.
  ///
  /// - Returns: The quality for the client's traffic.
  mutating func note(
    _ outcome: AttemptOutcome, to destination: Destination, by person: Account
  ) -> KernelAnswer<LinkQuality> {
    let path: KernelPath
    switch self.ask({ queries throws(KernelUnavailable) in try queries.path(to: destination) }) {
    case .success(let found): path = found
    case .failure(let error): return .failure(error)
    }
    self.feed.statistics.count(outcome)
    guard let link = path.chain.first?.index else { return .success(path.quality) }
    let now = self.clock.now
    let attempt = LinkAttempt(
      outcome, to: destination.address, by: destination.uid, of: person.number)
    let census = outcome.isTrouble ? self.census(of: link, beside: person, at: now) : nil
    self.change { conditions in
      if let census { conditions.handle(.census(census), on: link, at: now) }
      conditions.handle(.attempt(attempt), on: link, at: now)
    }
    return .success(self.engine.conditions.quality(of: path.chain, for: destination.uid))
  }

  /// Examines the sockets of other persons' flows on a link, because a user's report counts for
  /// that user only (Q3). A socket counts only if the user that owns it has registered it. Returns
  /// `nil` if the link has no such flows, or if they were examined within the last second.
  private mutating func census(
    of link: UInt32, beside person: Account, at now: Instant
  ) -> SocketCensus? {
    self.pauses.censuses = self.pauses.censuses.filter { $0.value > now }
    guard self.pauses.censuses[link] == nil else { return nil }
    let flows = self.engine.flows.connections(on: link, beside: person)
    guard !flows.isEmpty else { return nil }
    self.pauses.censuses[link] = now.advanced(by: Self.censusInterval)
    let reports = self.ask { queries throws(KernelUnavailable) in
      queries.view.socketReports(on: flows.map(\.tracker.question))
    }
    var census = SocketCensus()
    for (flow, report) in zip(flows, (try? reports.get()) ?? []) {
      let destination = flow.flow.destination
      guard let report, report.owner == destination.uid else { continue }
      census.count(report, of: destination.address, by: flow.account.number)
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
  /// The maximum number of one person's sockets: enough for several hosts.
  private static let maxOfPerson = 16

  /// Returns the last connections on a link that each person except `person` has registered.
  fileprivate func connections(on link: UInt32, beside person: Account) -> [GuardedFlow] {
    var counts: [Account: Int] = [person: Self.maxOfPerson]
    let found = self.flows.reversed().lazy.filter { flow in
      guard flow.flow.namesSocket, counts[flow.account, default: 0] < Self.maxOfPerson,
        flow.tracker.path.chain.first?.index == link
      else { return false }
      counts[flow.account, default: 0] += 1
      return true
    }
    return Array(found.prefix(Self.maxCensus))
  }
}

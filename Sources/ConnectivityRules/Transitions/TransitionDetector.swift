package import Connectivity

/// The detector of transitions and path changes in readings, by the rules T1 to T5.
///
/// A value without a clock. It keeps the published state, compares each reading with that state,
/// and returns the change to publish.
///
/// Implements rules T3 and I5.
package struct TransitionDetector: Hashable, Sendable {
  /// The snapshot published last. The next reading is compared only with this snapshot (T4).
  package private(set) var snapshot: ConnectivitySnapshot
  /// The address family that decides a tie (K7).
  package var preferred: AddressFamily

  private var ipv4: PathTracker
  private var ipv6: PathTracker

  /// - Parameters:
  ///   - restored: The snapshot that an earlier run published last. Without it, the first reading
  ///     is a transition from `unknown`.
  ///   - preferred: The address family that decides a tie (K7).
  package init(restored: ConnectivitySnapshot? = nil, preferred: AddressFamily = .ipv4) {
    let nothing = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: preferred)
    self.snapshot =
      restored
      ?? ConnectivitySnapshot(generation: 0, since: WallTime(microseconds: 0), status: nothing)
    self.preferred = preferred
    // This run does not know which ports of switches the earlier run found.
    self.ipv4 = PathTracker(CandidatePath(self.snapshot.status.ipv4, knownLinks: 1))
    self.ipv6 = PathTracker(CandidatePath(self.snapshot.status.ipv6, knownLinks: 1))
  }

  /// The paths that were compared last.
  var observation: Observation {
    Observation(ipv4: self.ipv4.published, ipv6: self.ipv6.published)
  }

  /// Returns a new generation for another event after the last change.
  mutating func takeGeneration() -> UInt64 {
    self.snapshot.generation += 1
    return self.snapshot.generation
  }

  /// Shifts times after the wall clock was set, so that durations stay the same.
  mutating func shiftTimes(by step: Duration) {
    self.snapshot.since = self.snapshot.since.advanced(by: step)
  }

  /// Compares the DNS settings with the published ones.
  ///
  /// - Parameter learntLate: Whether the time of the change is unknown because connd was not
  ///   running.
  /// - Returns: The change to publish. Settings that become known for the first time are not a
  ///   change. They are part of the next publication.
  mutating func update(
    to settings: DNSSettings, learntLate: Bool, time: WallTime
  ) -> ConnectivityChange? {
    guard let before = self.snapshot.dns else {
      self.snapshot.dns = settings
      return nil
    }
    guard var cause = settings.cause(since: before) else { return nil }
    cause.learntLate = learntLate
    self.snapshot.dns = settings
    return .dns(
      ConnectivityChange.DNSChange(
        generation: self.takeGeneration(), settings: settings, cause: cause, time: time))
  }

  /// Compares a reading with the published state.
  ///
  /// - Parameters:
  ///   - observed: The reading.
  ///   - trigger: The reason for the reading. Its messages contain the evidence of bounces, and the
  ///     cause.
  ///   - time: The wall-clock time of the reading.
  /// - Returns: The change to publish, if any. A batch of messages leads to at most one change.
  package mutating func update(
    to observed: Observation, on trigger: ReadTrigger, time: WallTime
  ) -> ConnectivityChange? {
    self.compare(observed, on: trigger, time: time).change
  }

  /// Compares a reading with the published state, and also returns whether traffic flows as before.
  /// If so, only connd's knowledge of the path differs, and a changed category ends no connections.
  /// The change is then a transition only if another source reported it, and not if the kernel
  /// merely revealed more.
  mutating func compare(
    _ observed: Observation, on trigger: ReadTrigger, time: WallTime
  ) -> (change: ConnectivityChange?, isSameRoute: Bool) {
    let events: [KernelEvent] = if case .events(let events) = trigger { events } else { [] }
    let ipv4 = self.ipv4.update(to: observed.ipv4, after: events)
    let ipv6 = self.ipv6.update(to: observed.ipv6, after: events)
    func outcome(_ family: AddressFamily) -> PathTracker.Outcome { family == .ipv4 ? ipv4 : ipv6 }

    let before = self.snapshot.status
    let after = ConnectivityStatus(
      ipv4: self.ipv4.published.path, ipv6: self.ipv6.published.path, preferred: self.preferred)

    let isSameRoute = before.family == after.family && outcome(after.family).isSameRoute
    guard after != before || ipv4.bounced || ipv6.bounced else { return (nil, isSameRoute) }

    // A bounce of the family that the summary follows from now on also counts.
    let bounced = outcome(before.family).bounced || outcome(after.family).bounced
    let isLearnt = isSameRoute && !trigger.isOfOtherSource
    let isTransition = after.category != before.category && !isLearnt || bounced
    // The former path explains a loss, the new path a gain.
    let families =
      before.path.status == .satisfied
      ? [before.family, after.family] : [after.family, before.family]
    let family =
      (families + AddressFamily.allCases).first { before[$0] != after[$0] || outcome($0).bounced }
      ?? after.family
    let tracker = family == .ipv4 ? self.ipv4 : self.ipv6
    let cause =
      trigger.cause ?? tracker.cause(of: outcome(family), after: events, family: family)
    self.snapshot = ConnectivitySnapshot(
      generation: self.snapshot.generation + 1,
      since: isTransition ? time : self.snapshot.since,
      status: after, dns: self.snapshot.dns)
    let change: ConnectivityChange =
      isTransition
      ? .transition(
        ConnectivityChange.Transition(
          from: before.category, to: after.category, bounced: bounced, cause: cause,
          time: time, snapshot: self.snapshot))
      : .path(ConnectivityChange.PathChange(cause: cause, time: time, snapshot: self.snapshot))
    return (change, isSameRoute)
  }
}

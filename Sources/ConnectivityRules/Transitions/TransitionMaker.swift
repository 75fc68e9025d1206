package import Connectivity

/// Makes changes out of readings: rules T1 to T5.
///
/// It holds what was published, compares each reading with it, and returns what is to be published now. It has no clock.
package struct TransitionMaker: Hashable, Sendable {
  /// What was published last. What comes next is compared with this and with nothing else (T4).
  package private(set) var snapshot: Snapshot
  /// The family that decides at a tie (K7).
  package var preferred: AddressFamily

  private var ipv4: PathTracker
  private var ipv6: PathTracker

  /// - Parameters:
  ///   - restored: what an earlier run published last; without it nothing was ever published, and the first reading is a
  ///     transition from `unknown`.
  ///   - preferred: the family that decides at a tie (K7).
  package init(restored: Snapshot? = nil, preferred: AddressFamily = .ipv4) {
    let nothing = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: preferred)
    self.snapshot =
      restored
      ?? Snapshot(generation: 0, since: Timestamp(microseconds: 0), status: nothing)
    self.preferred = preferred
    self.ipv4 = PathTracker(ObservedPath(self.snapshot.status.ipv4))
    self.ipv6 = PathTracker(ObservedPath(self.snapshot.status.ipv6))
  }

  /// The generation of something else that is published after the last change.
  mutating func takeGeneration() -> UInt64 {
    self.snapshot.generation += 1
    return self.snapshot.generation
  }

  /// The wall clock was set: what holds has held for as long as before.
  mutating func shiftTimes(by step: Duration) {
    self.snapshot.since = self.snapshot.since.advanced(by: step)
  }

  /// Compares whom names are asked of with what was published.
  ///
  /// - Parameter learntLate: connd was away: when it changed is not known.
  /// - Returns: what is to be published. What is known for the first time is no change, and part of whatever is published next.
  mutating func update(
    to settings: DNSSettings, learntLate: Bool, time: Timestamp
  ) -> Change? {
    guard let before = self.snapshot.dns else {
      self.snapshot.dns = settings
      return nil
    }
    guard var cause = settings.cause(since: before) else { return nil }
    cause.learntLate = learntLate
    self.snapshot.dns = settings
    return .dns(
      DNSChange(generation: self.takeGeneration(), settings: settings, cause: cause, time: time))
  }

  /// Compares a reading with what was published.
  ///
  /// - Parameters:
  ///   - observed: the reading.
  ///   - occasion: why the kernel was read: the messages hold the evidence of bounces, and the cause.
  ///   - time: the moment of the reading by the wall clock.
  /// - Returns: what is to be published; at most one change, for what a batch of messages led to is told as one.
  package mutating func update(
    to observed: Observation, on occasion: Occasion, time: Timestamp
  ) -> Change? {
    let events: [KernelEvent] = if case .events(let events) = occasion { events } else { [] }
    let ipv4 = self.ipv4.update(to: observed.ipv4, after: events)
    let ipv6 = self.ipv6.update(to: observed.ipv6, after: events)
    func outcome(_ family: AddressFamily) -> PathTracker.Outcome { family == .ipv4 ? ipv4 : ipv6 }

    let before = self.snapshot.status
    let after = ConnectivityStatus(
      ipv4: self.ipv4.published.path, ipv6: self.ipv6.published.path, preferred: self.preferred)

    guard after != before || ipv4.bounced || ipv6.bounced else { return nil }

    // Also where the family that takes over from a lost one went for a moment.
    let bounced = outcome(before.family).bounced || outcome(after.family).bounced
    let isTransition = after.category != before.category || bounced
    // What went explains a loss, what came a gain.
    let families =
      before.path.status == .satisfied
      ? [before.family, after.family] : [after.family, before.family]
    let family =
      (families + AddressFamily.allCases).first { before[$0] != after[$0] || outcome($0).bounced }
      ?? after.family
    let tracker = family == .ipv4 ? self.ipv4 : self.ipv6
    var cause =
      occasion.cause ?? tracker.cause(of: outcome(family), after: events, family: family)
    // Nothing else makes a path another one by itself (T1).
    if occasion == .timer { cause = Cause(.timer, "holdEnded", interface: after.interface) }
    self.snapshot = Snapshot(
      generation: self.snapshot.generation + 1,
      since: isTransition ? time : self.snapshot.since,
      status: after, dns: self.snapshot.dns)
    return isTransition
      ? .transition(
        Transition(
          from: before.category, to: after.category, bounced: bounced, cause: cause,
          time: time, snapshot: self.snapshot))
      : .path(PathChange(cause: cause, time: time, snapshot: self.snapshot))
  }
}

package import Connectivity

/// The detector of everything that is published after a reading: the transition or path change,
/// then its invalidations (I9).
///
/// Implements rule I7.
package struct ChangeDetector: Hashable, Sendable {
  private var transitions: TransitionDetector
  private var invalidations: InvalidationDetector
  private var open: OpenComparison?

  /// The result of a reading.
  package struct Step: Hashable, Sendable {
    /// In the order of publication.
    package var changes: [ConnectivityChange] = []
    /// When to read again even without a kernel message.
    package var deadline: Instant?
  }

  /// The default paths and their channels as one reading shows them.
  package struct Reading: Hashable, Sendable {
    /// The paths that new connections get.
    package var observation: Observation
    /// The networks that these paths use, as far as known.
    package var networks: [AddressFamily: NetworkIdentity]
    /// The readings of the followed paths, by their IDs.
    package var followed: [UInt64: FlowReading]
    /// The lost addresses among `formerSources`, and whether they may come back.
    package var lostSources: [InvalidationDetector.AddressOnLink: FlowReading.SourceLoss]

    package init(
      _ observation: Observation, networks: [AddressFamily: NetworkIdentity] = [:],
      followed: [UInt64: FlowReading] = [:],
      lostSources: [InvalidationDetector.AddressOnLink: FlowReading.SourceLoss] = [:]
    ) {
      self.observation = observation
      self.networks = networks
      self.followed = followed
      self.lostSources = lostSources
    }
  }

  /// - Parameters:
  ///   - restored: The snapshot that an earlier run published last.
  ///   - preferred: The address family that decides a tie (K7).
  package init(
    restored: ConnectivitySnapshot? = nil, preferred: AddressFamily = .ipv4,
    policy: InvalidationPolicy = InvalidationPolicy()
  ) {
    self.transitions = TransitionDetector(restored: restored, preferred: preferred)
    self.invalidations = InvalidationDetector(policy, restored: restored)
  }

  /// The snapshot published last.
  package var snapshot: ConnectivitySnapshot { self.transitions.snapshot }
  /// Returns the path published last, at less cost than the whole snapshot.
  package func published(_ family: AddressFamily) -> KernelPath {
    self.transitions.snapshot.status[family]
  }
  /// The addresses that existing channels may use although new connections do not get them.
  package var formerSources: [InvalidationDetector.AddressOnLink] {
    self.invalidations.formerSources
  }
  /// The default paths that channels may use.
  package var followed: [TrackedDefaultPath] { self.invalidations.followed }

  package var preferred: AddressFamily {
    get { self.transitions.preferred }
    set { self.transitions.preferred = newValue }
  }

  package var policy: InvalidationPolicy {
    get { self.invalidations.policy }
    set { self.invalidations.policy = newValue }
  }

  /// Shifts times after the wall clock was set, so that durations stay the same.
  package mutating func shiftTimes(by step: Duration) { self.transitions.shiftTimes(by: step) }

  /// Compares the DNS settings with the published ones.
  ///
  /// - Parameter learntLate: Whether the time of the change is unknown.
  package mutating func update(
    to settings: DNSSettings, learntLate: Bool = false, time: WallTime
  ) -> ConnectivityChange? {
    self.transitions.update(to: settings, learntLate: learntLate, time: time)
  }

  /// A comparison before its invalidations are determined.
  private struct OpenComparison: Hashable {
    /// The transition or path change.
    var change: ConnectivityChange?
    /// The status before the change.
    var before: ConnectivityStatus
    var isSameRoute: Bool
    var trigger: ReadTrigger
    var time: WallTime
  }

  /// Compares the default paths with the published ones. ``conclude(with:isSettled:at:)`` must
  /// follow.
  ///
  /// - Parameters:
  ///   - trigger: The reason for the reading.
  ///   - time: The wall-clock time of the reading.
  /// - Returns: The transition or path change to publish, or nothing.
  package mutating func compare(
    _ observation: Observation, on trigger: ReadTrigger, time: WallTime
  ) -> [ConnectivityChange] {
    let before = self.transitions.snapshot.status
    let (change, isSameRoute) = self.transitions.compare(observation, on: trigger, time: time)
    self.open = OpenComparison(
      change: change, before: before, isSameRoute: isSameRoute, trigger: trigger, time: time)
    return change.map { [$0] } ?? []
  }

  /// Determines which channels the last comparison invalidates.
  ///
  /// - Parameters:
  ///   - reading: The paths of the comparison and their channels.
  ///   - isSettled: Whether the channels were read. If not, another step must follow.
  ///   - now: The instant of the reading, never earlier than the previous one.
  package mutating func conclude(
    with reading: Reading, isSettled: Bool = true, at now: Instant
  ) -> Step {
    guard let open = self.open else { return Step(deadline: self.invalidations.deadline) }
    self.open = nil
    let slept: Duration? = if case .resumed(let duration) = open.trigger { duration } else { nil }
    let drafts = self.invalidations.update(
      to: reading, change: open.change, from: open.before, slept: slept,
      isSameRoute: open.isSameRoute, isSettled: isSettled, at: now)
    let invalidations = drafts.map { draft in
      let family = draft.scope.family
      return ConnectivityChange.invalidation(
        Invalidation(
          generation: self.transitions.takeGeneration(), reason: draft.reason,
          severity: draft.severity, scope: draft.scope,
          cause: open.trigger.cause(
            of: draft, open.change, from: family.map { open.before[$0] },
            to: family.map { reading.observation[$0].path }),
          time: open.time))
    }
    return Step(changes: invalidations, deadline: self.invalidations.deadline)
  }

  /// Concludes a comparison without the state of the channels: it cannot be read, or has changed
  /// since the comparison.
  package mutating func concludeUnread(at now: Instant) -> Step {
    self.conclude(with: Reading(self.transitions.observation), isSettled: false, at: now)
  }

  /// Compares a reading with the published state, and concludes.
  package mutating func update(
    to reading: Reading, on trigger: ReadTrigger, at now: Instant, time: WallTime
  ) -> Step {
    let changes = self.compare(reading.observation, on: trigger, time: time)
    var step = self.conclude(with: reading, at: now)
    step.changes = changes + step.changes
    return step
  }
}

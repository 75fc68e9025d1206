package import Connectivity

/// The detector of everything that is published after a reading: the transition or path change,
/// then its invalidations (I9).
///
/// Implements rule I7.
package struct ChangeDetector: Hashable, Sendable {
  private var transitions: TransitionDetector
  private var invalidations: InvalidationDetector

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

  /// Compares a reading with the published state.
  ///
  /// - Parameters:
  ///   - trigger: The reason for the reading.
  ///   - now: The instant of the reading, never earlier than the previous one.
  ///   - time: The same moment by the wall clock.
  package mutating func update(
    to reading: Reading, on trigger: ReadTrigger, at now: Instant, time: WallTime
  ) -> Step {
    let before = self.transitions.snapshot.status
    let (change, isSameRoute) = self.transitions.compare(
      reading.observation, on: trigger, time: time)
    let slept: Duration? = if case .resumed(let duration) = trigger { duration } else { nil }
    let drafts = self.invalidations.update(
      to: reading, change: change, from: before, slept: slept, isSameRoute: isSameRoute, at: now)

    var step = Step()
    step.changes = change.map { [$0] } ?? []
    for draft in drafts {
      let family = draft.scope.family
      step.changes.append(
        .invalidation(
          Invalidation(
            generation: self.transitions.takeGeneration(), reason: draft.reason,
            severity: draft.severity, scope: draft.scope,
            cause: trigger.cause(
              of: draft, change, from: family.map { before[$0] },
              to: family.map { reading.observation[$0].path }),
            time: time)))
    }
    step.deadline = self.invalidations.deadline
    return step
  }
}

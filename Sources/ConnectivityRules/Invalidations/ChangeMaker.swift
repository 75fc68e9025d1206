package import Connectivity

/// Makes all that is published out of readings: the transition or path change, and then its invalidations (I9).
package struct ChangeMaker: Hashable, Sendable {
  private var transitions: TransitionMaker
  private var invalidations: InvalidationMaker

  /// What a reading leads to.
  package struct Step: Hashable, Sendable {
    /// In the order in which they are published.
    package var changes: [Change] = []
    /// When to read again although the kernel says nothing.
    package var deadline: Instant?
  }

  /// What one reading shows of the default paths and of the channels on them.
  package struct Reading: Hashable, Sendable {
    /// The paths that are to be published.
    package var observation: Observation
    /// What new connections get: the same, but where a link's gain is held back (T1).
    package var present: [AddressFamily: PresentPath]
    /// What became of the paths that are followed, by their ids.
    package var followed: [UInt64: FlowReading]
    /// Those of `formerSources` that are gone.
    package var lostSources: Set<InvalidationMaker.AddressOnLink>

    package init(
      _ observation: Observation, present: [AddressFamily: PresentPath] = [:],
      followed: [UInt64: FlowReading] = [:],
      lostSources: Set<InvalidationMaker.AddressOnLink> = []
    ) {
      self.observation = observation
      self.present = present
      self.followed = followed
      self.lostSources = lostSources
    }
  }

  /// - Parameters:
  ///   - restored: what an earlier run published last.
  ///   - preferred: the family that decides at a tie (K7).
  package init(
    restored: Snapshot? = nil, preferred: AddressFamily = .ipv4,
    policy: InvalidationPolicy = InvalidationPolicy()
  ) {
    self.transitions = TransitionMaker(restored: restored, preferred: preferred)
    self.invalidations = InvalidationMaker(policy, restored: restored)
  }

  /// What was published last.
  package var snapshot: Snapshot { self.transitions.snapshot }
  /// The addresses whose loss matters although no new connections get them.
  package var formerSources: [InvalidationMaker.AddressOnLink] { self.invalidations.formerSources }
  /// The default paths that channels may be on.
  package var followed: [FollowedPath] { self.invalidations.followed }

  package var preferred: AddressFamily {
    get { self.transitions.preferred }
    set { self.transitions.preferred = newValue }
  }

  package var policy: InvalidationPolicy {
    get { self.invalidations.policy }
    set { self.invalidations.policy = newValue }
  }

  /// The wall clock was set: what holds has held for as long as before.
  package mutating func shiftTimes(by step: Duration) { self.transitions.shiftTimes(by: step) }

  /// Compares whom names are asked of with what was published.
  ///
  /// - Parameter learntLate: when it changed is not known.
  package mutating func update(
    to settings: DNSSettings, learntLate: Bool = false, time: Timestamp
  ) -> Change? {
    self.transitions.update(to: settings, learntLate: learntLate, time: time)
  }

  /// Compares a reading with what was published.
  ///
  /// - Parameters:
  ///   - occasion: why the kernel was read.
  ///   - now: the instant of the reading; never earlier than that of the reading before.
  ///   - time: the same moment by the wall clock.
  package mutating func update(
    to reading: Reading, on occasion: Occasion, at now: Instant, time: Timestamp
  ) -> Step {
    let before = self.transitions.snapshot.status
    let change = self.transitions.update(to: reading.observation, on: occasion, time: time)
    let slept: Duration? = if case .resumed(let duration) = occasion { duration } else { nil }
    let drafts = self.invalidations.update(
      to: reading, change: change, from: before, slept: slept, isOnlyNamed: occasion.onlyRenames,
      at: now)

    var step = Step()
    step.changes = change.map { [$0] } ?? []
    for draft in drafts {
      let family = draft.scope.family
      step.changes.append(
        .invalidation(
          Invalidation(
            generation: self.transitions.takeGeneration(), reason: draft.reason,
            severity: draft.severity, scope: draft.scope,
            cause: occasion.cause(
              of: draft, change, from: family.map { before[$0] },
              to: family.flatMap { reading.present[$0]?.path }),
            time: time)))
    }
    step.deadline = self.invalidations.deadline
    return step
  }
}

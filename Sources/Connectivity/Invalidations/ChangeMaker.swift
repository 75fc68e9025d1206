/// Makes all that is published out of readings: the transition or path change, and then its invalidations (I9).
public struct ChangeMaker: Hashable, Sendable {
  private var transitions: TransitionMaker
  private var invalidations: InvalidationMaker

  /// What a reading leads to.
  public struct Step: Hashable, Sendable {
    /// In the order in which they are published.
    public var changes: [Change] = []
    /// What the category did, for those who know their flows.
    public var categoryChange: FlowTracker.CategoryChange?
    /// When to read again although the kernel says nothing.
    public var deadline: Instant?
  }

  /// What one reading shows of the default paths and of the channels on them.
  public struct Reading: Hashable, Sendable {
    public var observation: Observation
    public var flows: [AddressFamily: FlowReading]
    /// Those of `sources` that are gone.
    public var lostSources: Set<InvalidationMaker.AddressOnLink>

    public init(
      _ observation: Observation, flows: [AddressFamily: FlowReading] = [:],
      lostSources: Set<InvalidationMaker.AddressOnLink> = []
    ) {
      self.observation = observation
      self.flows = flows
      self.lostSources = lostSources
    }
  }

  /// - Parameters:
  ///   - restored: what an earlier run published last.
  ///   - preferred: the family that decides at a tie (K7).
  public init(
    restored: Snapshot? = nil, preferred: AddressFamily = .ipv4,
    policy: InvalidationPolicy = InvalidationPolicy()
  ) {
    self.transitions = TransitionMaker(restored: restored, preferred: preferred)
    self.invalidations = InvalidationMaker(policy, restored: restored)
  }

  /// What was published last.
  public var snapshot: Snapshot { self.transitions.snapshot }
  /// The addresses whose loss matters.
  public var sources: [InvalidationMaker.AddressOnLink] { self.invalidations.sources }
  /// What the default path of a family was, of which channels may still be there.
  public func path(_ family: AddressFamily) -> Path? { self.invalidations.path(family) }

  public var preferred: AddressFamily {
    get { self.transitions.preferred }
    set { self.transitions.preferred = newValue }
  }

  public var policy: InvalidationPolicy {
    get { self.invalidations.policy }
    set { self.invalidations.policy = newValue }
  }

  /// Compares a reading with what was published.
  ///
  /// - Parameters:
  ///   - occasion: why the kernel was read.
  ///   - now: the instant of the reading; never earlier than that of the reading before.
  ///   - time: the same moment by the wall clock.
  public mutating func update(
    to reading: Reading, on occasion: Occasion, at now: Instant, time: Timestamp
  ) -> Step {
    let before = self.transitions.snapshot.status
    let made = self.transitions.update(
      to: reading.observation, on: occasion, at: now, time: time)
    let slept: Duration? = if case .resumed(let duration) = occasion { duration } else { nil }
    let outcome = self.invalidations.update(
      to: reading.flows, lost: reading.lostSources, change: made.change, from: before,
      slept: slept, at: now)

    var step = Step(categoryChange: outcome.categoryChange)
    step.changes = made.change.map { [$0] } ?? []
    for draft in outcome.invalidations {
      step.changes.append(
        .invalidation(
          Invalidation(
            generation: self.transitions.takeGeneration(), reason: draft.reason,
            severity: draft.severity, scope: draft.scope,
            cause: occasion.cause(of: draft, made.change), time: time)))
    }
    step.deadline = [made.deadline, self.invalidations.deadline].compactMap { $0 }.min()
    return step
  }
}

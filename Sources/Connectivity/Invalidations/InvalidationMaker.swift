/// Makes the invalidations of the stream: what became of channels on the default paths.
///
/// It follows each family's default path as if it were a flow, so what the stream says of a scope and what `Guard` says of
/// a flow come from the same rules. A value without a clock.
public struct InvalidationMaker: Hashable, Sendable {
  public var policy: InvalidationPolicy

  private var trackers: [AddressFamily: FlowTracker] = [:]
  /// Whether those who were on the family's path when it was last published as satisfied still are.
  private var isIntact: [AddressFamily: Bool] = [:]
  /// Addresses that new connections left behind while old ones may still have them (RFC 8981), the oldest first.
  private var formerSources: [AddressOnLink] = []
  /// The category when it was last known.
  private var lastKnown: Category?
  /// The family that the summary followed when it last had a path.
  private var followed: AddressFamily?
  /// The family whose loss changed the category, while its grace runs.
  private var familyInDoubt: AddressFamily?
  /// What the category was before there was none.
  private var lostCategory: Category?

  private static let mostFormerSources = 32

  /// An address, and where it is.
  public struct AddressOnLink: Hashable, Sendable {
    public var address: IPAddress
    public var link: PathLink
  }

  /// What a step has to publish, beside or after its change.
  public struct Outcome: Hashable, Sendable {
    /// The narrow scopes before the wide.
    public var invalidations: [Draft] = []
    /// What the category did, for those who know their flows.
    public var categoryChange: FlowTracker.CategoryChange?
  }

  /// An invalidation before it gets its generation.
  public struct Draft: Hashable, Sendable {
    public var reason: Invalidation.Reason
    public var severity: Invalidation.Severity
    public var scope: Invalidation.Scope
  }

  /// - Parameter restored: what an earlier run published last.
  public init(_ policy: InvalidationPolicy = InvalidationPolicy(), restored: Snapshot? = nil) {
    self.policy = policy
    guard let status = restored?.status else { return }
    self.lastKnown = status.category == .unknown ? nil : status.category
    self.followed = status.path.status == .satisfied ? status.family : nil
    for family in AddressFamily.allCases where status[family].status == .satisfied {
      self.follow(status[family], NetworkIdentity(), family)
      self.isIntact[family] = true
    }
  }

  /// When to read again although the kernel says nothing.
  public var deadline: Instant? { self.trackers.values.compactMap(\.deadline).min() }

  /// What the default path of a family was, of which channels may still be there.
  public func path(_ family: AddressFamily) -> Path? { self.trackers[family]?.path }

  /// The addresses whose loss matters.
  public var sources: [AddressOnLink] {
    self.formerSources
      + AddressFamily.allCases.compactMap { family in
        self.trackers[family].flatMap { Self.source(of: $0.path) }
      }
  }

  /// The source address, if it is one of the out-link's own: unnumbered links borrow one.
  private static func source(of path: Path) -> AddressOnLink? {
    guard path.sourcePrefixLength != nil, let source = path.source, let link = path.chain.first
    else { return nil }
    return AddressOnLink(address: source, link: link)
  }

  /// Looks at a reading of the default paths.
  ///
  /// - Parameters:
  ///   - readings: those of both families; of one that is missing nothing is known.
  ///   - lost: the `sources` that are gone.
  ///   - change: the change that was made of the same reading.
  ///   - before: the status before that change.
  ///   - slept: how long the machine slept before the reading.
  public mutating func update(
    to readings: [AddressFamily: FlowReading], lost: Set<AddressOnLink>, change: Change?,
    from before: Status, slept: Duration? = nil, at now: Instant
  ) -> Outcome {
    var drafts = self.loseFormerSources(lost)
    let told = AddressFamily.allCases.compactMap { family in
      self.update(family, readings[family] ?? FlowReading(.unknown), at: now)
    }
    let after = change?.snapshot?.status ?? before
    let categoryChange = self.categoryChange(change, after)
    let wide = self.wide(categoryChange, slept)
    for one in told {
      let isShared = self.isShared(one, by: told)
      if let draft = self.draft(one, isShared: isShared, beside: wide), !drafts.contains(draft) {
        drafts.append(draft)
      }
    }
    drafts.sort { $0.scope.width < $1.scope.width }
    if let wide { drafts.append(wide) }

    for family in AddressFamily.allCases where after[family].status == .satisfied {
      self.isIntact[family] = self.trackers[family] != nil
    }
    if after.path.status == .satisfied { self.followed = after.family }
    return Outcome(invalidations: drafts, categoryChange: categoryChange)
  }

  // MARK: - One family's default path

  /// What became of those on a family's path.
  private struct Told {
    var verdict: FlowTracker.Verdict
    var old: Path
    var family: AddressFamily
  }

  private mutating func update(
    _ family: AddressFamily, _ reading: FlowReading, at now: Instant
  ) -> Told? {
    guard var tracker = self.trackers[family] else {
      if reading.path.status == .satisfied { self.follow(reading.path, reading.network, family) }
      return nil
    }
    let old = tracker.path
    // The category is for the wide scope.
    let verdict = tracker.update(to: reading, policy: self.policy, at: now)
    self.trackers[family] = tracker

    switch verdict?.severity {
    case .destroy, .drain:
      // Those that drain go on until their address goes, too.
      if verdict?.severity == .drain { self.remember(old) }
      self.isIntact[family] = false
      self.trackers[family] = nil
      if reading.path.status == .satisfied { self.follow(reading.path, reading.network, family) }
    case .advise, nil:
      if reading.path.status == .satisfied { self.rotateSource(of: family, to: reading) }
    }
    return verdict.map { Told(verdict: $0, old: old, family: family) }
  }

  private mutating func follow(
    _ path: Path, _ network: NetworkIdentity, _ family: AddressFamily
  ) {
    self.trackers[family] = FlowTracker(
      Flow(Destination(.unspecified(family))), on: path, network: network)
  }

  /// New connections get another address of the same subnet: that ends no old one (T3), until the old address goes.
  private mutating func rotateSource(of family: AddressFamily, to reading: FlowReading) {
    guard let tracker = self.trackers[family], tracker.path.source != reading.path.source
    else { return }
    self.remember(tracker.path)
    self.trackers[family] = tracker.moved(to: reading)
  }

  private mutating func remember(_ path: Path) {
    guard let former = Self.source(of: path) else { return }
    self.formerSources.removeAll { $0 == former }
    self.formerSources.append(former)
    if self.formerSources.count > Self.mostFormerSources { self.formerSources.removeFirst() }
  }

  private mutating func loseFormerSources(_ lost: Set<AddressOnLink>) -> [Draft] {
    let gone = self.formerSources.filter(lost.contains)
    self.formerSources.removeAll(where: lost.contains)
    return gone.map { former in
      Draft(
        reason: .sourceAddressLost, severity: .destroy,
        scope: .init(
          interface: former.link.name, family: former.address.family,
          localAddresses: [former.address]))
    }
  }

  /// Whether a link failed for whatever is on it. A route is lost by its own family, and it is for its own that another
  /// path takes over.
  private func isShared(_ one: Told, by told: [Told]) -> Bool {
    guard !one.verdict.isRouteOnly else { return false }
    return self.trackers.allSatisfy { family, tracker in
      family == one.family || tracker.path.chain.first != one.old.chain.first
        || told.contains { $0.family == family && $0.verdict == one.verdict }
    }
  }

  /// The scope names what the channels were on.
  private func draft(_ told: Told, isShared: Bool, beside wide: Draft?) -> Draft? {
    let verdict = told.verdict
    var scope = Invalidation.Scope(interface: told.old.interface)
    switch verdict.reason {
    case .sourceAddressLost:
      scope.family = told.family
      scope.localAddresses = told.old.source.map { [$0] }
    case .interfaceLost:
      scope.family = isShared ? nil : told.family
      // That only a route is gone is what a changed category says.
      if verdict.isRouteOnly, let wide, wide.reason == .categoryChanged,
        wide.severity >= verdict.severity
      {
        return nil
      }
    case .networkChanged, .betterPath:
      scope.family = told.family
    case .categoryChanged, .policy, .resumed:
      // The wide scope says it.
      return nil
    }
    return Draft(reason: verdict.reason, severity: verdict.severity, scope: scope)
  }

  // MARK: - Everything

  /// What the change, or the end of a grace, means for all channels (I5).
  private mutating func categoryChange(
    _ change: Change?, _ status: Status
  ) -> FlowTracker.CategoryChange? {
    let inDoubt = self.familyInDoubt.flatMap { self.isIntact[$0] == true ? $0 : nil }
    guard case .transition(let transition) = change, let from = self.origin(of: transition) else {
      guard let family = self.familyInDoubt else { return nil }
      if inDoubt != nil, status[family].status != .satisfied { return nil }
      self.familyInDoubt = nil
      if inDoubt != nil { return .returned }
      return status.path.status == .satisfied
        ? .replaced : .overdue(self.policy.categoryChanged)
    }
    self.familyInDoubt = nil
    if transition.to == .none {
      if from != .none { self.lostCategory = from }
      guard let followed = self.followed, self.isIntact[followed] == true else {
        return .changed(self.policy.categoryChanged)
      }
      self.familyInDoubt = followed
      return .inDoubt
    }
    // With the same category as before nothing is lost but what was on a path that is not there: those of it know, and so
    // does the system when its grace is over.
    guard
      from == transition.to
        ? transition.bounced : from == .none && self.lostCategory == transition.to
    else { return .changed(self.policy.categoryChanged) }
    let isBack = AddressFamily.allCases.contains {
      status[$0].status == .satisfied && self.isIntact[$0] == true
    }
    if !isBack { self.familyInDoubt = inDoubt }
    return isBack ? .returned : inDoubt != nil ? .inDoubt : .changed(self.policy.categoryChanged)
  }

  /// What the category was before the transition; `nil` where there is nothing to compare: to know nothing for a while
  /// invalidates nothing (K8, I7).
  private mutating func origin(of transition: Transition) -> Category? {
    guard transition.to != .unknown else { return nil }
    let known = self.lastKnown
    self.lastKnown = transition.to
    if transition.from != .unknown { return transition.from }
    return known == transition.to ? nil : known
  }

  private func wide(
    _ change: FlowTracker.CategoryChange?, _ slept: Duration?
  ) -> Draft? {
    let sleep = slept.map { self.policy.severity(ofSleep: $0) }
    let category: Invalidation.Severity? =
      switch change {
      case .changed(let severity), .overdue(let severity): severity
      case .inDoubt, .returned: .advise
      // Those who were on the path that did not come back hear of it by its own scope.
      case .replaced, nil: nil
      }
    guard let severity = [category, sleep].compactMap({ $0 }).max() else { return nil }
    return Draft(
      reason: category == nil ? .resumed : .categoryChanged, severity: severity, scope: .everything)
  }
}

extension Invalidation.Scope {
  /// How little of it is said.
  fileprivate var width: Int {
    if self.localAddresses != nil { return 0 }
    return self.family != nil ? 1 : 2
  }
}

package import Connectivity

/// The detector of the invalidations that `Watch` reports, from the state of channels on the
/// default paths. A value without a clock.
package struct InvalidationDetector: Hashable, Sendable {
  package var policy: InvalidationPolicy
  /// The default paths that channels may be on, oldest first.
  package private(set) var followed: [TrackedDefaultPath] = []
  /// Addresses that new connections no longer use while old connections may still have them (RFC
  /// 8981), oldest first.
  package var formerSources: [AddressOnLink] { self.former.map(\.place) }

  private var former: [FormerSource] = []

  private var lastID: UInt64 = 0
  private var category = CategoryInvalidation()

  private static let maxFormerSources = 32
  private static let maxFollowed = 16

  /// An address, its prefix length, and its link.
  package struct AddressOnLink: Hashable, Sendable {
    package var address: IPAddress
    package var prefixLength: Int
    package var link: KernelPath.Link
  }

  private struct FormerSource: Hashable {
    var place: AddressOnLink
    /// When the address's grace period ends, or `nil` without one (I1).
    var graceEnd: Instant?
  }

  /// An invalidation before it gets its generation.
  struct Draft: Hashable {
    var reason: Invalidation.Reason
    var severity: Invalidation.Severity
    var scope: Invalidation.Scope
  }

  /// - Parameter restored: The snapshot that an earlier run published last.
  package init(
    _ policy: InvalidationPolicy = InvalidationPolicy(), restored: ConnectivitySnapshot? = nil
  ) {
    self.policy = policy
    guard let status = restored?.status else { return }
    for family in AddressFamily.allCases where status[family].status == .satisfied {
      self.follow(status[family], NetworkIdentity(), family)
    }
    self.category.settle(on: status, self.followed)
  }

  /// When to read again even without a kernel message.
  var deadline: Instant? {
    (self.followed.compactMap(\.tracker.deadline) + self.former.compactMap(\.graceEnd)).min()
  }

  /// Evaluates a reading of the default paths.
  ///
  /// - Parameters:
  ///   - reading: The reading. A followed path without a reading counts as unknown.
  ///   - change: The change that was derived from the same reading.
  ///   - before: The status before that change.
  ///   - slept: How long the machine slept before the reading.
  ///   - isSameRoute: Whether traffic flows as before, and only connd's knowledge differs.
  ///   - isSettled: Whether the followed paths were read.
  /// - Returns: The invalidations to publish after the change, narrow scopes first.
  mutating func update(
    to reading: ChangeDetector.Reading, change: ConnectivityChange?,
    from before: ConnectivityStatus,
    slept: Duration? = nil, isSameRoute: Bool = false, isSettled: Bool = true, at now: Instant
  ) -> [Draft] {
    var drafts = self.loseFormerSources(reading.lostSources, at: now)
    let reported = self.lookAtFollowed(reading, slept, at: now)
    for family in AddressFamily.allCases {
      let network = reading.networks[family] ?? NetworkIdentity()
      self.follow(reading.observation[family].path, network, family)
    }
    for one in reported {
      let draft = self.draft(one, isShared: self.isShared(one, by: reported))
      if let draft, !drafts.contains(draft) { drafts.append(draft) }
    }
    drafts.sort { $0.scope.width < $1.scope.width }

    let after = change?.snapshot?.status ?? before
    let category = self.category.severity(
      of: change, after, self.followed, self.policy,
      isOnlyNamed: isSameRoute
        || change?.isBounce != true && before.path.differsByGuess(from: after.path),
      isSettled: isSettled)
    let sleep = slept.map { self.policy.severity(ofSleep: $0) }
    // All channels must begin again, under the current category.
    if sleep == .destroy { self.category.settle(on: after, self.followed) }
    if let severity = [category, sleep].compactMap({ $0 }).max() {
      drafts.append(
        Draft(
          reason: category == nil ? .resumed : .categoryChanged, severity: severity,
          scope: .everything))
    }
    return drafts
  }

  // MARK: - The default paths

  /// The verdict about the channels on a path.
  private struct PathVerdict {
    var verdict: FlowTracker.Verdict
    var path: KernelPath
    var family: AddressFamily
  }

  private mutating func lookAtFollowed(
    _ reading: ChangeDetector.Reading, _ slept: Duration?, at now: Instant
  ) -> [PathVerdict] {
    var reported: [PathVerdict] = []
    var kept: [TrackedDefaultPath] = []
    for var followed in self.followed {
      let path = followed.path
      let verdict = followed.tracker.update(
        to: reading.followed[followed.id] ?? .unknown, policy: self.policy, at: now)
      if let verdict {
        reported.append(PathVerdict(verdict: verdict, path: path, family: followed.family))
      }
      switch verdict?.severity {
      case .destroy: continue
      case .drain where !followed.tracker.isInDoubt:
        // Draining channels continue until their address is lost.
        self.remember(path)
      case .drain, .advise, nil: kept.append(followed)
      }
    }
    self.followed = kept
    return reported
  }

  /// Follows the path that new connections of the family get.
  private mutating func follow(
    _ path: KernelPath, _ network: NetworkIdentity, _ family: AddressFamily
  ) {
    guard path.status == .satisfied else { return }
    if let index = self.followed.lastIndex(where: { $0.family == family && $0.isSame(as: path) }) {
      let same = self.followed[index]
      guard same.source != path.source else { return }
      // New connections get another address of the same subnet. Old connections continue until the
      // old address is lost (T3).
      self.remember(same.path)
      let completed = same.tracker.network.map { network.completed(by: $0) }
      self.followed[index] = TrackedDefaultPath(id: same.id, family, on: path, completed ?? network)
      return
    }
    self.lastID += 1
    self.followed.append(TrackedDefaultPath(id: self.lastID, family, on: path, network))
    if self.followed.count > Self.maxFollowed { self.followed.removeFirst() }
  }

  /// Remembers the source address if it belongs to the out-link. An unnumbered link borrows its
  /// address from another link.
  private mutating func remember(_ path: KernelPath) {
    guard let length = path.sourcePrefixLength, let source = path.source,
      let link = path.chain.first
    else { return }
    let place = AddressOnLink(address: source, prefixLength: length, link: link)
    self.former.removeAll { $0.place == place }
    self.former.append(FormerSource(place: place))
    if self.former.count > Self.maxFormerSources { self.former.removeFirst() }
  }

  /// Returns the invalidations for lost addresses, as for flows (I1).
  private mutating func loseFormerSources(
    _ lost: [AddressOnLink: FlowReading.SourceLoss], at now: Instant
  ) -> [Draft] {
    var drafts: [Draft] = []
    var kept: [FormerSource] = []
    for var former in self.former {
      let end = former.graceEnd ?? now.advanced(by: self.policy.routeGrace)
      let loss = lost[former.place]
      let mayReturn = loss == .mayReturn && end > now
      if loss != nil, !mayReturn || former.graceEnd == nil {
        drafts.append(
          Draft(
            reason: .sourceAddressLost, severity: mayReturn ? .advise : .destroy,
            scope: .init(
              interface: former.place.link.name, family: former.place.address.family,
              localAddresses: [former.place.address])))
      }
      guard loss == nil || mayReturn else { continue }
      former.graceEnd = mayReturn ? end : nil
      kept.append(former)
    }
    self.former = kept
    return drafts
  }

  /// Whether a link failed for both address families. The loss of a route, or another path that
  /// takes over, concerns one family only.
  private func isShared(_ one: PathVerdict, by reported: [PathVerdict]) -> Bool {
    guard !one.verdict.isRouteOnly else { return false }
    // A scope contains names of links, so a link that was created again counts as the same.
    let (link, family) = (one.path.interface, one.family)
    let others = reported.filter { $0.family != family && $0.path.interface == link }
    let isElsewhereAlive = self.followed.contains {
      $0.family != family && $0.path.interface == link
    }
    let hasFormerSources = self.former.contains {
      $0.place.address.family != family && $0.place.link.name == link
    }
    // If the last address was lost together with the link, a separate invalidation reports that.
    return others.allSatisfy {
      $0.verdict == one.verdict || $0.verdict.reason == .sourceAddressLost && !hasFormerSources
    } && (!isElsewhereAlive || !others.isEmpty)
  }

  /// Returns the invalidation for a path, or `nil` if another invalidation covers its channels.
  private func draft(_ reported: PathVerdict, isShared: Bool) -> Draft? {
    let verdict = reported.verdict
    var scope = Invalidation.Scope(interface: reported.path.interface)
    switch verdict.reason {
    case .sourceAddressLost:
      scope.family = reported.family
      scope.localAddresses = reported.path.source.map { [$0] }
    case .interfaceLost:
      scope.family = isShared ? nil : reported.family
      // Neighbours on the link can be reached without the route.
      if verdict.isRouteOnly { scope.destination = .offLink }
    case .networkChanged:
      scope.family = reported.family
      // If only the gateway was replaced, neighbours on the link are the same.
      if verdict.severity == .advise { scope.destination = .offLink }
    case .betterPath:
      scope.family = reported.family
    case .categoryChanged, .policy, .resumed, .silent:
      // The invalidation for all channels covers the first three. Only single flows have a socket
      // that can be silent.
      return nil
    }
    return Draft(reason: verdict.reason, severity: verdict.severity, scope: scope)
  }
}

extension Invalidation.Scope {
  /// The width of the scope, for sorting.
  fileprivate var width: Int {
    if self.localAddresses != nil { return 0 }
    return self.family != nil ? 1 : 2
  }
}

extension KernelPath {
  /// Whether only the guessed links below a tunnel differ. Connections inside may not notice
  /// (WireGuard roams), and the guess may be wrong.
  fileprivate func differsByGuess(from other: KernelPath) -> Bool {
    self.guessedLinks + other.guessedLinks > 0 && self.status == .satisfied
      && other.status == .satisfied && self.certainChain == other.certainChain
      && self.source == other.source && self.gateway == other.gateway && self.table == other.table
  }
}

extension ConnectivityChange {
  /// Whether the path went and came back.
  fileprivate var isBounce: Bool {
    if case .transition(let transition) = self { transition.bounced } else { false }
  }
}

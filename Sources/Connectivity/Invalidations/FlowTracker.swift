/// Follows one flow from its registration to its end, and says when it is no longer viable: rules I1 to I6, I8 and I10.
///
/// A value without a clock: instants are passed in, and a deadline is handed back.
public struct FlowTracker: Hashable, Sendable {
  public let flow: Flow
  /// What the flow was made on.
  public private(set) var path: Path
  /// When it must be looked at again although the kernel says nothing.
  public var deadline: Instant? { self.isBlind ? nil : self.doubt?.until }

  private var network: NetworkIdentity
  /// The path is not there now, and may come back (I10).
  private var doubt: Doubt?
  /// The kernel cannot be asked: a grace that ends meanwhile has to wait.
  private var isBlind = false
  /// A change of the category was advised, and may have to be made good by a `destroy` when its grace is over.
  private var isCategoryInDoubt = false
  /// What was told to be better, so that it is told once.
  private var better: Better?
  private var isPolicyTold = false

  private struct Doubt: Hashable {
    /// The category went with the path.
    var isOfCategory: Bool
    var isRouteOnly: Bool
    var until: Instant
  }

  private struct Better: Hashable {
    var way: Way
    var isPinned: Bool
  }

  /// Why a flow is not viable, and what is to be done.
  public struct Verdict: Hashable, Sendable {
    public var reason: Invalidation.Reason
    public var severity: Invalidation.Severity
    /// No link has failed: only the route is missing.
    public var isRouteOnly = false

    public init(_ reason: Invalidation.Reason, _ severity: Invalidation.Severity) {
      self.reason = reason
      self.severity = severity
    }
  }

  /// Follows a flow from now on.
  ///
  /// - Parameters:
  ///   - path: what the flow was made on; of a flow that is new, what the kernel says.
  ///   - network: the network behind its link, as far as it is known.
  public init(_ flow: Flow, on path: Path, network: NetworkIdentity = NetworkIdentity()) {
    self.flow = flow
    self.path = path
    self.network = network
  }

  /// The flow's own address, or what it is taken for.
  public var source: IPAddress? { self.flow.local ?? self.path.source }

  /// Looks at a reading.
  ///
  /// - Returns: what is to be told; after a `destroy` the tracker is of no more use.
  public mutating func update(
    to reading: FlowReading, _ circumstances: Circumstances = Circumstances(),
    policy: InvalidationPolicy, at now: Instant
  ) -> Verdict? {
    // What never leaves the machine slept at both ends.
    let sleep =
      reading.isLocal
      ? nil : circumstances.slept.map { Verdict(.resumed, policy.severity(ofSleep: $0)) }
    // Not to be able to ask is no loss (K8).
    self.isBlind = reading.path.status == .unknown
    if self.isBlind { return sleep }
    guard self.hasBegun else { return self.begin(on: reading) }
    if self.path.chain.isEmpty, reading.path.status == .satisfied {
      // It was registered while its route was away: the first that comes is its own.
      self.path = reading.path
      self.network = reading.network
    }

    if let verdict = self.whatIsGone(reading) { return verdict }
    let isOverdue = self.isCategoryInDoubt && circumstances.isOverdue
    let category = self.categoryHit(reading, circumstances, policy)
    let hits: [Verdict?]
    if reading.path.status == .satisfied {
      hits = [
        self.linkHit(reading), category, self.betterPathHit(reading, policy),
        self.policyHit(reading), sleep,
      ]
      self.settle(on: reading)
    } else {
      // The system's grace began with the same loss, a moment before this flow was looked at: it ends for both.
      hits = [
        self.doubtHit(reading, circumstances, policy, isOverdue: isOverdue, at: now), category,
        sleep,
      ]
    }
    // In the order of I9, the first of the gravest.
    let gravest = hits.compactMap { $0?.severity }.max()
    return hits.lazy.compactMap { $0 }.first { $0.severity == gravest }
  }

  /// Whether there is anything to lose yet: a path that carries traffic, or a connection, which has its own address.
  public var hasBegun: Bool {
    self.path.status == .satisfied || self.flow.local != nil && self.path.status != .unknown
  }

  /// A flow that was registered while nothing was known, or before there was a path, begins with the first one. What made
  /// that is no change for it.
  private mutating func begin(on reading: FlowReading) -> Verdict? {
    guard reading.path.status == .satisfied || self.flow.local != nil else { return nil }
    self.path = reading.path
    self.network = reading.network
    return reading.path.status == .satisfied ? self.policyHit(reading) : nil
  }

  /// What leaves no hope, in the order of I9.
  private func whatIsGone(_ reading: FlowReading) -> Verdict? {
    if reading.isSourceGone { return Verdict(.sourceAddressLost, .destroy) }
    if reading.isLinkLost { return Verdict(.interfaceLost, .destroy) }
    if reading.path.status == .satisfied, self.isOnLink(of: reading.path),
      reading.network.isOther(than: self.network(before: reading))
    {
      return Verdict(.networkChanged, .destroy)
    }
    return nil
  }

  /// The network, of which what was not known may have become known since the last look.
  private func network(before reading: FlowReading) -> NetworkIdentity {
    var network = self.network
    if network.gatewayHardwareAddress == nil, network.gateway == reading.network.gateway {
      network.gatewayHardwareAddress = reading.firstHardwareAddress
    }
    return network
  }

  /// There is no path: the flow is in doubt until the grace is over (I10).
  private mutating func doubtHit(
    _ reading: FlowReading, _ circumstances: Circumstances, _ policy: InvalidationPolicy,
    isOverdue: Bool, at now: Instant
  ) -> Verdict? {
    let grace = policy.grace(for: reading.path, after: self.path)
    let isNew = self.doubt == nil
    var doubt =
      self.doubt
      ?? Doubt(
        isOfCategory: circumstances.categoryChange != nil, isRouteOnly: true,
        until: now.advanced(by: grace))
    // A link that fails while its route was missing has no longer grace than its own.
    if reading.path.hasFailedLink(of: self.path) {
      doubt.isRouteOnly = false
      doubt.until = min(doubt.until, now.advanced(by: grace))
    }
    if circumstances.categoryChange == .returned { doubt.isOfCategory = false }
    self.doubt = doubt

    let isOver = doubt.until <= now || isOverdue && doubt.isOfCategory
    guard isNew || isOver else { return nil }
    // What I5 does is configured; that no route came back is more than that.
    let isOfCategory =
      doubt.isOfCategory && doubt.isRouteOnly && policy.categoryChanged == .destroy
    var verdict = Verdict(
      isOfCategory ? .categoryChanged : .interfaceLost, isOver ? .destroy : .advise)
    verdict.isRouteOnly = doubt.isRouteOnly
    return verdict
  }

  /// Its link had failed, and now another takes over: the grace is over.
  private func linkHit(_ reading: FlowReading) -> Verdict? {
    guard let doubt = self.doubt, !doubt.isRouteOnly, self.way != Way(reading.path) else {
      return nil
    }
    return Verdict(.interfaceLost, .destroy)
  }

  private mutating func categoryHit(
    _ reading: FlowReading, _ circumstances: Circumstances, _ policy: InvalidationPolicy
  ) -> Verdict? {
    guard let change = circumstances.categoryChange, !self.isExempt(reading) else { return nil }
    defer { self.isCategoryInDoubt = change == .inDoubt }
    switch change {
    case .changed(let severity): return Verdict(.categoryChanged, severity)
    case .inDoubt, .returned: return Verdict(.categoryChanged, .advise)
    case .replaced:
      return self.isCategoryInDoubt ? Verdict(.categoryChanged, .advise) : nil
    case .overdue(let severity):
      // What was registered since then began on what there is now.
      return self.isCategoryInDoubt ? Verdict(.categoryChanged, severity) : nil
    }
  }

  /// Whether connd knows that a changed category does not concern the flow (I5).
  private func isExempt(_ reading: FlowReading) -> Bool {
    if reading.isLocal { return true }
    guard reading.path.status == .satisfied, self.way == Way(reading.path) else { return false }
    let isOnLink = self.path.gateway == nil && reading.path.gateway == nil
    return isOnLink || reading.isInTunnel
  }

  private mutating func betterPathHit(
    _ reading: FlowReading, _ policy: InvalidationPolicy
  ) -> Verdict? {
    let way = Way(reading.path)
    // What the kernel would choose now may be what the flow has had all along.
    let isOwn =
      reading.path.source == self.source
      && reading.path.chain.first?.index == self.path.chain.first?.index
    guard way != self.way, !isOwn, !reading.isLocal else {
      self.better = nil
      return nil
    }
    let better = Better(way: way, isPinned: reading.isPinned)
    guard better != self.better else { return nil }
    self.better = better
    return Verdict(.betterPath, reading.isPinned ? .advise : policy.betterPath)
  }

  private mutating func policyHit(_ reading: FlowReading) -> Verdict? {
    let isForbidden =
      self.flow.forbidsExpensive && reading.path.expensive
      || self.flow.forbidsConstrained && reading.path.constrained
    defer { self.isPolicyTold = isForbidden }
    return isForbidden && !self.isPolicyTold ? Verdict(.policy, .destroy) : nil
  }

  /// The path is there: what was in doubt is not any more, and what is known of the network now is remembered.
  private mutating func settle(on reading: FlowReading) {
    self.doubt = nil
    guard self.way == Way(reading.path) else { return }
    let source = self.path.source
    self.path = reading.path
    // The connection keeps the address that it was made from, whatever new ones get.
    self.path.source = source ?? reading.path.source
    self.network = reading.network.completed(by: self.network)
  }

  /// The same for those who begin on this reading: what is known of the network behind the link stays known.
  func moved(to reading: FlowReading) -> FlowTracker {
    let network = reading.network
    return FlowTracker(
      self.flow, on: reading.path,
      network: self.isOnLink(of: reading.path) ? network.completed(by: self.network) : network)
  }

  private var way: Way { Way(self.path) }

  private func isOnLink(of path: Path) -> Bool {
    self.path.chain.first?.index == path.chain.first?.index
  }
}

/// By which link, and from which subnet: as long as these stay, a connection goes on.
private struct Way: Hashable {
  private var link: UInt32?
  private var prefix: IPPrefix?
  private var source: IPAddress?

  init(_ path: Path) {
    self.link = path.chain.first?.index
    if let source = path.source, let length = path.sourcePrefixLength {
      self.prefix = IPPrefix(source, length: length)
    } else {
      self.source = path.source
    }
  }
}

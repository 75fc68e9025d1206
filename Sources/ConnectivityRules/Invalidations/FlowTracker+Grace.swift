import Connectivity

extension FlowTracker {
  /// Why a flow's path is missing although it may come back (I10).
  enum Outage: Hashable, Sendable {
    /// The flow's address is gone and may come back, on this link or another one.
    case addressAway(isLinkFailed: Bool)
    /// No path is left, because the flow's link has failed.
    case linkFailed
    /// No path is left, although the flow's link works.
    case noPath
    /// A VPN has assigned the flow's address, and may move its tunnel to the remaining path.
    case movedByVPN
    /// The flow's link works, but the traffic would now take another path.
    case takenOver
  }

  /// The grace period of an outage: one row of the decision table.
  struct GraceRule: Hashable, Sendable {
    enum Length: Hashable, Sendable {
      /// The grace period of the path's medium.
      case medium
      /// `grace.route`.
      case route
      case tunnel
    }

    enum End: Hashable, Sendable {
      /// The existing end, if any.
      case stays
      /// The earlier of the existing end and a new end.
      case earlier
      /// A new end after each reading, until new connections have another path.
      case renewed
    }

    var length: Length
    var end: End
    /// Whether new connections already have another path.
    var isDraining: Bool
    /// Whether a link has failed, rather than only its route being missing.
    var isLinkFailed: Bool
  }
}

extension FlowTracker.Outage {
  /// The decision table of rule I10.
  var rule: FlowTracker.GraceRule {
    switch self {
    case .addressAway(let isLinkFailed):
      .init(length: .route, end: .earlier, isDraining: false, isLinkFailed: isLinkFailed)
    case .linkFailed:
      .init(length: .medium, end: .earlier, isDraining: false, isLinkFailed: true)
    case .noPath: .init(length: .medium, end: .stays, isDraining: false, isLinkFailed: false)
    case .movedByVPN: .init(length: .tunnel, end: .renewed, isDraining: true, isLinkFailed: false)
    case .takenOver: .init(length: .medium, end: .stays, isDraining: true, isLinkFailed: false)
    }
  }
}

extension FlowTracker.RuleInput {
  /// The flow's outage after this reading, or `nil` if its path works or is lost for good.
  var outage: FlowTracker.Outage? {
    let isTied = !self.reading.isSourceElsewhere && !self.baseline.isSourceAssignedByVPN
    let isLinkFailed =
      !self.isTakenOver && isTied && self.reading.path.hasFailedLink(of: self.baseline.path)
    if self.isTakenOver, !self.isRouteMissing { return nil }
    if self.isSourceAway { return .addressAway(isLinkFailed: isLinkFailed) }
    if !self.isTakenOver { return isLinkFailed ? .linkFailed : .noPath }
    return self.baseline.isSourceAssignedByVPN ? .movedByVPN : .takenOver
  }

  /// The flow's grace period after this reading, or `nil` if its path works.
  var nextGrace: FlowTracker.GracePeriod? {
    guard let rule = self.outage?.rule else { return nil }
    let end = self.now.advanced(by: self.duration(rule.length))
    var grace =
      self.grace
      ?? FlowTracker.GracePeriod(
        isRouteOnly: !rule.isLinkFailed, severity: .advise, until: end)
    let isSuspended = self.reading.path.reason == .suspended
    switch rule.end {
    // A modem that a phone call suspends has a longer grace period. After the call, a path that is
    // still missing gets at most its own grace period.
    case .stays where grace.isSuspension && !isSuspended: grace.until = min(grace.until, end)
    case .stays: break
    // A link that fails while its route is missing also gets at most its own grace period.
    case .earlier: grace.until = min(grace.until, end)
    case .renewed: if grace.severity != .drain { grace.until = end }
    }
    if rule.isLinkFailed { grace.isRouteOnly = false }
    if rule.isDraining { grace.severity = .drain }
    grace.isSuspension = isSuspended
    // After the grace period, a preferred route is considered permanent (I3).
    return self.hasWorseRoute && self.isTakenOver && grace.until <= self.now ? nil : grace
  }

  private func duration(_ length: FlowTracker.GraceRule.Length) -> Duration {
    switch length {
    case .tunnel: return InvalidationPolicy.tunnelGrace
    case .route: return self.policy.routeGrace
    case .medium:
      let own = self.policy.grace(for: self.reading.path, after: self.baseline.path)
      let isOfRoute = self.baseline.isSourceAssignedByVPN || self.reading.isSourceElsewhere
      return isOfRoute ? max(own, self.policy.routeGrace) : own
    }
  }

  /// Whether the kernel has a path for the flow, by its own link or another one.
  private var isTakenOver: Bool { self.reading.path.status == .satisfied }

  /// Whether the original link carries traffic but has no route for the flow. Neither a worse route
  /// over that link, nor a route that is added meanwhile, shows that another link is preferred.
  private var isRouteMissing: Bool {
    switch self.reading.formerLink {
    case .withoutRoute: true
    case .withWorseRoute: !self.isBetterPathReported
    case .withRoute:
      self.isDraining || self.baseline.isSourceAssignedByVPN && !self.isBetterPathReported
    case .failed: self.baseline.isSourceAssignedByVPN
    case nil: self.isSourceAway || self.areRepliesLost
    case .untied, .leg: false
    }
  }

  /// Whether the kernel no longer accepts the flow's replies from the link on which they arrive. If
  /// the kernel seemed to refuse replies even when the connection was made, they evidently arrive
  /// (I0).
  private var areRepliesLost: Bool {
    self.reading.areRepliesRefused && !self.baseline.worksDespiteRefusal
  }

  /// Whether the flow's route was missing before, and another link had taken over.
  private var isDraining: Bool {
    self.grace.map { $0.isRouteOnly && $0.severity == .drain } ?? false
  }

  /// Whether a route over the flow's link exists but another route is preferred.
  private var hasWorseRoute: Bool {
    self.reading.formerLink == .withRoute || self.reading.formerLink == .withWorseRoute
  }

  /// Whether the flow's address is gone and may come back, on this link or another one.
  var isSourceAway: Bool {
    self.reading.sourceLoss == .mayReturn
      || self.baseline.isSourceAssignedByVPN && self.reading.isSourceGone
  }
}

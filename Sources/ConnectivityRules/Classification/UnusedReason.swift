package import Connectivity

extension UnusedReason {
  /// Explains why the kernel does not use a link's route. The order of the comparisons is the
  /// kernel's: rules, prefix lengths, metrics.
  ///
  /// - Parameters:
  ///   - link: The link.
  ///   - hasAddress: Whether the link has an address of the destination's family.
  ///   - route: The route of traffic bound to the link, or `nil` without one.
  ///   - isDiscarded: Whether a rule or route discards that traffic.
  ///   - used: The route that the traffic uses, or `nil` if it is not known.
  package init(
    _ link: Link, hasAddress: Bool, route: MatchedRoute?, isDiscarded: Bool = false,
    insteadOf used: MatchedRoute?
  ) {
    switch (link.stateAsPort, route) {
    case (.down, _): self = .down
    case (.noCarrier, _): self = .noCarrier
    case (.dormant, _): self = .dormant
    case (.up, nil) where link.master != nil: self = .port
    case (.up, nil): self = !hasAddress ? .noAddress : isDiscarded ? .discarded : .noRoute
    case (.up, let route?): self.init(route, insteadOf: used)
    }
  }

  private init(_ route: MatchedRoute, insteadOf used: MatchedRoute?) {
    guard let used else {
      // The used route is unknown if its entry has more nexthops than the kernel shows.
      self = .equalMetric
      return
    }
    if route.table != used.table {
      self = .laterRule
    } else if route.prefix.length < used.prefix.length {
      self = .lessSpecific
    } else {
      self = route.priority > used.priority ? .higherMetric : .equalMetric
    }
  }
}

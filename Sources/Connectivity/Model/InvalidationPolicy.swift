/// What the configuration says about invalidations.
public struct InvalidationPolicy: Hashable, Sendable {
  /// How long a Wi-Fi link without a carrier may take to come back (I10).
  public var wifiGrace: Duration
  /// How long a route that went may take to come back (I10).
  public var routeGrace: Duration
  /// What a better path does to those on the old one (I3).
  public var betterPath: Invalidation.Severity
  /// What a changed category does to all (I5).
  public var categoryChanged: Invalidation.Severity

  public init(
    wifiGrace: Duration = .seconds(1), routeGrace: Duration = .seconds(1),
    betterPath: Invalidation.Severity = .destroy, categoryChanged: Invalidation.Severity = .destroy
  ) {
    self.wifiGrace = wifiGrace
    self.routeGrace = routeGrace
    self.betterPath = betterPath
    self.categoryChanged = categoryChanged
  }
}

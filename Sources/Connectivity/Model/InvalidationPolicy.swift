/// What the configuration says about invalidations.
///
/// Implements rule I6.
public struct InvalidationPolicy: Hashable, Sendable {
  /// How long a link that has lost its carrier may take to get it back, by what carries the path (I10). A medium that is not
  /// listed has no grace period.
  public var carrierGrace: [Medium: Duration]
  /// How long a route that went may take to come back, or an address whose link stands (I1, I10).
  public var routeGrace: Duration
  /// What a better path does to those on the old one (I3).
  public var betterPath: Invalidation.Severity
  /// What a changed category does to all (I5).
  public var categoryChanged: Invalidation.Severity

  public init(
    carrierGrace: [Medium: Duration] = [.wifi: .seconds(1)], routeGrace: Duration = .seconds(1),
    betterPath: Invalidation.Severity = .destroy, categoryChanged: Invalidation.Severity = .destroy
  ) {
    self.carrierGrace = carrierGrace
    self.routeGrace = routeGrace
    self.betterPath = betterPath
    self.categoryChanged = categoryChanged
  }
}

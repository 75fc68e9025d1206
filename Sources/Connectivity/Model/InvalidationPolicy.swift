/// The configuration of invalidations.
///
/// Implements rule I6.
public struct InvalidationPolicy: Hashable, Sendable {
  /// How long a link may stay without carrier before its flows are destroyed, by the path's medium
  /// (I10). A medium without an entry has no grace period. By default, Wi-Fi has one second.
  public var carrierGrace: [NetworkMedium: Duration]
  /// How long a route, or an address on a link that is up, may be missing (I1, I10).
  public var routeGrace: Duration
  /// The severity of a better path for flows on the old path (I3).
  public var betterPath: Invalidation.Severity
  /// The severity of a changed category for all channels (I5).
  public var categoryChanged: Invalidation.Severity

  public init(
    carrierGrace: [NetworkMedium: Duration] = Self.defaultCarrierGrace,
    routeGrace: Duration = .seconds(1),
    betterPath: Invalidation.Severity = .destroy, categoryChanged: Invalidation.Severity = .destroy
  ) {
    self.carrierGrace = carrierGrace
    self.routeGrace = routeGrace
    self.betterPath = betterPath
    self.categoryChanged = categoryChanged
  }

  @usableFromInline package static var defaultCarrierGrace: [NetworkMedium: Duration] {
    let graces = NetworkMedium.allCases.map { ($0, $0.traits.grace) }
    return Dictionary(uniqueKeysWithValues: graces.filter { $1 > .zero })
  }
}

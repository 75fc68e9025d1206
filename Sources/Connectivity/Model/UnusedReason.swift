/// Why traffic does not use a link.
package enum UnusedReason: String, Hashable, Sendable, CaseIterable {
  case down
  case noCarrier
  case dormant
  /// The link is a port of a bridge, bond, team or VRF.
  case port
  /// The link has no address of the destination's family.
  case noAddress
  case noRoute
  /// A rule with another table comes first.
  case laterRule
  /// The route that is used has a longer prefix.
  case lessSpecific
  case higherMetric
  /// The routes are equal, and the kernel prefers the other route.
  case equalMetric
  /// A rule or route discards the traffic, whatever the link.
  case discarded
}

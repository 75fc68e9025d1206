public import Connectivity

/// What a listener is to hear of, beside links, addresses, rules, nexthop objects and default routes.
public struct Watched: Hashable, Sendable {
  /// The addresses that changes of routes matter for.
  public var destinations: [IPAddress]
  /// The neighbours whose hardware address matters, each with the one that is known (`nil`: none is).
  public var gateways: [Neighbour]

  public init(destinations: [IPAddress] = [], gateways: [Neighbour] = []) {
    self.destinations = destinations
    self.gateways = gateways
  }
}

public import Connectivity

/// What a listener is to hear of, beside rules, nexthop objects and default routes.
public struct Watched: Hashable, Sendable {
  /// The addresses that changes of routes matter for.
  public var destinations: [IPAddress]
  /// The neighbours whose hardware address matters, each with the one that is known (`nil`: none is).
  public var gateways: [Neighbour]
  /// The links that nothing is to be told of; `nil`: there are none.
  public var unheard: UnheardLinks?

  public init(
    destinations: [IPAddress] = [], gateways: [Neighbour] = [], unheard: UnheardLinks? = nil
  ) {
    self.destinations = destinations
    self.gateways = gateways
    self.unheard = unheard
  }
}

/// Links that were made after all those that matter. The kernel numbers links in the order in which they are made, so that one
/// number tells them from the others.
///
/// Told is still what may lead to them: routes, and addresses that another link may borrow.
public struct UnheardLinks: Hashable, Sendable {
  /// Those with a greater index.
  public var above: UInt32
  /// But for these.
  public var except: [UInt32]
  /// And for the ports of these.
  public var masters: [UInt32]

  public init(above: UInt32, except: [UInt32] = [], masters: [UInt32] = []) {
    self.above = above
    self.except = except
    self.masters = masters
  }
}

package import Connectivity

/// What a listener is to hear of, beside rules, nexthop objects, default routes, and addresses that are good for more than
/// their link.
package struct Watched: Hashable, Sendable {
  /// The addresses that changes of routes matter for.
  package var destinations: [IPAddress]
  /// The neighbours of which it matters what their hardware address is and whether they answer, each with what is known: `nil`
  /// where no hardware address is.
  package var gateways: [Neighbour]
  /// The hardware addresses of which it matters behind which port of a bridge they are.
  package var bridged: [[UInt8]]
  /// The links that nothing is to be told of; `nil`: there are none.
  package var unheard: UnheardLinks?

  package init(
    destinations: [IPAddress] = [], gateways: [Neighbour] = [], bridged: [[UInt8]] = [],
    unheard: UnheardLinks? = nil
  ) {
    self.destinations = destinations
    self.gateways = gateways
    self.bridged = bridged
    self.unheard = unheard
  }
}

/// Links that are told from those that matter by one number: who names it sees to it that it is no less than that of any link
/// that is there and matters, or names that one. That links to come have a greater one is mostly so, for the kernel counts
/// on; one that is given its index, or brings it along from another namespace, may have a smaller one, and is heard.
///
/// Told is still what may lead to them: routes, and addresses that another link may borrow.
package struct UnheardLinks: Hashable, Sendable {
  /// Those with a greater index.
  package var above: UInt32
  /// But for these.
  package var except: [UInt32]
  /// And for the ports of these.
  package var masters: [UInt32]

  package init(above: UInt32, except: [UInt32] = [], masters: [UInt32] = []) {
    self.above = above
    self.except = except
    self.masters = masters
  }
}

package import Connectivity

/// The subjects of the notifications that a listener receives, in addition to rules, nexthop
/// objects, default routes, and addresses with more than link scope.
package struct FilterSpec: Hashable, Sendable {
  /// The destinations with routes that matter.
  package var destinations: [IPAddress]
  /// The neighbours to watch for changes of MAC address and reachability, each with its known
  /// state. If the MAC address of a neighbour is unknown, it is `nil`.
  package var gateways: [Neighbour]
  /// The MAC addresses to watch for changes of the bridge port.
  package var bridged: [[UInt8]]
  /// The links to ignore, or `nil` for none.
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

/// The links to ignore, mainly by their index. Links with an index greater than `above` are
/// filtered out, with exceptions. The caller must choose an index at least as high as every
/// existing link that matters, or list such a link in `except`. New links usually get a higher
/// index, because the kernel counts up. A link that is created with a lower index, or moves from
/// another namespace with a lower index, is reported.
///
/// Routes on ignored links, and addresses that another link may use, still pass.
package struct UnheardLinks: Hashable, Sendable {
  /// Links with a greater index are ignored.
  package var above: UInt32
  /// Links that are not ignored.
  package var except: [UInt32]
  /// The ports of these links are not ignored either.
  package var masters: [UInt32]

  package init(above: UInt32, except: [UInt32] = [], masters: [UInt32] = []) {
    self.above = above
    self.except = except
    self.masters = masters
  }
}

/// What the kernel tells of its own accord. Each is a hint that something changed, never the new state itself.
package enum KernelEvent: Hashable, Sendable {
  /// A link appeared or something of it changed (`RTM_NEWLINK`).
  case link(Link)
  /// A link is gone, from this namespace at least (`RTM_DELLINK`).
  case linkRemoved(Link)
  /// An address appeared, or its flags changed (`RTM_NEWADDR`).
  case address(Address)
  case addressRemoved(Address)
  /// `replaced`: the message stands for the removal of another route too (`NLM_F_REPLACE`).
  case route(RouteChange, replaced: Bool)
  case routeRemoved(RouteChange)
  /// An `ip rule` was added; which one does not matter.
  case rule(AddressFamily)
  case ruleRemoved(AddressFamily)
  /// A nexthop object was made or replaced.
  case nexthop(id: UInt32)
  /// A nexthop object is gone, and with it, untold, all routes that use it.
  case nexthopRemoved(id: UInt32)
  /// A neighbour that is a gateway has a hardware address that was not known before, does not answer any more, or
  /// answers again (`RTM_NEWNEIGH`).
  case neighbour(Neighbour)
  /// A bridge has learnt by which port it reaches a hardware address (`RTM_NEWNEIGH` of `AF_BRIDGE`).
  case bridgeEntry(BridgeEntry)
  /// A Wi-Fi link has joined a network, roamed in it or left it (nl80211).
  case wireless(WirelessChange)
  /// A setting that lookups depend on is another (`RTM_NEWNETCONF`).
  case setting(AddressFamily)
  /// The socket's buffer overflowed (ENOBUFS): anything may have happened.
  case overrun
  /// A message that cannot be read: it is told, not trusted.
  case malformed(String)
}

/// A route as a notification describes it.
package struct RouteChange: Hashable, Sendable {
  package var route: MatchedRoute
  /// The index of the out-link; `nil` for routes that discard, that use nexthop objects or several nexthops.
  package var outLink: UInt32?
  package var gateway: IPAddress?

  package init(_ route: MatchedRoute, outLink: UInt32?, gateway: IPAddress?) {
    self.route = route
    self.outLink = outLink
    self.gateway = gateway
  }
}

/// A notification of the kernel. It is a hint that something changed, never the new state itself.
package enum KernelEvent: Hashable, Sendable {
  /// A link appeared or changed (`RTM_NEWLINK`).
  indirect case link(Link)
  /// A link is gone, at least from this namespace (`RTM_DELLINK`).
  indirect case linkRemoved(Link)
  /// An address appeared, or its flags changed (`RTM_NEWADDR`).
  case address(Address)
  case addressRemoved(Address)
  /// If `replaced`, the message also reports the removal of another route (`NLM_F_REPLACE`).
  case route(RouteChange, replaced: Bool)
  case routeRemoved(RouteChange)
  /// An `ip rule` was added; which one does not matter.
  case rule(AddressFamily)
  case ruleRemoved(AddressFamily)
  /// A nexthop object was created or replaced.
  case nexthop(id: UInt32)
  /// A nexthop object was removed, with all routes that use it. The kernel does not report those
  /// routes.
  case nexthopRemoved(id: UInt32)
  /// A gateway has a new MAC address, stopped answering, or answers again (`RTM_NEWNEIGH`).
  case neighbour(Neighbour)
  /// A bridge has learnt the port for a MAC address (`RTM_NEWNEIGH` of `AF_BRIDGE`).
  case bridgeEntry(BridgeEntry)
  /// A Wi-Fi link has joined a network, roamed in it or left it (nl80211).
  case wireless(WirelessChange)
  /// The connection quality of a Wi-Fi link changed (nl80211).
  case signal(SignalChange)
  /// A setting that lookups depend on has changed (`RTM_NEWNETCONF`).
  case setting(AddressFamily)
  /// The socket's buffer overflowed (ENOBUFS): anything may have happened.
  case overrun
  /// A message that cannot be parsed. It is reported, but not used.
  case malformed(String)
}

/// A route as a notification describes it.
package struct RouteChange: Hashable, Sendable {
  package var route: MatchedRoute
  /// The index of the outgoing link. `nil` for routes that discard traffic, or that use nexthop
  /// objects or several nexthops.
  package var outLink: UInt32?
  package var gateway: IPAddress?

  package init(_ route: MatchedRoute, outLink: UInt32?, gateway: IPAddress?) {
    self.route = route
    self.outLink = outLink
    self.gateway = gateway
  }
}

/// How a tunnel without a fixed remote endpoint finds the endpoint of a packet.
package struct OpenEnd: Hashable, Sendable {
  package enum Rule: Hashable, Sendable {
    /// The next hop's address is the endpoint (ipip, ip6tnl).
    case nextHop(AddressFamily)
    /// The next hop's hardware address is the endpoint (multipoint gre).
    case hardwareAddress(AddressFamily)
    /// The next hop, or a destination in the domain, contains the endpoint's IPv4 address (sit).
    case embedded(EmbeddedIPv4?)
  }

  package var rule: Rule
  /// The source address of the tunnel's own packets, or `nil` if the kernel chooses it.
  package var source: IPAddress?
  /// The mark of the tunnel's own packets; 0 means none.
  package var mark: UInt32

  package init(_ rule: Rule, source: IPAddress? = nil, mark: UInt32 = 0) {
    self.rule = rule
    self.source = source
    self.mark = mark
  }
}

/// The position of the IPv4 address in the IPv6 addresses of a 6rd domain (RFC 5969). 6to4 is the
/// domain 2002::/16.
package struct EmbeddedIPv4: Hashable, Sendable {
  /// The domain's prefix. The IPv4 address follows it, without the bits that `relay` fixes.
  package var prefix: IPPrefix
  /// The leading bits that all IPv4 addresses of the domain share.
  package var relay: IPPrefix

  package init(prefix: IPPrefix, relay: IPPrefix) {
    self.prefix = prefix
    self.relay = relay
  }
}

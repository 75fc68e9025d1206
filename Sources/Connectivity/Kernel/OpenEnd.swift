/// How a tunnel without a fixed other end finds the one that a packet goes to.
package struct OpenEnd: Hashable, Sendable {
  package enum Rule: Hashable, Sendable {
    /// The next hop's address is the other end (ipip, ip6tnl).
    case nextHop(AddressFamily)
    /// The next hop's hardware address is the other end (multipoint gre).
    case hardwareAddress(AddressFamily)
    /// An IPv4 address stands in the next hop, or in destinations of the domain (sit).
    case embedded(EmbeddedIPv4?)
  }

  package var rule: Rule
  /// The source address of the tunnel's own packets; `nil`: the kernel chooses it.
  package var source: IPAddress?
  /// The mark of the tunnel's own packets; 0 for none.
  package var mark: UInt32

  package init(_ rule: Rule, source: IPAddress? = nil, mark: UInt32 = 0) {
    self.rule = rule
    self.source = source
    self.mark = mark
  }
}

/// Where the IPv4 address stands in the IPv6 addresses of a 6rd domain (RFC 5969). 6to4 is the domain 2002::/16.
package struct EmbeddedIPv4: Hashable, Sendable {
  /// The domain's prefix. The bits behind it are the IPv4 address, without those that `relay` fixes.
  package var prefix: IPPrefix
  /// The leading bits that all IPv4 addresses of the domain have in common.
  package var relay: IPPrefix

  package init(prefix: IPPrefix, relay: IPPrefix) {
    self.prefix = prefix
    self.relay = relay
  }
}

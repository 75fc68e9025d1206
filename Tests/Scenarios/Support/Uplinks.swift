import TestKit

/// A host with several uplinks, and an outside world with one server.
enum Uplinks {
  /// Addresses of the outside host that are on none of the links.
  static let server = "203.0.113.1"
  static let server6 = "2001:db8:99::1"

  static let media = """
    links:
      - {match: "wlan*", medium: wifi}
      - {match: "wwan*", medium: cellular}
      - {match: "eth*", medium: wired}

    """

  /// A host with the given links, and default routes over `routes` (by default all of them), the
  /// first preferred. Link N has the address 10.N.0.2 and, with IPv6, 2001:db8:N::2; the other ends
  /// have ….1.
  ///
  /// The outside host drops packets by strict reverse path filtering, as providers do (RFC 3704).
  /// So a packet that leaves by the wrong link with another's address is lost.
  static func laboratory(
    _ links: [String], routes: [String]? = nil, ipv6: Bool = false, configuration: String = ""
  ) throws -> Laboratory {
    let lab = try Laboratory(ipv6: ipv6, configuration: self.media + configuration)
    try lab.outside.set("net/ipv4/conf/all/rp_filter", "1")
    try lab.outside.set("net/ipv4/conf/default/rp_filter", "1")
    try lab.outside.ip("address add \(self.server)/32 dev lo")
    if ipv6 {
      // Otherwise the kernel reports, a second later, that the link-local addresses are unique (RFC
      // 4862).
      for namespace in [lab.namespace, lab.outside] {
        try namespace.set("net/ipv6/conf/default/accept_dad", "0")
      }
      try lab.outside.ip("address add \(self.server6)/128 dev lo nodad")
    }
    for (number, link) in links.enumerated() {
      try lab.addLink(link, "10.\(number).0.2", ipv6: ipv6 ? "2001:db8:\(number)::2" : nil)
      if routes?.contains(link) ?? true {
        let metric = 100 + 100 * number
        try lab.namespace.ip(
          "route add default via 10.\(number).0.1 dev \(link) metric \(metric)")
        if ipv6 {
          try lab.namespace.ip(
            "-6 route add default via 2001:db8:\(number)::1 dev \(link) metric \(metric)")
        }
      }
    }
    return lab
  }

  /// Has netfilter mark packets to a host after their lookup, as mwan3 and split tunnels do. They
  /// leave by eth1, while lookups say another link.
  static func mark(packetsTo host: String = Self.server, in lab: Laboratory) throws {
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth1 table 100")
    try lab.namespace.ip("rule add fwmark 16 lookup 100")
    try lab.namespace.nft(
      """
      table ip marks {
        chain out { type route hook output priority mangle; ip daddr \(host) meta mark set 16; }
        chain post { type nat hook postrouting priority srcnat; oifname "eth1" masquerade; }
      }
      """)
  }
}

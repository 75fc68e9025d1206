package import Connectivity

/// Implements rule E0.
extension KernelPath {
  /// Whether the kernel drops packets because of their lookup. This happens before netfilter sees
  /// them (`__ip_queue_xmit` in net/ipv4/ip_output.c), so such a lookup is always proof.
  package var isDropped: Bool {
    switch self.reason {
    case .noRoute, .unreachable, .prohibited, .blackhole, .throw: self.status == .unsatisfied
    default: false
    }
  }
}

extension Rule {
  /// Whether netfilter can divert packets from the path of their lookup, by a mark that it sets
  /// after the lookup. A tunnel's own marks are not evidence: they only keep its own packets from
  /// returning to the tunnel.
  ///
  /// - Parameter rules: The rules of one address family, in their order.
  package static func mayDivert(_ rules: [Rule]) -> Bool {
    let tables = Set(rules.compactMap(\.table))
    let own = Set(tables.flatMap { Self.marks(keptOutOf: $0, by: rules) })
    return rules.contains { rule in
      switch rule.selection {
      case .mark(_, isInverted: true): false
      case .mark(let mark, isInverted: false): !own.contains(mark)
      case .all: false
      case .other: rule.selector.contains(" fwmark ")
      }
    }
  }
}

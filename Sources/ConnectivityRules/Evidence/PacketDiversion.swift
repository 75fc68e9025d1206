package import Connectivity

/// Implements rule E0.
extension KernelPath {
  /// Whether the kernel drops packets by their lookup. It does so before netfilter sees them
  /// (`__ip_queue_xmit` in net/ipv4/ip_output.c), so such a lookup is always proof.
  package var isDropped: Bool {
    switch self.reason {
    case .noRoute, .unreachable, .prohibited, .blackhole, .throw: self.status == .unsatisfied
    default: false
    }
  }
}

extension Rule {
  /// Whether netfilter can send packets elsewhere than their lookup said, by a mark that it sets
  /// later. The marks of a tunnel's own packets are not evidence: only these packets have them, so
  /// that they do not return to the tunnel.
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

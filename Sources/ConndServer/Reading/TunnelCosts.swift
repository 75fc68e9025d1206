import Connectivity
import ConnectivityRules

/// The last known cost of each tunnel. The cost applies while the links below a tunnel are unknown,
/// because the next uplink may cost as much as the lost one.
///
/// Implements rule I8.
struct TunnelCosts {
  struct Cost: Hashable {
    var isExpensive: Bool
    var constraint: ConstraintLevel
    /// Whether the links below the tunnel were guessed (K6).
    var isGuess: Bool
  }

  /// The costs by the index of the tunnel's link.
  private var costs: [UInt32: Cost] = [:]

  /// Beyond this number, all costs are forgotten, because a VPN hub may have very many tunnels.
  private static let maxTunnels = 1024

  /// Remembers the cost of a path for its tunnels.
  mutating func note(_ path: KernelPath, _ facts: PathFacts) {
    guard let costsMoney = path.costsMoney else { return }
    for facts in facts.links where facts.isTunnel {
      if self.costs.count >= Self.maxTunnels { self.costs = [:] }
      self.costs[facts.link.index] = Cost(
        isExpensive: costsMoney, constraint: path.constraint,
        isGuess: path.guessedLinks > 0)
    }
  }

  /// Returns the last cost of the tunnel at the bottom. Returns `nil` if the lowest link is not a
  /// tunnel or its cost was never known.
  func last(_ facts: PathFacts) -> Cost? {
    guard !self.costs.isEmpty, let last = facts.links.last, last.isTunnel else { return nil }
    return self.costs[last.link.index]
  }

  /// Returns the earlier cost that still applies to a path, or `nil` without such a cost. It never
  /// applies to a path with a known cost or a guess.
  func held(_ path: KernelPath, _ facts: PathFacts) -> Cost? {
    path.isCostUnknown && path.guessedLinks == 0 ? self.last(facts) : nil
  }

  mutating func forget(_ link: UInt32) { self.costs[link] = nil }
}

extension KernelPath {
  func costing(_ cost: TunnelCosts.Cost?) -> KernelPath {
    guard let cost else { return self }
    var path = self
    path.costsMoney = cost.isExpensive
    if path.constraint == .unconstrained { path.constraint = cost.constraint }
    return path
  }
}

import Connectivity
import ConnectivityRules

/// What it cost last to send through tunnels. It holds while nothing is known below a tunnel: its uplink is away, and what comes
/// back may cost as much.
struct TunnelCosts {
  struct Cost: Hashable {
    var isExpensive: Bool
    var isConstrained: Bool
    /// What was below the tunnel was guessed (K6).
    var isGuess: Bool
  }

  /// By the tunnel's link.
  private var costs: [UInt32: Cost] = [:]

  /// A hub of tunnels may have many.
  private static let maxTunnels = 1024

  /// Remembers what a path costs by its tunnels.
  mutating func note(_ path: Path, _ facts: PathFacts) {
    guard !path.isCostUnknown else { return }
    for facts in facts.links where facts.isTunnel {
      if self.costs.count >= Self.maxTunnels { self.costs = [:] }
      self.costs[facts.link.index] = Cost(
        isExpensive: path.isExpensive, isConstrained: path.isConstrained,
        isGuess: path.guessedLinks > 0)
    }
  }

  /// Returns what it cost last to send through the tunnel at the bottom, or `nil` if the lowest link is no tunnel or nothing was
  /// known.
  func last(_ facts: PathFacts) -> Cost? {
    guard !self.costs.isEmpty, let last = facts.links.last, last.isTunnel else { return nil }
    return self.costs[last.link.index]
  }

  /// Returns what holds of a path's cost from before, or `nil` if its cost is known or nothing was known before.
  func held(_ path: Path, _ facts: PathFacts) -> Cost? {
    path.isCostUnknown && path.guessedLinks == 0 ? self.last(facts) : nil
  }

  mutating func forget(_ link: UInt32) { self.costs[link] = nil }
}

extension Path {
  /// The same, with the cost that it had before.
  func costing(_ cost: TunnelCosts.Cost?) -> Path {
    guard let cost else { return self }
    var path = self
    path.isExpensive = cost.isExpensive
    path.isConstrained = path.isConstrained || cost.isConstrained
    path.isCostUnknown = false
    return path
  }
}

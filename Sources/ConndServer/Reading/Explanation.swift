import Connectivity
import ConnectivityRules

/// The answer to a client that asks why a path is as it is: the chain of reasoning, from the rule
/// to the category.
struct Explanation: Sendable {
  /// A default destination and the kernel's answer for it.
  struct Probe: Sendable {
    var destination: IPAddress
    /// As `ip route get` writes it, or the reason why the kernel has no route.
    var answer: String
    /// Whether the answer uses the same route as the answer of the deciding probe.
    var agrees: Bool
  }

  /// The requested destination, or the probe that decides for the default destination.
  var destination: IPAddress
  var path: KernelPath
  /// Empty unless the default destination was requested.
  var probes: [Probe] = []
  /// `nil` if no link is known.
  var cost: CostEvidence?
  /// The reasons for the path's quality.
  var qualityReasons: [String] = []
  /// The names of the path's links on which the driver has reported trouble lately.
  var confirmedLinks: [String] = []
  /// The links from top to bottom, including a link outside the path that discards the traffic.
  var links: [LinkReport] = []
  /// How the guessed links were found: `fwmark 0xca6c` or `default`. `nil` if nothing is guessed.
  var guessedBy: String?
  /// The reasons why packets may take another route than the lookup returned. Empty if the lookup
  /// is proof (E0) or no socket was found.
  var diversions: [String] = []
  /// The state of the connection's socket, or `nil` if the query does not name an existing socket.
  var socket: SocketTestimony?
  /// The kernel's route, or `nil` if it has none.
  var route: MatchedRoute?
  /// The rules that name the route's table.
  var rules: [Rule] = []
  /// The rule or route that discards the traffic, or `nil` if none does or none is found.
  var discard: Discard?
  /// The links that were compared with the path and that the traffic does not use.
  var unused: [UnusedLink] = []

  var flags: ReachabilityFlags { ReachabilityFlags(self.path) }

  /// The category that follows from this path alone.
  var category: NetworkCategory { NetworkCategory(self.flags, medium: self.path.medium) }
}

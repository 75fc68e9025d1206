import Connectivity
import ConnectivityRules

extension FlowTable.Event {
  /// The path to the remote address.
  var path: Path {
    switch self {
    case .path(let path), .betterPathGone(let path), .invalidation(_, _, let path): path
    }
  }

  /// Whether the event declares a flow dead for a reason other than the cost of its network.
  var refutes: Bool {
    guard case .invalidation(let verdict, _, _) = self else { return false }
    return verdict.severity == .destroy && verdict.reason != .policy
  }

  /// Whether the event declares the original path of a flow gone that had no path at registration.
  /// A sleep or a better path may end a working connection, too.
  var refutesDoubted: Bool {
    guard case .invalidation(let verdict, _, _) = self, verdict.severity == .destroy else {
      return false
    }
    return switch verdict.reason {
    case .sourceAddressLost, .interfaceLost, .networkChanged: true
    case .betterPath, .categoryChanged, .policy, .resumed, .silent: false
    }
  }
}

import Connectivity
import ConnectivityRules

/// The truth about the model network.
struct Truth {
  private(set) var paths: [AddressFamily: KernelPath] = [:]
  private(set) var category = NetworkCategory.offline

  mutating func follow(_ network: ModelNetwork, _ configuration: DefaultDestination) {
    for family in AddressFamily.allCases {
      self.paths[family] = network.defaultPath(family, configuration)
    }
    self.category = Self.category(self.paths)
  }

  /// K1 and K7, IPv4 preferred.
  private static func category(_ paths: [AddressFamily: KernelPath]) -> NetworkCategory {
    let satisfied = [paths[.ipv4], paths[.ipv6]].compactMap { $0 }.first {
      $0.status == .satisfied
    }
    switch satisfied?.medium {
    case nil: return .offline
    case .wired: return .wired
    case .wifi: return .wifi
    case .cellular: return .cellular
    default: return .other
    }
  }
}

extension KernelPath {
  /// Whether it is the same except for the texts of reasons and for whether its cost is known. The
  /// latter depends on the past (`TunnelCosts`) and has its own tests.
  func agrees(with truth: KernelPath) -> Bool {
    var (path, truth) = (self, truth)
    (path.evidence, truth.evidence) = (nil, nil)
    if path.medium == .tunnel || path.isMetered == truth.isMetered {
      truth.costsMoney = path.costsMoney
    }
    return path == truth
  }
}

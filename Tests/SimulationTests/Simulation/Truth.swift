import Connectivity

/// What the model network amounts to, followed through all that happens to it.
struct Truth {
  private(set) var paths: [AddressFamily: Path] = [:]
  private(set) var category = Connectivity.Category.none
  /// How often a link of a default path was made anew, or came back in another network: that is a bounce, whether or not the
  /// category was another in between (T2).
  private(set) var bounces = 0
  private var places: [String: [UInt32]] = [:]
  /// The default paths as they were when they last carried traffic.
  private var last: [AddressFamily: Path] = [:]
  /// Whether the default paths that are away may come back in time (I10): their links and addresses are there, and at most
  /// Wi-Fi has lost its carrier.
  private(set) var isSoft = true

  mutating func follow(_ network: ModelNetwork, _ configuration: DefaultDestination) {
    var places: [String: [UInt32]] = [:]
    for link in network.links { places[link.name] = [link.index, UInt32(link.network)] }
    for link in self.paths.values.flatMap(\.chain) where places[link.name] != self.places[link.name]
    {
      self.bounces += 1
    }
    self.places = places
    for family in AddressFamily.allCases {
      let path = network.defaultPath(family, configuration)
      self.paths[family] = path
      if path.status == .satisfied { self.last[family] = path }
    }
    self.category = Self.category(self.paths)
    self.isSoft = self.last.values.allSatisfy { path in
      guard let source = path.source, network.has(source, on: path.chain.first?.index) else {
        return false
      }
      return path.chain.allSatisfy { link in
        guard let found = network[link.index], found.isUp else { return false }
        return found.sort == .wifi || network.link(link.index)?.state == .up
      }
    }
  }

  /// K1 and K7, IPv4 preferred.
  private static func category(_ paths: [AddressFamily: Path]) -> Connectivity.Category {
    let satisfied = [paths[.ipv4], paths[.ipv6]].compactMap { $0 }.first {
      $0.status == .satisfied
    }
    switch satisfied?.medium {
    case nil: return .none
    case .wired: return .wired
    case .wifi: return .wifi
    case .cellular: return .cellular
    default: return .other
    }
  }
}

extension Path {
  /// All of it but the words that say why.
  func agrees(with truth: Path) -> Bool {
    var (path, truth) = (self, truth)
    (path.evidence, truth.evidence) = (nil, nil)
    return path == truth
  }
}

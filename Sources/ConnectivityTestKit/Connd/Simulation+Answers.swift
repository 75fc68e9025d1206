internal import Connectivity
internal import ConnectivityRules
internal import ConnectivityProtocol

/// Responses to queries, and the first messages of streams.
extension Simulation {
  /// Returns the first messages of a new subscription (D5).
  func first(
    since generation: UInt64?, _ kinds: ChangeKinds
  ) -> [Connectivity_V1_WatchResponse] {
    guard let generation else { return [.snapshot(self.snapshot)] }
    if generation == self.snapshot.generation { return [] }
    guard generation < self.snapshot.generation, let oldest = self.history.first?.generation,
      oldest <= generation + 1
    else { return [.gap(self.snapshot)] }
    return self.history.filter { $0.generation > generation && kinds.contain($0) }.map { .init($0) }
  }

  /// Returns the transitions and invalidations of the history, oldest first.
  ///
  /// - Parameter limit: The maximum number of transitions, counted from the latest; 0 means all.
  func changes(ofLatestTransitions limit: Int) -> [ConnectivityChange] {
    let generations = self.history.compactMap { change in
      if case .transition = change { change.generation } else { nil }
    }
    let isCut = limit > 0 && limit < generations.count
    let first = isCut ? generations[generations.count - limit] : 0
    return self.history.filter { change in
      switch change {
      case .transition, .invalidation: change.generation >= first
      case .path, .dns: false
      }
    }
  }

  /// The links, those of the default paths first.
  var links: [Connectivity_V1_Link] {
    let defaults = AddressFamily.allCases.map {
      self.machine.defaultPath($0).chain.first?.index
    }
    let links = self.machine.interfaces.map { name, interface in
      var link = Connectivity_V1_Link(name, interface)
      link.defaultIpv4 = defaults[0] == interface.index
      link.defaultIpv6 = defaults[1] == interface.index
      return link
    }
    func rank(_ link: Connectivity_V1_Link) -> (Int, Int, UInt32) {
      (link.defaultIpv4 || link.defaultIpv6 ? 0 : 1, link.state == .up ? 0 : 1, link.index)
    }
    return links.sorted { rank($0) < rank($1) }
  }

  /// Returns the path, the links that it uses, and the resulting category.
  ///
  /// - Parameter asked: The destination, or `nil` for the default destination.
  func explain(_ asked: IPAddress?) -> Connectivity_V1_Explanation {
    let path: KernelPath
    var explanation = Connectivity_V1_Explanation()
    if let asked {
      explanation.destination = asked.description
      path = self.path(to: asked)
    } else {
      let status = ConnectivityStatus(
        ipv4: self.machine.defaultPath(.ipv4), ipv6: self.machine.defaultPath(.ipv6),
        preferred: .ipv4)
      explanation.destination = IPAddress.unspecified(status.family).description
      path = status.path
    }
    let flags = ReachabilityFlags(path)
    explanation.path = Connectivity_V1_Path(path)
    explanation.flags = Connectivity_V1_Flags(flags)
    explanation.category = Connectivity_V1_Category(
      path.status == .unknown ? .unknown : NetworkCategory(flags, medium: path.medium))
    if !path.chain.isEmpty, let family = path.source?.family ?? asked?.family {
      let prefix = asked.flatMap { self.machine.longestMatch(to: $0) }
      explanation.routePrefix =
        prefix?.description ?? "\(IPAddress.unspecified(family))/0"
    }
    explanation.links = path.chain.compactMap { link in
      self.machine.interfaces[link.name].map { Connectivity_V1_Link(link.name, $0) }
    }
    return explanation
  }
}

extension Connectivity_V1_Link {
  fileprivate init(_ name: String, _ interface: Machine.Interface) {
    self.init()
    let network = interface.network
    self.index = interface.index
    self.name = name
    self.medium = Connectivity_V1_Medium(network.medium)
    self.evidence = Connectivity_V1_Evidence(network.evidence)
    self.state =
      switch interface.state {
      case .down: .down
      case .noCarrier: .noCarrier
      case .dormant: .dormant
      case .up: .up
      }
    if let isExpensive = network.isExpensive { self.expensive = isExpensive }
    self.constrained = network.constraint != .unconstrained
    if self.constrained {
      self.constraintLevel = Connectivity_V1_ConstraintLevel(network.constraint)
    }
    self.addresses = interface.attachments.map { "\($0.source)/\($0.prefixLength)" }
    self.hardwareType = 1
    self.mtu = 1500
  }
}

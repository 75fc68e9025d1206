import Connectivity
import ConnectivityRules
import ModelRoutes

/// The route lookup, like the kernel's.
extension ModelNetwork {
  func route(to destination: Destination) -> RouteAnswer {
    let address = destination.address
    if self.isLocal(address) {
      return .route(Route(kind: .local, outLink: 1, source: address, table: 255))
    }
    if let source = destination.source, !self.isLocal(source) {
      return .noRoute(address.family == .ipv4 ? .noSourceAddress : .noRoute)
    }
    guard let route = self.entry(for: destination) else { return .noRoute(.noRoute) }
    return route.answer(to: destination, owner: destination.source.flatMap(self.owner)) { leg in
      self.source(on: leg.link, for: leg.gateway ?? address, address.family)
    }
  }

  /// The entry in the kernel's form.
  func tableEntry(for destination: Destination) -> RouteEntry? {
    let address = destination.address
    if self.isLocal(address) {
      let owner = self.owner(of: address)
      let prefix = IPPrefix.block(address, owner == nil ? 24 : address.family.bitWidth)
      return RouteEntry(
        MatchedRoute(prefix: prefix, table: 255, priority: 0), kind: .local, outLink: owner ?? 1,
        isKernels: owner != nil)
    }
    return self.entry(for: destination)?.entry
  }

  /// The deciding entry.
  func entry(for destination: Destination) -> ModelRoute? {
    self.rules.entry(for: destination) { self.best(in: $0, for: destination) }
  }

  private func best(in table: UInt32, for destination: Destination) -> ModelRoute? {
    var best = self.routes.best(in: table, for: destination)
    guard table == 254 else { return best }
    // The routes of the links' subnets.
    for index in self.links.indices
    where self.links[index].isUp && self.links[index].sort != .loopback
      && (destination.outLink == nil || destination.outLink == self.links[index].index)
    {
      for address in self.links[index].addresses where !address.flags.contains(.tentative) {
        let prefix = IPPrefix.block(address.address, address.prefixLength)
        guard prefix.contains(destination.address) else { continue }
        let route = ModelRoute(
          prefix, metric: self.links[index].metric, over: [.init(self.links[index].index)])
        if let best, !route.isBetter(than: best) { continue }
        best = route
      }
    }
    return best
  }

  /// Whether an address is this machine's, by the local table.
  func isLocal(_ address: IPAddress) -> Bool {
    address.isLoopback || self.owner(of: address) != nil || self.local?.contains(address) == true
  }

  func owner(of address: IPAddress) -> UInt32? {
    self.links.first { self.has(address, on: $0.index) }?.index
  }

  /// The source address. Addresses in the next hop's subnet come first, then preferred ones before
  /// deprecated ones, then the latest. A link-local address does not count, because no destination
  /// is on-link only.
  private func source(
    on link: UInt32, for nextHop: IPAddress, _ family: AddressFamily
  ) -> IPAddress? {
    let usable = (self[link]?.addresses ?? []).filter { address in
      address.address.family == family && !address.flags.contains(.tentative)
        && !address.address.isLinkLocal
    }
    func rank(_ address: Address) -> (Int, Int) {
      let isNear = IPPrefix.block(address.address, address.prefixLength).contains(nextHop)
      return (isNear ? 0 : 1, address.flags.contains(.deprecated) ? 1 : 0)
    }
    return usable.reversed().min { rank($0) < rank($1) }?.address
  }
}

/// The required knowledge, by the words of the rules and not by the code.
extension ModelNetwork {
  /// The path to a destination (K2 to K6).
  ///
  /// - Parameter upToTunnel: whether the path ends at a tunnel.
  func path(to destination: Destination, upToTunnel: Bool = false) -> KernelPath {
    let route: Route
    switch self.connect(to: destination) {
    case .unanswered: return .unknown
    case .noRoute(let reason): return .unsatisfied(reason)
    case .route(let found): route = found
    }
    let nextHop = route.gateway ?? destination.address
    let (chain, isBroken) = self.chain(below: route.outLink, nextHop, upToTunnel: upToTunnel)
    let source = self[route.outLink]?.addresses.first { $0.address == route.source }
    var path = KernelPath(
      status: .requiresConnection,
      chain: chain.map { KernelPath.Link(index: $0.index, name: $0.name) },
      medium: self.medium(chain.last), source: route.source,
      sourcePrefixLength: source?.prefixLength, gateway: route.gateway, table: route.table,
      isExpensive: self.medium(chain.last) == .cellular)
    let failed = chain.reversed().compactMap { self.whatFails(on: $0) }.first
    if let failed {
      path.reason = failed
    } else if let isBroken {
      path.reason = isBroken
    } else if route.kind == .unicast,
      route.source == nil || source?.flags.contains(.tentative) == true
    {
      path.reason = .noSourceAddress
    } else {
      path.status = .satisfied
    }
    return path
  }

  /// Like connect(2): if a lookup without a source address fails, one of the machine's own is
  /// tried (IPv6).
  private func connect(to destination: Destination) -> RouteAnswer {
    let answer = self.route(to: destination)
    guard answer == .noRoute(.noRoute), destination.address.family == .ipv6,
      destination.source == nil
    else { return answer }
    let candidates = self.links.flatMap(\.addresses).filter {
      $0.address.family == .ipv6 && !$0.address.isLinkLocal
        && $0.flags.isDisjoint(with: [.tentative, .deprecated])
    }
    for candidate in candidates {
      var question = destination
      question.source = candidate.address
      let found = self.route(to: question)
      if case .route = found { return found }
    }
    return answer
  }

  private func whatFails(on link: ModelLink) -> KernelPath.Reason? {
    if !link.isUp { return .linkDown }
    if self.link(link.index)?.flags.contains(.lowerUp) != true { return .noCarrier }
    return link.isDormant ? .dormant : nil
  }

  private func medium(_ bottom: ModelLink?) -> NetworkMedium {
    switch bottom?.sort {
    case .wired: .wired
    case .wifi: .wifi
    case .cellular: .cellular
    case .loopback: .loopback
    case .tunnel: .tunnel
    case .container, .vlan, .bridge, .bond, nil: .unknown
    }
  }

  private func chain(
    below outLink: UInt32, _ nextHop: IPAddress, upToTunnel: Bool
  ) -> (links: [ModelLink], isBroken: KernelPath.Reason?) {
    var chain: [ModelLink] = []
    var next = self[outLink]
    while let link = next, !chain.contains(where: { $0.index == link.index }) {
      chain.append(link)
      next = nil
      if let lower = link.lower { next = self[lower] }
      // The port with the next hop: in this model always the cable's.
      if link.sort == .bridge {
        next = self.ports(of: link.index).min { $0.sort == .wired && $1.sort != .wired }
      } else if link.sort == .bond {
        next = self.activePort(of: link.index) ?? self.ports(of: link.index).first
      }
      guard let remote = link.remote, !upToTunnel else { continue }
      let below = self.way(ofTunnelTo: remote, under: chain, nextHop)
      return (chain + below.links, below.isBroken)
    }
    return (chain, nil)
  }

  /// The path below a tunnel. It takes a working one of several next hops, because the one that a
  /// connection inside uses is unknown.
  private func way(
    ofTunnelTo remote: IPAddress, under chain: [ModelLink], _ nextHop: IPAddress
  ) -> (links: [ModelLink], isBroken: KernelPath.Reason?) {
    let route: Route
    switch self.route(to: Destination(remote)) {
    case .unanswered: return ([], nil)
    case .noRoute(let reason): return ([], reason)
    case .route(let found): route = found
    }
    var legs = self.entry(for: Destination(remote))?.legs.map(\.link) ?? []
    if legs.count < 2 || chain.contains(where: { self.whatFails(on: $0) != nil }) { legs = [] }
    let ways = ([route.outLink] + legs).map {
      leg -> (links: [ModelLink], isBroken: KernelPath.Reason?) in
      // The kernel drops packets that a tunnel would send into itself.
      if chain.contains(where: { $0.index == leg }) { return ([], .noRoute) }
      return self.chain(below: leg, nextHop, upToTunnel: false)
    }
    return ways.first { way in
      way.isBroken == nil && way.links.allSatisfy { self.whatFails(on: $0) == nil }
    } ?? ways[0]
  }

  /// The default path of a family: that of most probes.
  func defaultPath(_ family: AddressFamily, _ probes: DefaultDestination) -> KernelPath {
    let paths = probes[family].map { self.path(to: Destination($0)) }
    func votes(_ path: KernelPath) -> Int {
      paths.count {
        $0.chain.first == path.chain.first && $0.gateway == path.gateway && $0.table == path.table
          && (path.status != .unsatisfied || $0.reason == path.reason)
      }
    }
    let most = paths.map(votes).max()
    return paths.first { votes($0) == most } ?? .unsatisfied(.noRoute)
  }
}

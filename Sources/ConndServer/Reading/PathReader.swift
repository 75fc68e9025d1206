import Connectivity
import ConnectivityRules

/// Reads only the parts of a path from the kernel. The cost does not depend on the number of links,
/// addresses or routes (D6).
///
/// Implements rules K2 and K6.
struct PathReader {
  var destinations: DefaultDestination
  var classifier: PathClassifier
  /// The key that hashes networks for users' cost overrides.
  var networkKey = NetworkKey(bytes: [])

  /// Returns the path to a destination, and the facts behind it.
  func path(
    to destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> (path: KernelPath, facts: PathFacts) {
    let facts = try self.facts(about: destination, view)
    if facts.answer.isAssumed(for: destination) { return (.unsatisfied(.noRoute), facts) }
    return (try self.path(facts, view), facts)
  }

  /// Returns the path for the facts, with users' overrides for its network. While the links below a
  /// tunnel are unknown, the tunnel's last known cost applies.
  func path(_ facts: PathFacts, _ view: KernelView) throws(KernelUnavailable) -> KernelPath {
    let facts = self.droppingUnusableGuess(facts)
    let path = try self.pathByItself(facts, view)
    view.subscriptions.tunnelCosts.note(path, facts)
    return path.costing(view.subscriptions.tunnelCosts.held(path, facts))
  }

  /// Returns the path for the facts without the last cost of a tunnel.
  func pathByItself(_ facts: PathFacts, _ view: KernelView) throws(KernelUnavailable) -> KernelPath
  {
    let path = self.classifier.path(facts)
    guard self.classifier.overrides.concernNetworks,
      let network = try self.network(of: path, facts, view)
    else { return path }
    return self.classifier.path(facts, by: network.hash)
  }

  /// Returns the network that a path uses, below all tunnels and including guesses. Returns `nil`
  /// if nothing identifies it, e.g. if the operator is unknown or the gateway has not answered.
  func network(
    of path: KernelPath, _ facts: PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> CurrentNetwork? {
    let facts = self.droppingUnusableGuess(facts)
    let links = facts.allLinks
    let names = links.map(\.link.name)
    // The cost of the last known network applies until another network is known.
    if let link = links.wireless, let wireless = view.wireless.costNetwork(of: link.link.index) {
      return CurrentNetwork(
        hash: self.networkKey.hash(of: wireless), name: wireless.name, medium: .wifi, links: names)
    }
    // A modem's gateway, if any, is the modem itself and identifies no network.
    if let mobile = links.last?.modem?.mobileOperator {
      return CurrentNetwork(
        hash: self.networkKey.hash(of: mobile),
        name: mobile.name.isEmpty ? mobile.code : mobile.name, medium: path.medium, links: names)
    }
    guard path.status == .satisfied, !links.contains(where: \.isWireless),
      let gateway = facts.lowestGateway,
      let address = try view.hardwareAddress(
        of: gateway, behind: Array(links.drop { $0.link.index != gateway.link }))
    else { return nil }
    return CurrentNetwork(
      hash: self.networkKey.hash(ofGateway: address), name: gateway.address.description,
      medium: path.medium, links: names)
  }

  /// Returns everything that the kernel reports about the path to a destination.
  func facts(
    about destination: Destination, answer: RouteAnswer? = nil, _ view: KernelView
  ) throws(KernelUnavailable) -> PathFacts {
    var answer = if let answer { answer } else { try view.route(to: destination) }
    answer = try self.current(answer, destination, view)
    var facts = PathFacts(
      destination: destination.address, user: destination.uid, answer: answer)
    guard case .route(let route) = answer else { return facts }
    try self.followChain(along: route, to: destination.address, into: &facts, view)
    facts.takesAllForNeighbours = try self.takesAllForNeighbours(route, facts, destination, view)
    if let source = route.source {
      facts.source = try view.address(source, on: route.outLink)
    }
    if facts.isTranslated {
      try self.followTranslation(into: &facts, view)
    } else {
      facts.guess = try self.guess(below: facts, view)
    }
    return facts
  }

  /// Adds the IPv6 path that carries translated IPv4 (K9): the default path, or the path of the
  /// link that translates.
  private func followTranslation(
    into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) {
    let (probe, _) = try self.probe(.ipv6, view)
    let all = self.destinations[.ipv6]
    guard let link = facts.links.first, !all.isEmpty else { return }
    var question = Destination(all[probe ?? 0])
    if !link.isTunnel { question.outLink = link.link.index }
    let below = try self.facts(about: question, view)
    facts.add(below, self.classifier.path(below))
  }

  /// Returns the route, looked up again if its source address is gone: another route may have
  /// replaced it between the queries. For unnumbered links, which borrow an address, the answer
  /// stays the same.
  private func current(
    _ answer: RouteAnswer, _ destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> RouteAnswer {
    var answer = answer
    guard destination.source == nil else { return answer }
    for _ in 0..<Self.maxRepetitions {
      guard case .route(let route) = answer, route.kind == .unicast, let source = route.source,
        try view.address(source, on: route.outLink) == nil
      else { break }
      let now = try view.routeAnew(to: destination)
      if now == answer { break }
      answer = now
    }
    return answer
  }

  /// The maximum number of lookups. If addresses change even faster, messages cause another turn.
  private static let maxRepetitions = 3

  /// Whether the path uses a default route without a gateway. Then the source address decides
  /// whether there is a router.
  private func takesAllForNeighbours(
    _ route: Route, _ facts: PathFacts, _ destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> Bool {
    guard let source = route.source, source.family == .ipv4, source.isLinkLocal,
      !destination.address.isLinkLocal, route.gateway == nil,
      facts.links.first?.link.hasNeighbours ?? false
    else { return false }
    return try view.entry(for: destination)?.route.map { $0.prefix.length <= 1 } ?? false
  }

  /// Appends the out-link and the links below it.
  func followChain(
    along route: Route, to destination: IPAddress, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) {
    let nextHop = Gateway(link: route.outLink, address: route.gateway ?? destination)
    let start = facts.links.count
    var next = try view.link(nextHop.link)
    while let link = next, facts.links.count < Self.maxDepth,
      !facts.links.contains(where: { $0.link.index == link.link.index })
    {
      let above = facts.links.count > start ? facts.links.last : nil
      if let reason = try self.missing(to: link, below: above, view) { facts.brokenBelow = reason }
      facts.links.append(link)
      if above == nil, let end = try self.end(of: link, on: route, to: destination, nextHop, view) {
        facts.tunnelEnds.append(.init(link: link.link.index, address: end.address))
        return try self.followTunnel(to: end, into: &facts, view)
      }
      switch link.below {
      case .nothing: next = try self.acrossPair(link, below: above, view)
      case .links(let indexes):
        let below = try self.port(
          of: link, among: indexes, below: above, towards: nextHop, view)
        if !below.isKnown { facts.knownLinks = facts.knownLinks ?? facts.links.count }
        if let reason = below.missing { facts.brokenBelow = reason }
        next = below.link
      case .destination(let end):
        facts.tunnelEnds.append(.init(link: link.link.index, address: end.address))
        return try self.followTunnel(to: end, into: &facts, view)
      }
    }
    // If a link below the tunnel drops all traffic, the path into the tunnel exists but passes no
    // traffic.
    if start > 0, self.classifier.endInSink(facts.links[start...]) {
      facts.brokenBelow = .blackhole
    }
  }

  /// Returns the destination of the encapsulated packets, or `nil` if neither the route nor its
  /// next hop determines it.
  private func end(
    of link: LinkFacts, on route: Route, to destination: IPAddress, _ nextHop: Gateway,
    _ view: KernelView
  ) throws(KernelUnavailable) -> Destination? {
    if let outer = route.outer {
      // Segment routing looks up the first segment. It uses the route's own link only if that
      // lookup returns the same link.
      guard !link.isTunnel, case .route(let route) = try view.route(to: outer),
        route.outLink == link.link.index
      else { return outer }
      return nil
    }
    guard let open = link.link.openEnd else { return nil }
    var hardwareAddress: [UInt8]?
    if case .hardwareAddress = open.rule {
      hardwareAddress = try view.neighbour(nextHop.address, on: nextHop.link)?.hardwareAddress
    }
    return open.end(of: destination, by: nextHop.address, hardwareAddress: hardwareAddress)
  }

  /// Appends the links below a tunnel. With several nexthops, or rules for source ports, each
  /// connection may take a different path. The kernel does not show which, so a working path is
  /// preferred.
  private func followTunnel(
    to end: Destination, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) {
    let above = facts
    let answer = try self.follow(end, into: &facts, view)
    guard facts.isBroken, !above.isBroken else { return }
    for other in try self.questionsBeside(to: end, than: answer, view) {
      var below = above
      _ = try self.follow(other, into: &below, view)
      if !below.isBroken {
        facts = below
        return
      }
    }
  }

  private func questionsBeside(
    to end: Destination, than answer: RouteAnswer, _ view: KernelView
  ) throws(KernelUnavailable) -> [Destination] {
    var questions: [Destination] = []
    if case .route(let route) = answer, let legs = try view.entry(for: end)?.legs {
      questions += legs.filter { $0 != route.outLink }.map { leg in
        var bound = end
        bound.outLink = leg
        return bound
      }
    }
    if end.transport?.localPort == 0 {
      questions += Self.sourcePorts.map { port in
        var sent = end
        sent.transport?.localPort = port
        return sent
      }
    }
    return questions
  }

  /// Samples of the default net.ipv4.ip_local_port_range, from which a UDP tunnel chooses its
  /// source port by a hash of the inner packet (udp_flow_src_port).
  private static let sourcePorts: [UInt16] = [32768, 39826, 46884, 53942, 60999]

  private func follow(
    _ end: Destination, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> RouteAnswer {
    let answer = try view.route(to: end)
    switch answer {
    case .route(let route) where facts.links.contains { $0.link.index == route.outLink }:
      // The route leads back into the tunnel, and the kernel drops such packets. If a bridge is in
      // between, the packets may leave by another of its ports.
      let loop = facts.links.drop { $0.link.index != route.outLink }
      if loop.allSatisfy({ $0.device.lowerLinks.count < 2 }) { facts.brokenBelow = .noRoute }
    case .route(let route):
      facts.gatewayBelow = route.gateway.map { Gateway(link: route.outLink, address: $0) }
      try self.followChain(along: route, to: end.address, into: &facts, view)
    case .noRoute(let reason):
      facts.brokenBelow = reason
    // Unknown is not offline (K8).
    case .unanswered: break
    }
    return answer
  }

  /// The maximum number of links in a chain. A deeper or circular stack is not followed to its end.
  static let maxDepth = 16
}

extension RouteAnswer {
  /// Whether no table has a route. For IPv4 traffic bound to a link, the kernel then assumes that
  /// the destination is a neighbour, which is plausible only for a link-local address.
  fileprivate func isAssumed(for destination: Destination) -> Bool {
    guard case .route(let route) = self else { return false }
    return route.kind == .unicast && route.table == 0 && destination.outLink != nil
      && !destination.address.isLinkLocal
  }
}

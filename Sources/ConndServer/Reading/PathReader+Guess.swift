import Connectivity
import ConnectivityRules

/// Guesses what is below a tunnel that does not reveal its remote end (K6), from the path that the
/// tunnel's own packets most likely take.
extension PathReader {
  /// Returns the guessed links below the last link. Returns `nil` without evidence, or if the last
  /// link is not a tunnel that hides its remote end.
  func guess(
    below facts: PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> GuessedLinks? {
    guard case .route(let route) = facts.answer, route.kind == .unicast, facts.brokenBelow == nil
    else { return nil }
    let isOutLink = facts.links.count == 1
    let family = facts.destination.family
    return try self.guess(
      below: facts.links, table: isOutLink ? (family, route.table) : nil, view)
  }

  /// Returns the link over which a tunnel's own packets leave. Returns `nil` without evidence, or
  /// if the link is down or not a tunnel.
  func underlay(
    of tunnel: LinkFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> (link: UInt32, isGuess: Bool)? {
    guard tunnel.link.state == .up else { return nil }
    if case .destination(let end) = tunnel.below {
      guard case .route(let route) = try view.route(to: end), route.kind == .unicast,
        route.outLink != tunnel.link.index
      else { return nil }
      return (route.outLink, false)
    }
    return try self.guess(below: [tunnel], table: nil, view)?.links.first.map {
      ($0.link.index, true)
    }
  }

  /// - Parameters:
  ///   - chain: The links from the out-link to the tunnel.
  ///   - table: The routing table with the route over the tunnel, or `nil` if it is unknown.
  private func guess(
    below chain: [LinkFacts], table: (family: AddressFamily, number: UInt32)?, _ view: KernelView
  ) throws(KernelUnavailable) -> GuessedLinks? {
    guard let tunnel = chain.last, tunnel.hidesItsEnd, chain.count < Self.maxDepth,
      self.classifier.policy.rule(for: tunnel.link)?.medium == nil
    else { return nil }
    if let table {
      for mark in try view.marks(keptOutOf: table.number, table.family) {
        if var underlay = try self.underlayBeside(chain, mark: mark, view) {
          underlay.mark = mark
          return underlay
        }
      }
    }
    if let underlay = try self.underlayBeside(chain, mark: 0, view) { return underlay }
    return try self.defaultRouteBeside(chain, view)
  }

  /// Returns the default path of traffic with a mark, or `nil` if that path uses the tunnel again.
  /// The tunnel may use either family: IPv4 comes before IPv6, and a working path before a failed
  /// one.
  private func underlayBeside(
    _ chain: [LinkFacts], mark: UInt32, _ view: KernelView
  ) throws(KernelUnavailable) -> GuessedLinks? {
    var failed: GuessedLinks?
    for family in AddressFamily.allCases {
      let (chosen, answers) = try self.probe(family, mark: mark, view)
      guard let chosen else { continue }
      let question = Destination(self.destinations[family][chosen], mark: mark)
      guard let underlay = try self.links(of: question, answers[chosen], below: chain, view)
      else { continue }
      if underlay.carries { return underlay }
      failed = failed ?? underlay
    }
    return failed
  }

  /// Returns the links of the best default route outside the tunnel, because a VPN client leaves
  /// such routes in place. A lookup bound to a link finds that link's route.
  private func defaultRouteBeside(
    _ chain: [LinkFacts], _ view: KernelView
  ) throws(KernelUnavailable) -> GuessedLinks? {
    let uplinks = try self.uplinks(view)
    // The best route may change whenever a link of a default route appears or disappears.
    view.subscriptions.ignoredLinks.use(uplinks)
    var best: (priority: UInt32, links: GuessedLinks)?
    for family in AddressFamily.allCases {
      for uplink in uplinks {
        // A VRF's default routes do not apply to traffic outside the VRF.
        guard let link = try view.link(uplink), link.link.master == nil, !link.hidesItsEnd,
          let question = self.question(family, over: uplink),
          let underlay = try self.links(
            of: question, try view.route(to: question), below: chain, view)
        else { continue }
        let priority = try view.entry(for: question)?.route?.priority ?? .max
        if best.map({ priority < $0.priority }) ?? true { best = (priority, underlay) }
      }
      if best != nil { break }
    }
    return best?.links
  }

  /// Returns the links of default routes.
  func uplinks(_ view: KernelView) throws(KernelUnavailable) -> [UInt32] {
    if let known = view.subscriptions.uplinks { return known.sorted() }
    var uplinks: Set<UInt32> = []
    for facts in try view.links()
    where !facts.link.flags.contains(.loopback) && uplinks.count < KernelSubscriptions.maxUplinks {
      for family in AddressFamily.allCases {
        guard let question = self.question(family, over: facts.link.index),
          try view.route(to: question).isDefault(over: facts.link.index)
        else { continue }
        uplinks.insert(facts.link.index)
        break
      }
    }
    view.subscriptions.uplinks = uplinks
    return uplinks.sorted()
  }

  private func question(_ family: AddressFamily, over link: UInt32) -> Destination? {
    self.destinations[family].first.map { Destination($0, outLink: link) }
  }

  /// Returns the links of an answer and the links below them, including a further guess, or `nil`
  /// if the answer uses the tunnel again.
  private func links(
    of question: Destination, _ answer: RouteAnswer, below chain: [LinkFacts], _ view: KernelView
  ) throws(KernelUnavailable) -> GuessedLinks? {
    guard case .route(let route) = answer,
      answer.isDefault(over: question.outLink ?? route.outLink),
      !chain.contains(where: { $0.link.index == route.outLink })
    else { return nil }
    var facts = PathFacts(destination: question.address, answer: answer, links: chain)
    try self.followChain(along: route, to: question.address, into: &facts, view)
    guard facts.brokenBelow == nil, facts.links.count > chain.count else { return nil }
    let isOutLink = facts.links.count == chain.count + 1
    let table = isOutLink ? (question.address.family, route.table) : nil
    facts.guess = try self.guess(below: facts.links, table: table, view)
    return GuessedLinks(
      Array(facts.allLinks.dropFirst(chain.count)), gateway: facts.lowestGateway,
      tunnelEnds: facts.tunnelEnds + (facts.guess?.tunnelEnds ?? []))
  }

  /// Returns the facts without an unusable guess. A guess that would make the path appear broken is
  /// dropped, because unknown is not offline (K8).
  func droppingUnusableGuess(_ facts: PathFacts) -> PathFacts {
    guard let guess = facts.guess, !guess.carries else { return facts }
    var facts = facts
    facts.guess = nil
    return facts
  }
}

extension RouteAnswer {
  /// Whether the answer is a route over a link. The kernel invents a route of table 0 for IPv4
  /// traffic bound to a link if no table has a route.
  fileprivate func isDefault(over link: UInt32) -> Bool {
    guard case .route(let route) = self else { return false }
    return route.kind == .unicast && route.outLink == link && route.table != 0
  }
}

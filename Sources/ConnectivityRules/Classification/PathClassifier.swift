package import Connectivity

/// Everything that the kernel and sysfs reported about the path to a destination.
package struct PathFacts: Hashable, Sendable {
  package var destination: IPAddress
  /// The user that sends the traffic.
  package var user: UInt32
  package var answer: RouteAnswer
  /// The out-link and the links below it, the out-link first. Empty without a route.
  package var links: [LinkFacts]
  /// The gateway for the packets of the lowest tunnel with a known remote end, or `nil` without
  /// such a tunnel or gateway.
  package var gatewayBelow: Gateway?
  /// The guessed links below the last link, if that is a tunnel that hides its remote end (K6).
  package var guess: GuessedLinks?
  /// The source address as set on its link, or `nil` if the kernel named no source or the address
  /// could not be read.
  package var source: Address?
  /// Why the path does not work although its links carry traffic. Either a tunnel's remote end
  /// cannot be reached, or a switch takes the packets that a link receives.
  package var brokenBelow: KernelPath.Reason?
  /// The remote ends of the tunnels in the chain, each with the tunnel's link.
  package var tunnelEnds: [TunnelEnd] = []
  /// The number of certain links, counted from the top, or `nil` if all are certain. The links
  /// below are a switch's most likely ports.
  package var knownLinks: Int?
  /// Whether the path uses a default route without a gateway, so that the link treats all addresses
  /// as neighbours.
  package var takesAllForNeighbours = false

  package struct TunnelEnd: Hashable, Sendable {
    package var link: UInt32
    package var address: IPAddress

    package init(link: UInt32, address: IPAddress) {
      self.link = link
      self.address = address
    }
  }

  package init(
    destination: IPAddress, user: UInt32 = 0, answer: RouteAnswer, links: [LinkFacts] = [],
    guess: GuessedLinks? = nil,
    source: Address? = nil, brokenBelow: KernelPath.Reason? = nil
  ) {
    self.destination = destination
    self.user = user
    self.answer = answer
    self.links = links
    self.guess = guess
    self.source = source
    self.brokenBelow = brokenBelow
  }
}

/// The links that a tunnel probably uses, topmost first.
package struct GuessedLinks: Hashable, Sendable {
  package var links: [LinkFacts]
  /// The mark that keeps traffic out of the tunnel and led to the guess. `nil` if the guess is the
  /// best default route outside the tunnel.
  package var mark: UInt32?
  /// The gateway for traffic that leaves by the lowest of the links, or `nil` without one.
  package var gateway: Gateway?
  /// The remote ends of the tunnels among the links.
  package var tunnelEnds: [PathFacts.TunnelEnd]

  package init(
    _ links: [LinkFacts], mark: UInt32? = nil, gateway: Gateway? = nil,
    tunnelEnds: [PathFacts.TunnelEnd] = []
  ) {
    self.links = links
    self.mark = mark
    self.gateway = gateway
    self.tunnelEnds = tunnelEnds
  }

  /// Whether all of the links carry traffic.
  package var carries: Bool {
    self.links.allSatisfy { $0.link.state == .up && $0.modem?.isSuspended != true }
  }
}

extension PathFacts {
  /// All links, including guessed ones.
  package var allLinks: [LinkFacts] { self.links + (self.guess?.links ?? []) }

  /// The gateway for the traffic below all tunnels, known or guessed, or `nil` without one.
  package var lowestGateway: Gateway? {
    if let gateway = self.guess?.gateway ?? self.gatewayBelow { return gateway }
    guard case .route(let route) = self.answer else { return nil }
    return route.gateway.map { Gateway(link: route.outLink, address: $0) }
  }

  /// The facts down to the first tunnel (I5). Connections inside the tunnel depend on nothing else.
  /// Without a tunnel, all facts.
  package var upToTunnel: PathFacts {
    guard let tunnel = self.firstTunnel else { return self }
    var facts = self
    facts.links = Array(self.links[...tunnel])
    (facts.gatewayBelow, facts.guess, facts.brokenBelow) = (nil, nil, nil)
    (facts.tunnelEnds, facts.knownLinks) = ([], nil)
    return facts
  }
}

extension PathFacts {
  /// Whether a link of the path does not carry traffic, or a tunnel has no path to its remote end.
  package var isBroken: Bool {
    self.brokenBelow != nil
      || self.links.contains { $0.link.state != .up || $0.modem?.isSuspended == true }
  }
}

/// Classifies paths by the rules K2 to K6, K9 and K10, as functions of values.
package struct PathClassifier: Hashable, Sendable {
  /// The rules of the configuration, which take precedence over all other evidence.
  package var policy: LinkPolicy
  /// The users' overrides, which take precedence over all evidence except the configuration.
  package var overrides: CostOverrides

  /// The costs of links according to other sources.
  package var metering: MeteringReports
  /// Whether links reach the internet, according to other sources.
  package var validations: ValidationReports
  /// The quality of each link.
  package var conditions: LinkConditions

  package init(
    policy: LinkPolicy = LinkPolicy(), overrides: CostOverrides = CostOverrides(),
    metering: MeteringReports = MeteringReports(),
    validations: ValidationReports = ValidationReports(),
    conditions: LinkConditions = LinkConditions()
  ) {
    self.policy = policy
    self.overrides = overrides
    self.metering = metering
    self.validations = validations
    self.conditions = conditions
  }

  /// Returns the path for the facts.
  ///
  /// - Parameter network: The network that the path uses, if known.
  package func path(_ facts: PathFacts, by network: NetworkHash? = nil) -> KernelPath {
    switch facts.answer {
    case .unanswered:
      return .unknown
    case .noRoute(let reason):
      return .unsatisfied(reason)
    case .route where self.endInSink(facts.links[...]):
      return .unsatisfied(.blackhole)
    case .route(let route):
      let links = facts.allLinks
      let evidence = self.evidence(for: links)
      let cost = self.cost(of: links, medium: evidence.medium, by: network)
      let reason = self.whatIsMissing(facts, route)
      var path = KernelPath(
        status: reason == nil ? .satisfied : .requiresConnection,
        reason: reason,
        chain: links.map { KernelPath.Link(index: $0.link.index, name: $0.link.name) },
        medium: evidence.medium,
        evidence: evidence,
        source: route.source,
        sourcePrefixLength: facts.source?.prefixLength,
        gateway: route.gateway,
        table: route.table,
        isExpensive: cost.evidence.isExpensive,
        constraint: cost.constraint)
      path.guessedLinks = facts.guess?.links.count ?? 0
      path.quality = self.conditions.quality(of: path.chain, for: facts.user)
      path.validation = self.validations.validation(of: path.chain, facts.destination.family)
      return path
    }
  }

  /// Whether a chain of links, out-link first, leads only to a link that drops all packets. A
  /// medium in the configuration overrides this.
  package func endInSink(_ links: ArraySlice<LinkFacts>) -> Bool {
    guard let last = links.last, last.neverCarries else { return false }
    return links.dropLast().allSatisfy(\.passesAllDown)
      && links.allSatisfy { self.policy.rule(for: $0.link)?.medium == nil }
  }

  /// Returns the evidence for a link on its own.
  package func evidence(for link: LinkFacts) -> KernelPath.Evidence { self.evidence(for: [link]) }

  /// Returns the evidence for a chain of links: the configuration's rule for any of the links, or
  /// else the evidence of the lowest link (K5, K6).
  package func evidence(for chain: [LinkFacts]) -> KernelPath.Evidence {
    for facts in chain {
      if let rule = self.policy.rule(for: facts.link), let medium = rule.medium {
        return KernelPath.Evidence(.configuration, rule.match, medium)
      }
    }
    switch chain.last?.verdict {
    case .medium(let evidence), .stacked(let evidence): return evidence
    case nil: return KernelPath.Evidence(.none, "", .unknown)
    }
  }

  /// Returns the cost of sending: from the configuration's rule for the topmost link with a rule,
  /// or else from a user's override. Otherwise the evidence decides whether the path is metered,
  /// and a modem's technology whether it is ultra-constrained (K10).
  package func cost(
    of chain: [LinkFacts], medium: NetworkMedium, by network: NetworkHash? = nil
  ) -> (evidence: CostEvidence, constraint: ConstraintLevel) {
    let rules = chain.compactMap { self.policy.rule(for: $0.link) }
    let evidence = self.costEvidence(
      of: chain, medium: medium,
      statedByConfiguration: rules.lazy.compactMap(\.expensive).first,
      statedByUser: self.overrides.stated(of: chain, on: network, \.expensive?.isOn))
    let least: ConstraintLevel =
      chain.contains { $0.modem?.isSlow == true } ? .ultra : .unconstrained
    // A user's wish to save data on a slow link does not lower its level to constrained.
    let stated = self.overrides.stated(of: chain, on: network, \.constrained?.isOn).map {
      $0 ? least == .unconstrained ? ConstraintLevel.constrained : least : .unconstrained
    }
    return (evidence, rules.lazy.compactMap(\.constraint).first ?? stated ?? least)
  }

  /// Returns why traffic does not flow despite the route, or `nil` if traffic flows (K3).
  private func whatIsMissing(_ facts: PathFacts, _ route: Route) -> KernelPath.Reason? {
    // The lowest link comes first, because the links above only pass on its failure.
    for facts in facts.links.reversed() {
      switch facts.link.state {
      case .up where facts.modem?.isSuspended == true: return .suspended
      case .up: continue
      case .down: return .linkDown
      case .noCarrier: return .noCarrier
      case .dormant: return .dormant
      }
    }
    if facts.links.isEmpty { return .linkDown }
    if let reason = facts.brokenBelow { return reason }
    return route.kind == .unicast && !self.isUsable(route.source, facts) ? .noSourceAddress : nil
  }

  /// Whether the destination can reply to a source address.
  ///
  /// Without a better address the kernel uses a loopback address, or in IPv6 a link-local address,
  /// which routers do not forward (RFC 4291, 2.5.6). That happens while the global address is
  /// tentative (RFC 4862, 5.4). DHCP clients without a server choose a link-local IPv4 address, and
  /// route all traffic to the link itself without a router (RFC 3927, 2.6.2).
  private func isUsable(_ source: IPAddress?, _ facts: PathFacts) -> Bool {
    guard let source, !source.isLoopback, !source.isUnspecified else { return false }
    if source.isLinkLocal, !facts.destination.isLinkLocal,
      source.family == .ipv6 || facts.takesAllForNeighbours
    {
      return false
    }
    guard let flags = facts.source?.flags else { return true }
    if flags.contains(.duplicate) { return false }
    return !flags.contains(.tentative) || flags.contains(.optimistic)
  }
}

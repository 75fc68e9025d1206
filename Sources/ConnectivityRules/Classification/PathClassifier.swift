package import Connectivity

/// All that the kernel and sysfs said about the way to a destination.
package struct PathFacts: Hashable, Sendable {
  package var destination: IPAddress
  /// What the lookup said.
  package var answer: RouteAnswer
  /// The out-link and what is below it, the out-link first; empty where there is no route.
  package var links: [LinkFacts]
  /// The gateway that the packets of the lowest tunnel go to whose other end is told; `nil` where there is no such tunnel, or no gateway.
  package var gatewayBelow: Gateway?
  /// What is guessed to be below a tunnel that is the last of these and does not tell (K6).
  package var guess: GuessedLinks?
  /// The source address as its link has it; `nil` where the kernel named none or it could not be read.
  package var source: Address?
  /// Why the path to the other end of a tunnel in the chain is not there.
  package var brokenBelow: Path.Reason?

  package init(
    destination: IPAddress, answer: RouteAnswer, links: [LinkFacts] = [],
    guess: GuessedLinks? = nil,
    source: Address? = nil, brokenBelow: Path.Reason? = nil
  ) {
    self.destination = destination
    self.answer = answer
    self.links = links
    self.guess = guess
    self.source = source
    self.brokenBelow = brokenBelow
  }
}

/// Links that are guessed to carry a tunnel, from the top.
package struct GuessedLinks: Hashable, Sendable {
  package var links: [LinkFacts]
  /// By what they were found: the mark that keeps traffic out of the tunnel; `nil`: it is the way of the default route, the tunnel left
  /// aside.
  package var mark: UInt32?
  /// The gateway that what leaves by the lowest of them goes to; `nil` where there is none.
  package var gateway: Gateway?

  package init(_ links: [LinkFacts], mark: UInt32? = nil, gateway: Gateway? = nil) {
    self.links = links
    self.mark = mark
    self.gateway = gateway
  }

  /// Whether they all carry.
  package var carries: Bool {
    self.links.allSatisfy { $0.link.state == .up && $0.modem?.isSuspended != true }
  }
}

extension PathFacts {
  /// All links, also those that are only guessed.
  package var allLinks: [LinkFacts] { self.links + (self.guess?.links ?? []) }

  /// The gateway of the network that everything leaves by, below all tunnels, as far as it is known or guessed.
  package var lowestGateway: Gateway? {
    if let gateway = self.guess?.gateway ?? self.gatewayBelow { return gateway }
    guard case .route(let route) = self.answer else { return nil }
    return route.gateway.map { Gateway(link: route.outLink, address: $0) }
  }

  /// The facts down to the first tunnel: all that connections inside it depend on (I5). The whole where there is none.
  package var upToTunnel: PathFacts {
    guard let tunnel = self.links.firstIndex(where: \.isTunnel) else { return self }
    var facts = self
    facts.links = Array(self.links[...tunnel])
    (facts.gatewayBelow, facts.guess, facts.brokenBelow) = (nil, nil, nil)
    return facts
  }
}

extension PathFacts {
  /// Whether a link of the path does not carry, or there is no way to the other end of a tunnel in it.
  package var isBroken: Bool {
    self.brokenBelow != nil
      || self.links.contains { $0.link.state != .up || $0.modem?.isSuspended == true }
  }
}

/// Tells what a path is worth: rules K2 to K6, as functions of values.
package struct PathClassifier: Hashable, Sendable {
  /// What the configuration says; it beats all other evidence.
  package var policy: LinkPolicy
  /// What users say of links and networks; it beats all evidence but the configuration.
  package var choices: CostChoices

  /// What others say of what links cost.
  package var metering: MeteringWords

  package init(
    policy: LinkPolicy = LinkPolicy(), choices: CostChoices = CostChoices(),
    metering: MeteringWords = MeteringWords()
  ) {
    self.policy = policy
    self.choices = choices
    self.metering = metering
  }

  /// The path that the facts amount to.
  ///
  /// - Parameter network: the one that it leads by, where that is known.
  package func path(_ facts: PathFacts, by network: NetworkHash? = nil) -> Path {
    switch facts.answer {
    case .unanswered:
      return .unknown
    case .noRoute(let reason):
      return .unsatisfied(reason)
    case .route(let route):
      let links = facts.allLinks
      let evidence = self.evidence(for: links)
      let cost = self.cost(of: links, medium: evidence.medium, by: network)
      let reason = self.whatIsMissing(facts, route)
      var path = Path(
        status: reason == nil ? .satisfied : .requiresConnection,
        reason: reason,
        chain: links.map { PathLink(index: $0.link.index, name: $0.link.name) },
        medium: evidence.medium,
        evidence: evidence,
        source: route.source,
        sourcePrefixLength: facts.source?.prefixLength,
        gateway: route.gateway,
        table: route.table,
        isExpensive: cost.expensive,
        isConstrained: cost.constrained)
      path.guessedLinks = facts.guess?.links.count ?? 0
      return path
    }
  }

  /// What a link is taken for when nothing below it is looked at.
  package func evidence(for link: LinkFacts) -> Evidence { self.evidence(for: [link]) }

  /// What a chain of links is taken for: by the configuration's word for any of them, else by the lowest (K5, K6).
  package func evidence(for chain: [LinkFacts]) -> Evidence {
    for facts in chain {
      if let rule = self.policy.rule(for: facts.link), let medium = rule.medium {
        return Evidence(.configuration, rule.match, medium)
      }
    }
    switch chain.last?.verdict {
    case .medium(let evidence), .stacked(let evidence): return evidence
    case nil: return Evidence(.none, "", .unknown)
    }
  }

  /// What sending costs: what the configuration says of the topmost link that it speaks of; else what a user says of a link, or of
  /// the network; else, of money, what there is evidence for.
  package func cost(
    of chain: [LinkFacts], medium: Medium, by network: NetworkHash? = nil
  ) -> (evidence: CostEvidence, expensive: Bool, constrained: Bool) {
    let rules = chain.compactMap { self.policy.rule(for: $0.link) }
    let evidence = self.costEvidence(
      of: chain, medium: medium,
      saidByConfiguration: rules.lazy.compactMap(\.expensive).first,
      saidByUser: self.choices.said(of: chain, on: network, \.expensive?.isOn))
    return (
      evidence, evidence.isExpensive,
      rules.lazy.compactMap(\.constrained).first
        ?? self.choices.said(of: chain, on: network, \.constrained?.isOn) ?? false
    )
  }

  /// Why traffic does not flow although there is a route (K3); `nil` if it does.
  private func whatIsMissing(_ facts: PathFacts, _ route: Route) -> Path.Reason? {
    // The lowest link first: what is above it only passes its trouble on.
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

  /// Whether a source address gets an answer from the destination.
  ///
  /// For want of a better one the kernel names a loopback address, and in IPv6 a link-local one, which no router
  /// forwards (RFC 4291, 2.5.6): so it is while the global address is still tentative (RFC 4862, 5.4).
  private func isUsable(_ source: IPAddress?, _ facts: PathFacts) -> Bool {
    guard let source, !source.isLoopback, !source.isUnspecified else { return false }
    if source.family == .ipv6, source.isLinkLocal, !facts.destination.isLinkLocal { return false }
    guard let flags = facts.source?.flags else { return true }
    if flags.contains(.duplicate) { return false }
    return !flags.contains(.tentative) || flags.contains(.optimistic)
  }
}

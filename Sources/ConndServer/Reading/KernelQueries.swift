import Connectivity
import ConnectivityRules

/// Answers clients' queries with the current state of the kernel and the conclusions from it.
struct KernelQueries {
  let kernel: any Kernel
  let view: KernelView
  var reader: PathReader
  /// The address family that decides a tie (K7).
  let preferred: AddressFamily
  /// Whether clients may learn which Wi-Fi networks were joined.
  let identify: Identification
  /// The signal quality of modems in percent, by the names of their links.
  var signalQualities: [String: UInt32] = [:]

  /// Returns the path to a destination, read from the kernel now.
  func path(to destination: Destination) throws(KernelUnavailable) -> KernelPath {
    try self.reader.path(to: destination, self.view).path
  }

  /// Returns the path to a destination over another link's default route.
  func otherWay(to destination: Destination) throws(KernelUnavailable) -> OtherWay {
    try self.reader.otherWay(to: destination, self.view)
  }

  /// Returns the explanation for a destination, or for the default destination, read from the
  /// kernel now.
  ///
  /// - Parameter links: The indexes of links to compare with the path.
  func explain(
    _ asked: Destination?, comparedWith links: [UInt32] = []
  ) throws(KernelUnavailable) -> Explanation {
    var probes: [Explanation.Probe] = []
    let destination: Destination
    if let asked {
      destination = asked
    } else {
      let family = try self.reader.observation(self.view).followed(self.preferred)
      let (chosen, answers) = try self.reader.probe(family, all: true, self.view)
      let addresses = self.reader.destinations[family]
      destination = Destination(addresses[chosen ?? 0])
      for (address, answer) in zip(addresses, answers) {
        probes.append(
          Explanation.Probe(
            destination: address, answer: try answer.summary(self.view),
            agrees: chosen.map { answers[$0].usesRoute(of: answer) } ?? false))
      }
    }

    let (path, all) = try self.reader.path(to: destination, self.view)
    let facts = self.reader.droppingUnusableGuess(all)
    var explanation = Explanation(destination: destination.address, path: path, probes: probes)
    if !facts.allLinks.isEmpty {
      let network = try self.reader.network(of: path, facts, self.view)
      var evidence = self.reader.classifier.cost(
        of: facts.allLinks, medium: path.medium, by: network?.hash
      ).evidence
      if evidence.state == .unknown, let costsMoney = path.costsMoney {
        evidence = CostEvidence(costsMoney ? .yes : .no, .lastKnown)
      }
      explanation.cost = evidence
    }
    let addresses = try self.kernel.addresses()
    // A link that discards the traffic is not part of the path, but is shown anyway.
    let isSwallowed = self.reader.classifier.endInSink(facts.links[...])
    let shown = isSwallowed ? facts.allLinks : Array(facts.allLinks.prefix(path.chain.count))
    for facts in shown {
      explanation.links.append(try self.describe(facts, addresses))
    }
    explanation.qualityReasons = self.reader.classifier.conditions.reasons(
      of: path.chain, for: destination.uid)
    explanation.confirmedLinks = self.reader.classifier.conditions.confirmedLinks(of: path.chain)
    if path.guessedLinks > 0, let guess = facts.guess {
      explanation.guessedBy = guess.mark.map { "fwmark 0x" + String($0, radix: 16) } ?? "default"
    }
    if destination.namesSocket,
      case let report?? = self.view.socketReports(on: [destination]).first
    {
      explanation.socket = SocketTestimony(report)
      explanation.diversions = self.view.diversions()
    }
    if let route = try self.view.entry(for: destination)?.route {
      explanation.route = route
      explanation.rules = try self.kernel.rules(destination.address.family)
        .filter { $0.table == route.table }
    }
    if case .noRoute(let reason) = facts.answer {
      explanation.discard =
        try self.view.unlessRefused { () throws(KernelUnavailable) in
          try self.discard(of: destination, for: reason)
        } ?? nil
    }
    explanation.unused = try self.unused(
      links, to: destination, all, explanation.route, isDiscarded: explanation.discard != nil,
      addresses)
    return explanation
  }

  private func discard(
    of destination: Destination, for reason: KernelPath.Reason
  ) throws(KernelUnavailable) -> Discard? {
    let rules = try self.kernel.rules(destination.address.family)
    let routes =
      RouteAnswer.noRoute(reason).isDiscarded
      ? try self.kernel.discardingRoutes(of: destination.address, reason) : []
    return Discard(of: reason, mark: destination.mark, rules, routes)
  }

  /// Returns the networks of the default paths, beginning with the preferred address family.
  func presentNetworks() throws(KernelUnavailable) -> [CurrentNetwork] {
    var networks: [CurrentNetwork] = []
    for network in try self.networksOfPaths() {
      guard let network, !networks.contains(where: { $0.hash == network.hash }) else { continue }
      networks.append(network)
    }
    return networks
  }

  /// Returns the networks of the default paths. The set is empty while any of them is unknown, for
  /// example because its gateway has not answered yet.
  func knownNetworks() throws(KernelUnavailable) -> Set<NetworkHash> {
    let networks = try self.networksOfPaths()
    return networks.contains(where: { $0 == nil }) ? [] : Set(networks.compactMap { $0?.hash })
  }

  /// Returns the network of each satisfied default path, or `nil` for a network that is unknown.
  private func networksOfPaths() throws(KernelUnavailable) -> [CurrentNetwork?] {
    let families = [self.preferred] + AddressFamily.allCases.filter { $0 != self.preferred }
    var networks: [CurrentNetwork?] = []
    for family in families {
      let path = try self.reader.defaultPath(family, self.view)
      guard path.observed.path.status == .satisfied else { continue }
      networks.append(
        try self.reader.network(
          of: path.observed.path, self.reader.droppingUnusableGuess(path.facts), self.view))
    }
    return networks
  }
}

extension KernelQueries {
  /// Describes a link on its own. For Wi-Fi, queries nl80211 now, and uses the last answer if
  /// nl80211 does not respond.
  ///
  /// - Parameter addresses: Addresses that include those of the link.
  func describe(
    _ facts: LinkFacts, _ addresses: [Address]
  ) throws(KernelUnavailable) -> LinkReport {
    var (wireless, costNetwork): (WirelessLink?, WirelessNetwork?) = (nil, nil)
    if facts.isWireless {
      switch try self.kernel.wirelessLink(facts.link.index) {
      case .link(let link): (wireless, costNetwork) = (link, link.network)
      case .notWireless: break
      case .incomplete:
        wireless = facts.device.wireless
        costNetwork = self.view.wireless.costNetwork(of: facts.link.index)
      }
    }
    let classifier = self.reader.classifier
    let evidence = classifier.evidence(for: facts)
    let cost = classifier.cost(
      of: [facts], medium: evidence.medium, by: costNetwork.map(self.reader.networkKey.hash))
    var report = LinkReport(
      facts: facts, evidence: evidence, isExpensive: cost.evidence.isExpensive,
      constraint: cost.constraint,
      addresses: addresses.filter { $0.link == facts.link.index })
    if evidence.medium == .wifi, let wireless {
      let signal =
        wireless.network == nil ? nil : try self.kernel.wirelessSignal(facts.link.index)
      report.wireless = LinkReport.Wireless(
        link: wireless, signal: signal, isNamed: self.identify == .shown)
    }
    report.quality = self.quality(of: facts.link, report.wireless?.signal)
    // The signal of a modem that is not connected does not concern this link.
    if facts.modem?.isConnected == true {
      report.signalQuality = self.signalQualities[facts.link.name]
    }
    return report
  }
}

extension KernelQueries {
  /// The minimum signal strength of a good Wi-Fi link, in dBm. NetworkManager uses the same
  /// threshold.
  private static let goodSignal = -70

  /// Returns the quality of a link on its own: from events about it, or else from its signal (Q6).
  private func quality(of link: Link, _ signal: WirelessSignal?) -> LinkQuality {
    let part = KernelPath.Link(index: link.index, name: link.name)
    let known = self.reader.classifier.conditions.quality(of: [part], for: 0)
    guard known == .unknown, let strength = signal?.strength else { return known }
    return strength >= Self.goodSignal ? .good : .moderate
  }
}

extension Observation {
  /// Returns the link that the default paths use below a tunnel or translator, or `nil` if they do
  /// not use the tunnel or translator, or if the link is unknown.
  func link(below tunnel: UInt32) -> LinkReport.Lower? {
    for path in [self.ipv4.path, self.ipv6.path] {
      guard let place = path.chain.firstIndex(where: { $0.index == tunnel }),
        place + 1 < path.chain.count
      else { continue }
      return LinkReport.Lower(
        name: path.chain[place + 1].name, isGuess: place + 1 >= path.certainChain.endIndex)
    }
    return nil
  }

  /// Returns the address family that a summary of the observation follows.
  fileprivate func followed(_ preferred: AddressFamily) -> AddressFamily {
    ConnectivityStatus(ipv4: self.ipv4.path, ipv6: self.ipv6.path, preferred: preferred).family
  }
}

extension RouteAnswer {
  /// Returns the answer as `ip route get` writes it: `via 192.0.2.1 dev eth0 table 254`. Without a
  /// route, returns the reason.
  fileprivate func summary(_ view: KernelView) throws(KernelUnavailable) -> String {
    switch self {
    case .noRoute(let reason):
      return reason.rawValue
    case .unanswered(let reason):
      return reason
    case .route(let route):
      let via = route.gateway.map { "via \($0) " } ?? ""
      let name = try view.link(route.outLink)?.link.name ?? "\(route.outLink)"
      return "\(via)dev \(name) table \(route.table)"
    }
  }
}

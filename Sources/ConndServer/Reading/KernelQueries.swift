import Connectivity
import ConnectivityRules
import ConnectivityProtocol
import Netlink
import SwiftProtobuf

/// Answers clients' queries with the current state of the kernel and the conclusions from it.
struct KernelQueries {
  let kernel: any Kernel
  let view: KernelView
  let reader: PathReader
  /// The address family that decides a tie (K7).
  let preferred: AddressFamily
  /// Whether clients may learn which Wi-Fi networks were joined.
  let identify: Identification
  /// The signal quality of modems in percent, by the names of their links.
  var signalQualities: [String: UInt32] = [:]

  /// Returns the path to a destination, read from the kernel now.
  func path(to destination: Destination) throws(KernelUnavailable) -> Path {
    try self.reader.path(to: destination, self.view).path
  }

  /// Returns the explanation for a destination, or for the default destination, read from the
  /// kernel now.
  func explain(
    _ asked: Destination?
  ) throws(KernelUnavailable) -> Connectivity_V1_Explanation {
    var explanation = Connectivity_V1_Explanation()
    let destination: Destination
    if let asked {
      destination = asked
    } else {
      let family = try self.reader.observation(self.view).followed(self.preferred)
      let (chosen, answers) = try self.reader.probe(family, all: true, self.view)
      let probes = self.reader.destinations[family]
      destination = Destination(probes[chosen ?? 0])
      for (address, answer) in zip(probes, answers) {
        var probe = Connectivity_V1_Probe()
        probe.destination = address.description
        probe.answer = try answer.summary(self.view)
        probe.agrees = chosen.map { answers[$0].goesTheWay(of: answer) } ?? false
        explanation.probes.append(probe)
      }
    }

    let (path, all) = try self.reader.path(to: destination, self.view)
    let facts = self.reader.droppingUnusableGuess(all)
    let flags = ReachabilityFlags(path)
    explanation.destination = destination.address.description
    explanation.path = Connectivity_V1_Path(path)
    explanation.flags = Connectivity_V1_Flags(flags)
    explanation.category = Connectivity_V1_Category(Category(flags, medium: path.medium))
    if !facts.allLinks.isEmpty {
      let network = try self.reader.network(of: path, facts, self.view)
      var evidence = self.reader.classifier.cost(
        of: facts.allLinks, medium: path.medium, by: network?.hash
      ).evidence
      if evidence.state == .unknown, !path.isCostUnknown {
        evidence = CostEvidence(path.isExpensive ? .yes : .no, .lastKnown)
      }
      explanation.cost = .init(evidence)
    }
    let addresses = try self.kernel.addresses()
    // A link that discards the traffic is not part of the path, but is shown anyway.
    let isSwallowed = self.reader.classifier.endInSink(facts.links[...])
    let shown = isSwallowed ? facts.allLinks : Array(facts.allLinks.prefix(path.chain.count))
    for facts in shown {
      explanation.links.append(try self.describe(facts, addresses))
    }
    if path.guessedLinks > 0, let guess = facts.guess {
      explanation.guessedBy = guess.mark.map { "fwmark 0x" + String($0, radix: 16) } ?? "default"
    }
    if destination.namesSocket,
      case let report?? = self.view.socketReports(on: [destination]).first
    {
      explanation.socket = Connectivity_V1_SocketTestimony(SocketTestimony(report))
    }
    if let route = try self.view.entry(for: destination)?.route {
      explanation.routePrefix = route.prefix.description
      explanation.routePriority = route.priority
      explanation.rules = try self.kernel.rules(destination.address.family)
        .filter { $0.table == route.table }
        .map { rule in
          .with {
            $0.priority = rule.priority
            $0.table = route.table
            $0.selector = rule.selector
          }
        }
    }
    return explanation
  }

  /// Returns the networks of the default paths, the one of the summary first.
  func presentNetworks() throws(KernelUnavailable) -> [CurrentNetwork] {
    var networks: [CurrentNetwork] = []
    for network in try self.networksOfPaths() {
      guard let network, !networks.contains(where: { $0.hash == network.hash }) else { continue }
      networks.append(network)
    }
    return networks
  }

  /// Returns the networks of the default paths. Empty while the network of any is unknown, for
  /// example because its gateway has not answered yet.
  func knownNetworks() throws(KernelUnavailable) -> Set<NetworkHash> {
    let networks = try self.networksOfPaths()
    return networks.contains(where: { $0 == nil }) ? [] : Set(networks.compactMap { $0?.hash })
  }

  /// Returns the network of each satisfied default path, or `nil` for one that is unknown.
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
  /// Describes a link on its own. For Wi-Fi, asks nl80211 now, and uses its last answer if it does
  /// not respond.
  func describe(
    _ facts: LinkFacts, _ addresses: [Address]
  ) throws(KernelUnavailable) -> Connectivity_V1_Link {
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
    let network = costNetwork.map(self.reader.networkKey.hash)
    var link = self.reader.describe(facts, addresses, by: network)
    if link.medium == .wifi, let wireless {
      let signal =
        wireless.network == nil ? nil : try self.kernel.wirelessSignal(facts.link.index)
      link.wireless = Connectivity_V1_Wireless(wireless, signal, isNamed: self.identify == .shown)
    }
    if let modem = facts.modem {
      // The signal of a modem that is not connected does not concern this link.
      let quality = modem.isConnected ? self.signalQualities[facts.link.name] : nil
      link.modem = Connectivity_V1_Modem(modem, signalQuality: quality)
    }
    return link
  }
}

extension PathReader {
  /// Describes a link without the links below it.
  ///
  /// - Parameters:
  ///   - addresses: Addresses that include those of the link.
  ///   - network: The network that it has joined, if known.
  fileprivate func describe(
    _ facts: LinkFacts, _ addresses: [Address], by network: NetworkHash?
  ) -> Connectivity_V1_Link {
    let evidence = self.classifier.evidence(for: facts)
    let cost = self.classifier.cost(of: [facts], medium: evidence.medium, by: network)
    return .with {
      $0.index = facts.link.index
      $0.name = facts.link.name
      $0.alternativeNames = facts.link.alternativeNames
      if let kind = facts.link.kind { $0.kind = kind }
      $0.medium = Connectivity_V1_Medium(evidence.medium)
      $0.evidence = Connectivity_V1_Evidence(evidence)
      $0.state = Connectivity_V1_LinkState(facts.link.stateAsPort)
      $0.expensive = cost.expensive
      $0.constrained = cost.constrained
      $0.hardwareType = UInt32(facts.link.hardwareType)
      if let via = facts.via { ($0.via, $0.viaGuessed) = (via.kind.rawValue, via.isGuess) }
      if let mtu = facts.link.mtu { $0.mtu = mtu }
      $0.addresses = addresses.filter { $0.link == facts.link.index }.map {
        "\($0.address)/\($0.prefixLength)"
      }
    }
  }
}

extension Connectivity_V1_CostEvidence {
  fileprivate init(_ evidence: CostEvidence) {
    self.init()
    self.source = evidence.source.rawValue
    switch evidence.state {
    case .unknown: self.metering = .unknown
    case .yes: self.metering = .yes
    case .no: self.metering = .no
    case .guessYes: self.metering = .guessYes
    case .guessNo: self.metering = .guessNo
    }
  }
}

extension Connectivity_V1_LinkState {
  fileprivate init(_ state: LinkState) {
    switch state {
    case .down: self = .down
    case .noCarrier: self = .noCarrier
    case .dormant: self = .dormant
    case .up: self = .up
    }
  }
}

extension Observation {
  /// Returns the link that the default paths are guessed to use below a tunnel, or `nil` without a
  /// guess.
  func guess(below tunnel: UInt32) -> PathLink? {
    for path in [self.ipv4.path, self.ipv6.path] where path.guessedLinks > 0 {
      if path.certainChain.last?.index == tunnel { return path.chain[path.certainChain.endIndex] }
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
    case .unanswered(let words):
      return words
    case .route(let route):
      let via = route.gateway.map { "via \($0) " } ?? ""
      let name = try view.link(route.outLink)?.link.name ?? "\(route.outLink)"
      return "\(via)dev \(name) table \(route.table)"
    }
  }
}

extension Connectivity_V1_Link {
  typealias Rank = (Int, Int, Int, UInt32)

  /// The sort key: links of the default paths come first, then working links, unmetered media
  /// before metered ones, and loopback last.
  var rank: Rank {
    let media: [Connectivity_V1_Medium] = [
      .wired, .wifi, .bluetooth, .cellular, .tunnel, .unknown, .loopback,
    ]
    return (
      self.defaultIpv4 || self.defaultIpv6 ? 0 : 1,
      self.state == .up ? 0 : 1,
      media.firstIndex(of: self.medium) ?? media.count,
      self.index
    )
  }
}

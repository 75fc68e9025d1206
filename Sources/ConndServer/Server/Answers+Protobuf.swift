import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityRules
import LinuxSupport

extension Connectivity_V1_Explanation {
  /// - Parameters:
  ///   - links: The reports of all links.
  ///   - isComplete: Whether to include links without a route that only connect this machine's own
  ///     parts.
  init(_ explanation: Explanation, links: [LinkReport] = [], isComplete: Bool = false) {
    self.init()
    let reports = Dictionary(links.map { ($0.facts.link.index, $0) }) { first, _ in first }
    let unused = explanation.unused.compactMap { unused in
      reports[unused.link].flatMap { report in
        isComplete || unused.route != nil || !report.isInternal
          ? Connectivity_V1_UnusedLink(unused, report) : nil
      }
    }
    self.unusedLinks = unused.filter(\.hasRoutePrefix) + unused.filter { !$0.hasRoutePrefix }
    self.destination = explanation.destination.description
    self.path = Connectivity_V1_Path(explanation.path)
    self.flags = Connectivity_V1_Flags(explanation.flags)
    self.category = Connectivity_V1_Category(explanation.category)
    self.probes = explanation.probes.map { probe in
      .with {
        $0.destination = probe.destination.description
        $0.answer = probe.answer
        $0.agrees = probe.agrees
      }
    }
    if let cost = explanation.cost {
      self.cost = .with { ($0.metering, $0.source) = (.init(cost.state), .init(cost.source)) }
    }
    self.links = explanation.links.map { link in
      var link = link
      // The links beside it are known from the list.
      if let listed = reports[link.facts.link.index] {
        (link.master, link.lower, link.defaultFamilies) = (
          listed.master, listed.lower, listed.defaultFamilies
        )
      }
      return Connectivity_V1_Link(link)
    }
    self.qualityReasons = explanation.qualityReasons
    self.diversions = explanation.diversions
    if let guessedBy = explanation.guessedBy { self.guessedBy = guessedBy }
    if let socket = explanation.socket { self.socket = Connectivity_V1_SocketTestimony(socket) }
    if let discard = explanation.discard { self.discard = Connectivity_V1_Discard(discard) }
    guard let route = explanation.route else { return }
    self.routePrefix = route.prefix.description
    self.routePriority = route.priority
    self.rules = explanation.rules.map { Connectivity_V1_Rule($0, table: route.table) }
  }
}

extension Connectivity_V1_Discard {
  fileprivate init(_ discard: Discard) {
    self.init()
    self.rule = Connectivity_V1_Rule(discard.rule, table: discard.rule.table ?? 0)
    guard let route = discard.route else { return }
    self.routePrefix = route.prefix.description
    (self.routePriority, self.routeTable) = (route.priority, route.table)
  }
}

extension Connectivity_V1_UnusedLink {
  fileprivate init(_ unused: UnusedLink, _ report: LinkReport) {
    self.init()
    self.link = Connectivity_V1_Link(report)
    self.reason = Connectivity_V1_UnusedReason(unused.reason)
    if let route = unused.route {
      self.routePrefix = route.prefix.description
      (self.routePriority, self.routeTable) = (route.priority, route.table)
    }
    if let gateway = unused.gateway { self.gateway = gateway.description }
    if let rule = unused.rule { self.rule = Connectivity_V1_Rule(rule, table: rule.table ?? 0) }
  }
}

extension Connectivity_V1_Rule {
  fileprivate init(_ rule: Rule, table: UInt32) {
    self.init()
    (self.priority, self.table, self.selector) = (rule.priority, table, rule.selector)
  }
}

// MARK: - Links

extension Connectivity_V1_Link {
  init(_ report: LinkReport) {
    let link = report.facts.link
    self.init()
    self.index = link.index
    self.name = link.name
    self.alternativeNames = link.alternativeNames
    if let kind = link.kind { self.kind = kind }
    self.medium = Connectivity_V1_Medium(report.evidence.medium)
    self.evidence = Connectivity_V1_Evidence(report.evidence)
    self.state = Connectivity_V1_LinkState(link.stateAsPort)
    if let isExpensive = report.isExpensive { self.expensive = isExpensive }
    self.constrained = report.constraint != .unconstrained
    if self.constrained {
      self.constraintLevel = Connectivity_V1_ConstraintLevel(report.constraint)
    }
    self.hardwareType = UInt32(link.hardwareType)
    if let via = report.facts.via {
      (self.via, self.viaGuessed) = (Connectivity_V1_DeviceKind(via.kind), via.isGuess)
    }
    if let mtu = link.mtu { self.mtu = mtu }
    self.addresses = report.addresses.map { "\($0.address)/\($0.prefixLength)" }
    if let wireless = report.wireless {
      self.wireless = Connectivity_V1_Wireless(
        wireless.link, wireless.signal, isNamed: wireless.isNamed)
    }
    if let modem = report.facts.modem {
      self.modem = Connectivity_V1_Modem(modem, signalQuality: report.signalQuality)
    }
    if report.quality != .unknown { self.quality = Connectivity_V1_Quality(report.quality) }
    if let master = report.master { self.master = master }
    if let lower = report.lower { (self.lower, self.lowerGuessed) = (lower.name, lower.isGuess) }
    self.defaultIpv4 = report.defaultFamilies.contains(.ipv4)
    self.defaultIpv6 = report.defaultFamilies.contains(.ipv6)
  }
}

// MARK: - Networks and statistics

extension Connectivity_V1_Network {
  /// - Parameter user: The caller. While the machine is on another network, only root and the user
  ///   who typed the network's name see that name.
  init(_ network: CostRequest.ListedNetwork, for user: UInt32) {
    let override = network.override
    self.init()
    switch network.subject {
    case .link(let name): self.link = name
    case .network(let hash): self.identity = hash.description
    case .machine: break
    }
    if let current = network.current {
      if let name = current.name { self.name = name }
      self.current = true
    } else if let override, let name = override.name, [0, override.user].contains(user) {
      self.name = name
    }
    self.medium = Connectivity_V1_Medium(network.current?.medium ?? .unknown)
    self.constrained = Connectivity_V1_Choice(override?.constrained)
    self.expensive = Connectivity_V1_Choice(override?.expensive)
    guard let override else { return }
    self.user = override.user
    let ends = (override.constrained?.endTime, override.expensive?.endTime)
    if let time = ends.0 { self.constrainedEndTime = .init(time) }
    if let time = ends.1 { self.expensiveEndTime = .init(time) }
    if let time = [ends.0, ends.1].compactMap({ $0 }).min() { self.endTime = .init(time) }
  }
}

extension Connectivity_V1_ListNetworksResponse {
  init(assist: CostOverride.Setting?) {
    self.init()
    self.assist = Connectivity_V1_Choice(assist)
    if let time = assist?.endTime { self.assistEndTime = .init(time) }
  }
}

extension Connectivity_V1_Choice {
  fileprivate init(_ setting: CostOverride.Setting?) {
    self = setting.map { $0.isOn ? .on : .off } ?? .auto
  }
}

extension CostOverride.Setting {
  /// The wall-clock time at which the setting ends, or `nil` if it does not end by time.
  fileprivate var endTime: WallTime? { if case .time(let time) = self.end { time } else { nil } }
}

extension Connectivity_V1_GetStatisticsResponse {
  init(_ figures: [Statistics.Figure], since start: WallTime) {
    self.init()
    self.startTime = Google_Protobuf_Timestamp(start)
    self.version = Version.built
    self.statistics = figures.map { figure in
      .with {
        $0.name = figure.name
        $0.kind = figure.kind
        $0.value = figure.value
        $0.present = figure.isPresent
      }
    }
  }
}

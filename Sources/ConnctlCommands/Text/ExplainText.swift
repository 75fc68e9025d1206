import Connectivity
import ConnectivityProtocol

extension Style {
  /// Returns the text of `connctl explain`: a one-sentence summary, and then the steps from the
  /// rule to the category, one per line.
  ///
  /// - Parameters:
  ///   - link: The link that the user asked about, if any.
  ///   - status: The current status, if known.
  func explanation(
    _ explanation: Connectivity_V1_Explanation, host: String?, link: String? = nil,
    status: ConnectivityStatus? = nil
  ) throws -> [String] {
    let path = try KernelPath(explanation.path)
    let category = NetworkCategory(explanation.category)
    var steps = Table(indent: 2)

    steps.add("rule", then: "or", explanation.rules.map { "\($0.priority): \($0.selector)" })
    if explanation.hasDiscard {
      let (rule, isRule) = (explanation.discard.rule, !explanation.discard.hasRoutePrefix)
      steps.add(
        "rule",
        Text("\(rule.priority): \(rule.selector)\(isRule ? " \(explanation.discardType)" : "")"))
      if !isRule {
        steps.add("table", Text(RoutingTable.name(explanation.discard.routeTable)))
      }
    }
    if let table = path.table { steps.add("table", Text(RoutingTable.name(table))) }
    steps.add("route", Text(explanation.route(path)))
    if let gateway = path.gateway { steps.add("gateway", Text(gateway.description)) }
    if let source = path.source { steps.add("source", Text(explanation.text(source))) }
    steps.add("link", then: "below", explanation.links.map(\.text))
    if let guess = explanation.guessText { steps.add("guess", Text(guess)) }
    steps.add("path", Text(path.verdict + path.costs, path.status.ink))
    if path.chain.isEmpty, let sink = explanation.links.last {
      steps.add("", Text("a kill switch: \(sink.name) drops all traffic"))
    }
    if !path.chain.isEmpty {
      steps.add("medium", Text(path.mediumText(explanation.links.last?.name)))
    }
    if let cost = explanation.costEvidence { steps.add("metered", Text(cost.text)) }
    if let text = path.validation.explanation { steps.add("internet", Text(text)) }
    if path.quality != .unknown {
      let reasons = explanation.qualityReasons.joined(separator: "; ")
      steps.add("quality", Text(path.quality.rawValue + (reasons.isEmpty ? "" : ": " + reasons)))
    }
    if !explanation.diversions.isEmpty {
      steps.add("but", Text(explanation.diversions.joined(separator: "; ")))
    }
    if explanation.hasSocket {
      steps.add("socket", Text(SocketTestimony(explanation.socket).wordsNow))
    }
    steps.add("flags", Text(ReachabilityFlags(explanation.flags).text))
    steps.add("category", Text(category.rawValue, category.ink))
    steps.add(
      "probes",
      explanation.probes.map { probe in
        let answer = KernelPath.Reason(rawValue: probe.answer)?.text ?? probe.answer
        return "\(probe.destination): \(answer)\(probe.agrees ? "" : " (outvoted)")"
      })
    if let link, explanation.unusedLinks.isEmpty {
      steps.add("not by", Text("\(link): it is used"))
    }
    // The kernel does not look up routes of multicast by another link.
    if !explanation.isMulticast {
      steps.add(
        "not by", explanation.unusedLinks.map { "\($0.link.name): \(explanation.text($0))" })
    }
    var summary = Table()
    let other = host == nil ? status?[explanation.otherFamily] : nil
    summary.add(
      Text(
        explanation.summary(path, comparedWith: link, other: other, to: host), path.status.ink))
    return summary.lines(self)
      + [self.paint(explanation.title(host), .heading)] + steps.lines(self)
  }
}

extension Connectivity_V1_Explanation {
  /// The address family that the explanation is not about.
  fileprivate var otherFamily: AddressFamily { self.destination.contains(":") ? .ipv4 : .ipv6 }

  fileprivate func title(_ host: String?) -> String {
    switch host {
    case nil: "the internet, by probing \(self.destination)"
    case self.destination: self.destination
    case let host?: "\(host), \(self.destination)"
    }
  }

  /// Returns the source address, and why that may not be enough.
  fileprivate func text(_ source: IPAddress) -> String {
    if self.isTranslated {
      return "\(source), translated IPv4 (CLAT): this machine sends the packets by IPv6"
    }
    guard source.isUniqueLocal, IPAddress(self.destination)?.isUniqueLocal == false else {
      return source.description
    }
    return "\(source), a local address: answers arrive only if a router translates it "
      + "(NPTv6, NAT66)"
  }

  /// How the links below the tunnel were found, or `nil` if nothing is guessed.
  fileprivate var guessText: String? {
    guard self.hasGuessedBy, let first = self.links.suffix(Int(self.path.guessedLinks)).first
    else { return nil }
    let method = self.guessedBy == "default" ? "without the tunnel" : "with \(self.guessedBy)"
    return "\(first.name), the default route \(method)"
  }

  fileprivate func route(_ path: KernelPath) -> String {
    guard self.hasRoutePrefix else {
      if self.hasDiscard {
        return self.discard.hasRoutePrefix ? self.discardedRoute : "none: the rule discards"
      }
      let isListed = path.table ?? 0 == 0
      return path.reason?.text ?? (isListed ? "none" : "too many nexthops to be shown")
    }
    let isDefault = self.routePrefix.hasSuffix("/0")
    return self.routePrefix + (isDefault ? " (default)" : "")
      + (self.hasRoutePriority ? ", metric \(self.routePriority)" : "")
  }
}

extension Connectivity_V1_Explanation {
  /// The evidence for the cost, or `nil` if no link is known. Values that only a newer connd knows
  /// count as unknown.
  var costEvidence: CostEvidence? {
    guard self.hasCost else { return nil }
    return CostEvidence(Metering(self.cost.metering), CostEvidence.Source(self.cost.source))
  }
}

extension CostEvidence {
  /// The text `probably: NetworkManager says so`.
  fileprivate var text: String {
    let state =
      switch self.state {
      case .yes, .no, .unknown: self.state.rawValue
      case .guessYes: "probably"
      case .guessNo: "probably not"
      }
    return "\(state): \(self.reason)"
  }

  /// The text `wlan0 is probably metered: NetworkManager says so`.
  func sentence(about link: String) -> String {
    let state =
      switch self.state {
      case .yes: "\(link) is metered"
      case .no: "\(link) is not metered"
      case .unknown: "it is unknown whether \(link) is metered"
      case .guessYes: "\(link) is probably metered"
      case .guessNo: "\(link) is probably not metered"
      }
    return "\(state): \(self.reason)"
  }

  private var reason: String {
    switch self.source {
    case .configuration: "the configuration says so"
    case .user: "a user says so"
    case .networkManager: "NetworkManager says so"
    case .medium: "because of the medium"
    case .accessPoint: "the access point says so"
    case .driver: "the link's driver is for phones"
    case .dhcp: "the DHCP server says so"
    case .lastKnown: "as before the tunnel's uplink was lost"
    case .none: self.state == .unknown ? "nothing says so" : "nothing says otherwise"
    }
  }
}

extension Connectivity_V1_Link {
  /// The text `vlan10, vlan, up`.
  var text: String {
    var parts = [self.name]
    if self.hasKind { parts.append(self.kind) }
    parts.append(LinkState(self.state).text)
    if self.hasMaster { parts.append("port of \(self.master)") }
    if self.hasModem { parts += self.modem.text(withSignal: true) }
    if let via = self.viaText { parts.append(via) }
    if let alias = self.alternativeNameText { parts.append(alias) }
    return parts.joined(separator: ", ")
  }
}

extension KernelPath {
  /// Returns `wired: the hardware type of eth0 says “1”`.
  fileprivate func mediumText(_ link: String?) -> String {
    guard let evidence = self.evidence, evidence.source != .none else {
      return "\(self.medium.rawValue): no evidence"
    }
    if evidence.source == .configuration {
      return "\(self.medium.rawValue): the configuration says so (match “\(evidence.value)”)"
    }
    let source = evidence.source.rawValue.separatedWords
    let owner = link.map { " of \($0)" } ?? ""
    return "\(self.medium.rawValue): the \(source)\(owner) says “\(evidence.value)”"
  }
}

extension ReachabilityFlags {
  /// The flags that are set: `reachable, connection required`, or `none`.
  var text: String {
    let parts = [
      self.reachable ? "reachable" : nil, self.connectionRequired ? "connection required" : nil,
      self.isWWAN ? "cellular" : nil,
    ].compactMap { $0 }
    return parts.isEmpty ? "none" : parts.joined(separator: ", ")
  }
}

import Connectivity
import ConnectivityJSON
import ConnectivityProtocol

extension JSON {
  /// Returns the object of `connctl links --json`. `quality` is present only if it is known, and
  /// `constraintLevel` if programs should save data.
  static func link(_ link: Connectivity_V1_Link) -> JSON {
    let quality: JSON =
      link.hasQuality ? ["quality": .string(LinkQuality(link.quality).rawValue)] : [:]
    let object: JSON = [
      "index": .number(link.index),
      "name": .string(link.name),
      "kind": .string(link.hasKind ? link.kind : nil),
      "medium": .string(NetworkMedium(link.medium).rawValue),
      "evidence": .evidence(link.hasEvidence ? KernelPath.Evidence(link.evidence) : nil),
      "state": .string(LinkState(link.state).rawValue),
      "expensive": .bool(link.expensive),
      "constrained": .bool(link.constrained),
      "addresses": .array(link.addresses.map { .string($0) }),
      "master": .string(link.hasMaster ? link.master : nil),
      "lower": .string(link.hasLower ? link.lower : nil),
      "defaultIpv4": .bool(link.defaultIpv4),
      "defaultIpv6": .bool(link.defaultIpv6),
      "hardwareType": .number(link.hardwareType),
      "mtu": .number(link.hasMtu ? link.mtu : nil),
      "wireless": link.hasWireless ? .wireless(link.wireless) : .null,
      "modem": link.hasModem ? .modem(link.modem) : .null,
      "via": .string(link.hasVia ? link.viaWord : nil),
      "viaGuessed": .bool(link.viaGuessed),
      "lowerGuessed": .bool(link.lowerGuessed),
      "alternativeNames": .array(link.alternativeNames.map { .string($0) }),
    ]
    return object.appending(quality).appending(
      .constraint(link.constraint))
  }

  /// Returns ModemManager's data about a link.
  private static func modem(_ modem: Connectivity_V1_Modem) -> JSON {
    [
      "connected": .bool(modem.connected),
      "suspended": .bool(modem.suspended),
      "technology": .string(modem.generation),
      "roaming": .bool(modem.roaming),
      "signalQuality": .number(modem.hasSignalQuality ? modem.signalQuality : nil),
    ]
  }

  /// Returns nl80211's data about a link.
  private static func wireless(_ wireless: Connectivity_V1_Wireless) -> JSON {
    [
      "role": .string(WirelessRole(wireless.role).rawValue),
      "ssid": .string(wireless.hasSsid ? wireless.ssid : nil),
      "security": .array(
        wireless.security.map { .string(WirelessSecurity.Method($0).rawValue) }),
      "bssid": .string(wireless.hasBssid ? wireless.bssid : nil),
      "frequency": .number(wireless.hasFrequency ? wireless.frequency : nil),
      "signal": .number(wireless.hasSignal ? wireless.signal : nil),
      "transmitRate": .number(wireless.hasTransmitRate ? wireless.transmitRate : nil),
      "receiveRate": .number(wireless.hasReceiveRate ? wireless.receiveRate : nil),
      "retries": .number(wireless.hasRetries ? wireless.retries : nil),
      "metered": .bool(wireless.metered),
    ]
  }

  /// Returns the object of `connctl explain --json`.
  ///
  /// `discard` is present only if a rule or route discards the traffic.
  static func explanation(_ explanation: Connectivity_V1_Explanation) throws -> JSON {
    let object: JSON = [
      "destination": .string(explanation.destination),
      "path": .path(try KernelPath(explanation.path)),
      "rules": .array(
        explanation.rules.map {
          [
            "priority": .number($0.priority), "table": .number($0.table),
            "selector": .string($0.selector),
          ]
        }),
      "routePrefix": .string(explanation.hasRoutePrefix ? explanation.routePrefix : nil),
      "routePriority": .number(explanation.hasRoutePriority ? explanation.routePriority : nil),
      "links": .array(explanation.links.map { .link($0) }),
      "flags": .flags(ReachabilityFlags(explanation.flags)),
      "category": .string(NetworkCategory(explanation.category).rawValue),
      "probes": .array(
        explanation.probes.map {
          [
            "destination": .string($0.destination), "answer": .string($0.answer),
            "agrees": .bool($0.agrees),
          ]
        }),
      "guessedLinks": .number(explanation.path.guessedLinks),
      "guessedBy": .string(explanation.hasGuessedBy ? explanation.guessedBy : nil),
      "cost": explanation.costEvidence.map {
        ["metering": .string($0.state.rawValue), "source": .string($0.source.rawValue)]
      } ?? .null,
      "lookupIsProof": explanation.hasSocket ? .bool(explanation.diversions.isEmpty) : .null,
      "socket": explanation.hasSocket ? .socket(SocketTestimony(explanation.socket)) : .null,
      "unusedLinks": .array(explanation.unusedLinks.map { .unused($0) }),
    ]
    return object.appending(
      explanation.hasDiscard ? ["discard": .discard(explanation.discard)] : [:])
  }

  /// Returns the rule or route that discards traffic.
  private static func discard(_ discard: Connectivity_V1_Discard) -> JSON {
    [
      "rulePriority": .number(discard.rule.priority),
      "ruleSelector": .string(discard.rule.selector),
      "routePrefix": .string(discard.hasRoutePrefix ? discard.routePrefix : nil),
      "routePriority": .number(discard.hasRoutePriority ? discard.routePriority : nil),
      "routeTable": .number(discard.hasRouteTable ? discard.routeTable : nil),
    ]
  }

  /// Returns the link that an explained path does not use, and why.
  private static func unused(_ unused: Connectivity_V1_UnusedLink) -> JSON {
    [
      "interface": .string(unused.link.name),
      "medium": .string(NetworkMedium(unused.link.medium).rawValue),
      "state": .string(LinkState(unused.link.state).rawValue),
      "reason": .string(UnusedReason(unused.reason).rawValue),
      "routePrefix": .string(unused.hasRoutePrefix ? unused.routePrefix : nil),
      "routePriority": .number(unused.hasRoutePriority ? unused.routePriority : nil),
      "routeTable": .number(unused.hasRouteTable ? unused.routeTable : nil),
      "gateway": .string(unused.hasGateway ? unused.gateway : nil),
      "rulePriority": .number(unused.hasRule ? unused.rule.priority : nil),
    ]
  }
}

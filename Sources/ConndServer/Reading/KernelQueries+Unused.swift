import Connectivity
import ConnectivityRules

/// A link that the explained traffic does not use, and the reason.
struct UnusedLink: Sendable {
  /// The link's index.
  var link: UInt32
  var reason: UnusedReason
  /// The route of traffic bound to the link, or `nil` if such traffic has no route.
  var route: MatchedRoute?
  var gateway: IPAddress?
  /// The first rule that names the route's table.
  var rule: Rule?
}

extension KernelQueries {
  /// The maximum number of links that an explanation compares. Each link takes two lookups,
  /// regardless of the number of routes.
  static let maxCompared = 64

  /// Explains why the traffic does not use these links.
  ///
  /// - Parameters:
  ///   - links: The indexes of links. Links of the path are skipped.
  ///   - facts: The facts of the path.
  func unused(
    _ links: [UInt32], to destination: Destination, _ facts: PathFacts, _ used: MatchedRoute?,
    isDiscarded: Bool, _ addresses: [Address]
  ) throws(KernelUnavailable) -> [UnusedLink] {
    let family = destination.address.family
    let path = Set(facts.allLinks.map(\.link.index))
    var unused: [UnusedLink] = []
    var rules: [Rule]?
    for index in links.prefix(Self.maxCompared) where !path.contains(index) {
      guard let link = try self.view.link(index)?.link else { continue }
      var bound = destination
      bound.outLink = index
      let entry = try self.view.unlessRefused { () throws(KernelUnavailable) in
        try self.view.entry(for: bound)
      }
      let answer = try self.view.route(to: bound)
      var found: Route?
      if entry??.kind == .unicast, case .route(let route) = answer, route.outLink == index,
        route.table != 0
      {
        found = route
      }
      let route = found == nil ? nil : entry??.route
      var result = UnusedLink(
        link: index,
        reason: UnusedReason(
          link,
          hasAddress: addresses.contains {
            $0.link == index && $0.address.family == family && !$0.address.isLinkLocal
          }, route: route, isDiscarded: isDiscarded || facts.answer.isDiscarded, insteadOf: used),
        route: route, gateway: found?.gateway)
      if let route {
        let all = if let rules { rules } else { try self.kernel.rules(family) }
        rules = all
        result.rule = all.first { $0.table == route.table }
      }
      unused.append(result)
    }
    return unused
  }
}

extension RouteAnswer {
  var isDiscarded: Bool {
    switch self {
    case .noRoute(.blackhole), .noRoute(.prohibited), .noRoute(.unreachable): true
    case .noRoute, .route, .unanswered: false
    }
  }
}

extension LinkReport {
  /// Whether the link is an uplink only if a route uses it, like a container bridge or a tunnel.
  var isInternal: Bool {
    self.facts.isTunnel || ["bridge", "dummy", "ifb", "vrf"].contains(self.facts.link.kind)
  }
}

extension [LinkReport] {
  /// The links to compare with a path if the client names none: hardware first.
  var comparable: [UInt32] {
    let links = self.map(\.facts.link).filter { !$0.flags.contains(.loopback) && $0.master == nil }
    return (links.filter { $0.kind == nil } + links.filter { $0.kind != nil }).map(\.index)
  }
}

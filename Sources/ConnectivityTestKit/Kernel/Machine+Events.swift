internal import Connectivity
internal import ConnectivityRules

extension Machine {
  /// Returns the notifications that a kernel would send for the change from an earlier state: first
  /// removals, then additions.
  ///
  /// The result is empty if only costs have changed, because the kernel does not know costs.
  func events(since old: Machine) -> [KernelEvent] {
    var gone: [KernelEvent] = []
    var come: [KernelEvent] = []
    for (name, interface) in self.interfaces.sorted(by: { $0.value.index < $1.value.index }) {
      let before = old.interfaces[name]
      let wasUp = before?.state == .up
      if interface.state != .up, interface.state != before?.state {
        gone.append(.link(interface.link(name)))
      } else if interface.state == .up {
        // Joining another network requires leaving the previous one.
        let isOther = before.map { $0.network.name != interface.network.name } ?? false
        if wasUp, isOther { gone.append(.link(interface.link(name, .noCarrier))) }
        if !wasUp || isOther { come.append(.link(interface.link(name))) }
      }
      let (had, has) = (before?.addresses ?? [], interface.addresses)
      gone += had.filter { !has.contains($0) }.map { .addressRemoved($0) }
      come += has.filter { !had.contains($0) }.map { .address($0) }
    }
    let (had, has) = (old.routeChanges, self.routeChanges)
    gone += had.filter { !has.contains($0) }.map { .routeRemoved($0) }
    come += has.filter { !had.contains($0) }.map { .route($0, replaced: false) }
    return gone + come
  }

  /// The notifications of links that went away and came back.
  var bounceEvents: [KernelEvent] {
    let up = self.interfaces.filter { $0.value.state == .up }
      .sorted { $0.value.index < $1.value.index }
    return up.map { .link($1.link($0, .noCarrier)) } + up.map { .link($1.link($0)) }
  }

  /// Returns the routing table entry behind the default path of a family.
  func match(_ family: AddressFamily, _ path: KernelPath) -> MatchedRoute? {
    guard let link = path.chain.first else { return nil }
    return MatchedRoute(family, link.index)
  }

  private var routeChanges: [RouteChange] {
    let defaults = self.networks.flatMap { network in
      AddressFamily.allCases.compactMap { family -> RouteChange? in
        guard let attachment = network[family], network.hasRoute,
          let index = self.interfaces[network.interface]?.index,
          let route = MatchedRoute(family, index)
        else { return nil }
        return RouteChange(route, outLink: index, gateway: attachment.gateway)
      }
    }
    let special = self.routes.map { prefix, route in
      let index = self.interfaces[route.network.interface]?.index
      let gateway = route.isOnLink ? nil : route.network[prefix.address.family]?.gateway
      return RouteChange(
        MatchedRoute(prefix: prefix, table: 254, priority: 0), outLink: index, gateway: gateway)
    }
    return defaults + special.sorted { "\($0.route.prefix)" < "\($1.route.prefix)" }
  }
}

extension MatchedRoute {
  /// Creates a default route. Its metric distinguishes it from those on other links.
  fileprivate init?(_ family: AddressFamily, _ link: UInt32) {
    guard let prefix = IPPrefix(.unspecified(family), length: 0) else { return nil }
    self.init(prefix: prefix, table: 254, priority: 100 * link)
  }
}

extension NetworkConditions {
  /// Whether there is a default route that does not discard traffic, even if none passes now.
  var hasRoute: Bool {
    switch self.reason {
    case .linkDown, .noRoute, .unreachable, .prohibited, .blackhole, .throw: false
    default: true
    }
  }
}

extension Machine.Interface {
  fileprivate var addresses: [Address] {
    self.attachments.map { Address($0.source, prefixLength: $0.prefixLength, link: self.index) }
  }

  /// Returns the link as its driver reports it, in its current or another state.
  fileprivate func link(_ name: String, _ state: LinkState? = nil) -> Link {
    var link = Link(index: self.index, name: name, mtu: 1500)
    switch state ?? self.state {
    case .down:
      link.operationalState = .down
      link.carrier = false
    case .noCarrier:
      link.flags = .up
      link.operationalState = .down
      link.carrier = false
    case .dormant:
      link.flags = [.up, .lowerUp, .dormant]
      link.operationalState = .dormant
      link.carrier = true
    case .up:
      link.flags = [.up, .running, .lowerUp]
      link.operationalState = .up
      link.carrier = true
    }
    return link
  }
}

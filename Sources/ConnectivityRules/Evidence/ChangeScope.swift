package import Connectivity

/// The part of the network that a change concerns, as far as the kernel's messages name it (E2).
package struct ChangeScope: Hashable, Sendable {
  /// Whether anything may have changed.
  private var isEverything = false
  /// The families of changed rules and settings. A message does not say which traffic they concern.
  private var families: Set<AddressFamily> = []
  private var links: Set<UInt32> = []
  private var addresses: Set<IPAddress> = []
  private var routes: Set<RouteChange> = []
  private var neighbours: Set<OnLink> = []
  /// The links that lost a global IPv6 address, or that have a global IPv6 address that new
  /// connections no longer use (K9).
  private var readdressed: Set<UInt32> = []

  private struct OnLink: Hashable {
    var address: IPAddress
    var link: UInt32
  }

  /// The number of routes above which all flows are queried. Comparing more of them with ten
  /// thousand flows takes longer than the queries.
  private static let maxRoutes = 64

  package init() {}

  package init(_ trigger: ReadTrigger) { self.add(trigger) }

  /// Whether no connection can have lost its path.
  package var isEmpty: Bool { self == ChangeScope() }

  package mutating func add(_ trigger: ReadTrigger) {
    switch trigger {
    case .events(let events): for event in events { self.add(event) }
    case .resumed, .kernelBack: self.isEverything = true
    case .start, .configuration, .timer, .expiry, .kernelLost, .modem, .override, .metering,
      .validation, .quality:
      break
    }
  }

  package mutating func add(_ other: ChangeScope) {
    self.isEverything = self.isEverything || other.isEverything
    self.families.formUnion(other.families)
    self.links.formUnion(other.links)
    self.addresses.formUnion(other.addresses)
    self.routes.formUnion(other.routes)
    self.neighbours.formUnion(other.neighbours)
    self.readdressed.formUnion(other.readdressed)
    if self.routes.count > Self.maxRoutes { self.isEverything = true }
  }

  private mutating func add(_ event: KernelEvent) {
    switch event {
    case .link(let link), .linkRemoved(let link):
      self.links.insert(link.index)
      if link.mayReceiveRedirections { self.isEverything = true }
    case .address(let address), .addressRemoved(let address):
      self.addresses.insert(address.address)
      let isGone = if case .addressRemoved = event { true } else { false }
      if address.isOfGlobalIPv6, isGone || address.flags.contains(.deprecated) {
        self.readdressed.insert(address.link)
      }
    case .route(let change, _), .routeRemoved(let change):
      if self.routes.count <= Self.maxRoutes { self.routes.insert(change) }
      if self.routes.count > Self.maxRoutes { self.isEverything = true }
    case .rule(let family), .ruleRemoved(let family), .setting(let family):
      self.families.insert(family)
    // The message does not say which routes use the nexthop object.
    case .nexthop, .nexthopRemoved, .overrun: self.isEverything = true
    case .neighbour(let neighbour):
      if neighbour.isFailed {
        self.neighbours.insert(OnLink(address: neighbour.address, link: neighbour.link))
      }
    case .bridgeEntry, .wireless, .signal, .malformed: break
    }
  }

  /// Whether the change concerns the flow's links, addresses, route, or gateway.
  ///
  /// - Parameters:
  ///   - flow: The lookup with all properties of the flow.
  ///   - paths: The paths that the flow uses or was made on.
  package func touches(_ flow: Destination, on paths: [KernelPath]) -> Bool {
    if self.isEverything || self.families.contains(flow.address.family) { return true }
    if self.addresses.contains(flow.address) { return true }
    if let source = flow.source, self.addresses.contains(source) { return true }
    let links = paths.flatMap { $0.chain.map(\.index) }
    if links.contains(where: self.links.contains) { return true }
    if flow.source?.isOfTranslator == true, self.touchesTranslated(on: links) { return true }
    if self.neighbours.contains(where: { neighbour in
      links.contains(neighbour.link)
        && (neighbour.address == flow.address || paths.contains { $0.gateway == neighbour.address })
    }) {
      return true
    }
    return self.routes.contains { change in
      change.route.prefix.contains(flow.address) && change.outLink.map(links.contains) ?? true
    }
  }

  /// Whether the change concerns the IPv6 path below translated IPv4 (K9).
  private func touchesTranslated(on links: [UInt32]) -> Bool {
    self.families.contains(.ipv6) || links.contains(where: self.readdressed.contains)
      || self.neighbours.contains { links.contains($0.link) }
      || self.routes.contains { change in
        // Routers advertise default routes, and the routes to a NAT64 prefix (RFC 6052, 2.2).
        change.route.prefix.address.family == .ipv6 && change.route.prefix.length <= 96
          && change.gateway != nil && change.outLink.map(links.contains) ?? true
      }
  }
}

internal import Connectivity
internal import ConnectivityRules

/// The simulated kernel: its links, addresses and routes, as far as they affect paths.
struct Machine: Hashable, Sendable {
  /// The existing networks, most preferred first, one per interface.
  private(set) var networks: [NetworkConditions] = []
  /// Special routes for some destinations.
  private(set) var routes: [IPPrefix: SpecialRoute] = [:]
  /// Every interface that ever existed, by name.
  private(set) var interfaces: [String: Interface] = [:]
  /// Whether the kernel does not answer (K8).
  private(set) var isUnknown = false
  /// Every address that the machine ever had.
  private var allSources: Set<IPAddress> = []

  struct SpecialRoute: Hashable, Sendable {
    /// The network of the route. ``NetworkConditions/none`` means no route.
    var network: NetworkConditions
    /// Whether the destination is on the link, without a gateway.
    var isOnLink: Bool
  }

  struct Interface: Hashable, Sendable {
    var index: UInt32
    var state: LinkState
    /// The current or last network of the interface. An interface that is down keeps its addresses.
    var network: NetworkConditions

    func has(_ address: IPAddress) -> Bool {
      self.attachments.contains { $0.source == address }
    }

    var attachments: [NetworkConditions.Attachment] {
      guard self.network.reason != .noSourceAddress else { return [] }
      return [self.network.ipv4, self.network.ipv6].compactMap { $0 }
    }
  }

  static let loopback = KernelPath.Link(index: 1, name: "lo")

  mutating func become(_ networks: [NetworkConditions]) {
    self.isUnknown = networks.contains { $0.kind == .unknown }
    var taken: Set<String> = []
    self.networks = networks.filter { network in
      network.kind == .network && taken.insert(network.interface).inserted
    }
    self.refresh()
  }

  mutating func setRoute(_ prefix: IPPrefix, _ route: SpecialRoute?) {
    self.routes[prefix] = route
    self.refresh()
  }

  private mutating func refresh() {
    for name in self.interfaces.keys { self.interfaces[name]?.state = .down }
    let special = self.routes.values.map(\.network).filter { $0.kind == .network }
      .sorted { ($0.interface, $0.name) < ($1.interface, $1.name) }
    var taken: Set<String> = []
    for network in self.networks + special where taken.insert(network.interface).inserted {
      let index = self.interfaces[network.interface]?.index ?? UInt32(self.interfaces.count + 2)
      self.interfaces[network.interface] = Interface(
        index: index, state: network.linkState, network: network)
      self.allSources.formUnion([network.ipv4, network.ipv6].compactMap { $0?.source })
    }
  }

  func interface(_ index: UInt32?) -> Interface? {
    self.interfaces.values.first { $0.index == index }
  }

  /// Returns whether an interface has the address.
  func has(_ address: IPAddress) -> Bool { self.interface(with: address) != nil }

  /// Returns the index of the interface that has the address.
  func interface(with address: IPAddress) -> UInt32? {
    self.interfaces.values.filter { $0.has(address) }.map(\.index).min()
  }

  /// Returns the prefix length of the address's subnet.
  func prefixLength(of address: IPAddress) -> Int? {
    self.interfaces.values.flatMap(\.attachments).first { $0.source == address }?.prefixLength
  }

  /// Returns the index of the link with this name, or `nil` if it never existed.
  func linkIndex(_ name: String) -> UInt32? {
    name == Self.loopback.name ? Self.loopback.index : self.interfaces[name]?.index
  }

  /// Returns whether the machine ever had the address.
  func hadEver(_ address: IPAddress) -> Bool { self.allSources.contains(address) }
}

// MARK: - Paths

extension Machine {
  /// Returns the default path of a family.
  ///
  /// Like a kernel, still uses a link without carrier, but not a link that is down.
  ///
  /// - Parameter link: The link that the traffic is bound to, or `nil` if it is not bound.
  func defaultPath(_ family: AddressFamily, over link: UInt32? = nil) -> KernelPath {
    if self.isUnknown { return .unknown }
    if let link { return self.boundPath(family, link) }
    for network in self.networks {
      guard let attachment = network[family] else { continue }
      switch network.reason {
      case .linkDown, .noRoute: continue
      case .unreachable, .prohibited, .blackhole, .throw:
        return .unsatisfied(network.reason ?? .unreachable)
      default: return self.path(network, attachment)
      }
    }
    return .unsatisfied(.noRoute)
  }

  /// Returns the default path of traffic that is bound to a link (`SO_BINDTODEVICE`). Ignores
  /// routes on other links, and routes that discard traffic.
  private func boundPath(_ family: AddressFamily, _ link: UInt32) -> KernelPath {
    guard let interface = self.interface(link), interface.state != .down,
      let attachment = interface.network[family]
    else { return .unsatisfied(.noRoute) }
    let network = interface.network
    if network.hasRoute, self.networks.contains(network) { return self.path(network, attachment) }
    // Without a default route, IPv4 treats all addresses as neighbours, by a route outside all
    // tables.
    guard family == .ipv4 else { return .unsatisfied(.noRoute) }
    var path = self.path(network, attachment, isOnLink: true)
    path.table = 0
    return path
  }

  /// Returns the path to an address. The longest matching prefix of the special routes and the
  /// links' subnets determines the path. Without a match, it is the default path.
  ///
  /// - Parameter link: The link that the traffic is bound to, or `nil`. Only routes over this link
  ///   count.
  func path(to address: IPAddress, over link: UInt32? = nil) -> KernelPath {
    if self.isUnknown { return .unknown }
    if let special = self.specialPath(to: address, over: link) { return special }
    if self.isOwn(address, of: link) { return Self.localPath(address) }
    if let (interface, attachment) = self.subnet(of: address, on: link) {
      return self.path(interface.network, attachment, isOnLink: true)
    }
    if let link, address.needsLink { return self.linkLocalPath(link) }
    return self.defaultPath(address.family, over: link)
  }

  /// Returns the path of the special route to the address, or `nil` if none is specific enough.
  func specialPath(to address: IPAddress, over link: UInt32? = nil) -> KernelPath? {
    guard let prefix = self.longestMatch(to: address, over: link), let route = self.routes[prefix],
      prefix.length >= self.subnet(of: address, on: link)?.1.prefixLength ?? 0
    else { return nil }
    guard let attachment = route.network[address.family], route.network.hasWay(address.family)
    else { return .unsatisfied(.unreachable) }
    return self.path(route.network, attachment, isOnLink: route.isOnLink)
  }

  func longestMatch(to address: IPAddress, over link: UInt32? = nil) -> IPPrefix? {
    self.routes.filter { prefix, route in
      prefix.contains(address) && (link == nil || self.leads(route, over: link, address.family))
    }.keys.max { $0.length < $1.length }
  }

  private func leads(
    _ route: SpecialRoute, over link: UInt32?, _ family: AddressFamily
  ) -> Bool {
    let interface = self.interfaces[route.network.interface]
    return interface?.index == link && interface?.state != .down && route.network.hasWay(family)
  }

  /// Returns the path to an IPv6 link-local address. Each link with IPv6 has such addresses.
  private func linkLocalPath(_ link: UInt32) -> KernelPath {
    guard let interface = self.interface(link), interface.state != .down,
      let attachment = interface.network.ipv6
    else { return .unsatisfied(.noRoute) }
    return self.path(interface.network, attachment, isOnLink: true)
  }

  private func isOwn(_ address: IPAddress, of link: UInt32?) -> Bool {
    guard let link else { return address.isLoopback || self.interface(with: address) != nil }
    if address.isLoopback { return link == Self.loopback.index }
    return self.interface(link).map { $0.state != .down && $0.has(address) } ?? false
  }

  private func subnet(
    of address: IPAddress, on link: UInt32?
  ) -> (Interface, NetworkConditions.Attachment)? {
    self.interfaces.values.filter { $0.state != .down && (link == nil || $0.index == link) }
      .flatMap { interface in interface.attachments.map { (interface, $0) } }
      .filter { $1.prefix?.contains(address) == true }
      .max { ($0.1.prefixLength, $1.0.index) < ($1.1.prefixLength, $0.0.index) }
  }

  /// Returns the path of a network. If another network uses the interface, that network's condition
  /// also counts.
  private func path(
    _ network: NetworkConditions, _ attachment: NetworkConditions.Attachment, isOnLink: Bool = false
  ) -> KernelPath {
    let interface = self.interfaces[network.interface]
    var reason =
      interface?.network == network ? network.reason : network.reason ?? interface?.network.reason
    // Neighbours need no default route.
    if isOnLink, !network.hasRoute { reason = nil }
    let hasSource = reason != .noSourceAddress
    return KernelPath(
      status: reason == nil ? .satisfied : .requiresConnection, reason: reason,
      chain: [KernelPath.Link(index: interface?.index ?? 0, name: network.interface)],
      medium: network.medium, evidence: network.evidence,
      source: hasSource ? attachment.source : nil,
      sourcePrefixLength: hasSource ? attachment.prefixLength : nil,
      gateway: isOnLink ? nil : attachment.gateway, table: 254,
      isExpensive: network.isExpensive, constraint: network.constraint)
  }

  static func localPath(_ address: IPAddress) -> KernelPath {
    KernelPath(
      status: .satisfied, chain: [Self.loopback], medium: .loopback,
      evidence: KernelPath.Evidence(.hardwareType, "loopback", .loopback), source: address,
      table: 255)
  }

  /// Returns the identity of the network behind a path. A link without carrier has lost its
  /// neighbours.
  func identity(_ path: KernelPath) -> NetworkIdentity {
    guard let interface = path.interface.flatMap({ self.interfaces[$0] }) else {
      return NetworkIdentity()
    }
    let prefix = path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
    return NetworkIdentity(
      gateway: path.gateway,
      hasHardwareAddresses: interface.network.medium.traits.hasHardwareAddresses,
      prefix: prefix,
      wireless: interface.state == .up
        ? WirelessNetwork(ssid: Array(interface.network.name.utf8)) : nil)
  }
}

extension NetworkConditions {
  fileprivate var linkState: LinkState {
    switch self.reason {
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .linkDown: .down
    default: .up
    }
  }

  /// Whether a special route can use the network.
  fileprivate func hasWay(_ family: AddressFamily) -> Bool {
    self[family] != nil && self.reason != .linkDown && self.reason != .noRoute
  }

  /// The evidence that a typical link of this medium provides.
  var evidence: KernelPath.Evidence {
    let typical = self.medium.traits.typical
    return KernelPath.Evidence(typical.source, typical.value, self.medium)
  }
}

import Connectivity
import ConnectivityRules

/// The state of the network at one moment: what a reading shows of paths and flows, and the
/// kernel's messages about changes.
struct Scene: Hashable {
  var links: [Place] = []

  /// A link with everything on it and behind it.
  struct Place: Hashable {
    var link: TestLink
    /// Addresses that new connections no longer get.
    var formerAddresses: Set<IPAddress> = []
    /// The router with the gateway's address, or `nil` if the kernel does not know it.
    var router: UInt8? = 1

    init(_ link: TestLink) { self.link = link }
  }

  /// The destination of a flow.
  enum Aim: Hashable {
    case elsewhere
    /// Another machine on the link with this index.
    case neighbour(UInt32)
    /// A destination with a route of its own, by the router on the link with this index.
    case through(UInt32)
    /// A destination that a rule for the flow's own address routes by the default route of the link
    /// with this index.
    case ruled(UInt32)
    /// This machine.
    case local
  }

  func place(_ index: UInt32?) -> Place? { self.links.first { $0.link.index == index } }

  func owner(of address: IPAddress) -> Place? { self.links.first { $0.has(address) } }

  // MARK: - Readings of the default paths

  var observation: Observation { Observation(ipv4: self.best(.ipv4), ipv6: self.best(.ipv6)) }

  func best(_ family: AddressFamily) -> CandidatePath {
    self.links.filter { $0.link.isUp && $0.link.gateway[family] != nil }
      .min { $0.link.metric < $1.link.metric }?.link.observed(family)
      ?? CandidatePath(.unsatisfied(.noRoute))
  }

  /// A reading for the change maker.
  func reading(
    for maker: ChangeDetector, _ networks: TestNetworks = TestNetworks()
  ) -> ChangeDetector.Reading {
    var reading = ChangeDetector.Reading(self.observation)
    for family in AddressFamily.allCases {
      reading.networks[family] = networks.identity(of: reading.observation[family].path)
    }
    for followed in maker.followed {
      reading.followed[followed.id] = self.reading(
        of: followed.path, from: followed.source, to: .elsewhere, followed.family, networks)
    }
    for former in maker.formerSources where self.owner(of: former.address) == nil {
      reading.lostSources[former] = self.loss(
        of: former.address, on: former.link.index, to: .elsewhere, former.address.family)
    }
    return reading
  }

  // MARK: - Readings of a flow

  /// The next hop that the kernel chooses, whether or not its link works.
  private func nextHop(
    to aim: Aim, _ family: AddressFamily, hasSource: Bool
  ) -> (place: Place, gateway: IPAddress?)? {
    switch aim {
    case .neighbour(let index):
      if let place = self.place(index), place.isConnected(family) { return (place, nil) }
    case .through(let index):
      if let place = self.place(index), place.isConnected(family) {
        return (place, place.link.with { $0.gateway[family] = 1 }.gatewayAddress(family))
      }
    case .ruled(let index):
      if hasSource, let place = self.place(index), place.hasDefault(family) {
        return (place, place.link.gatewayAddress(family))
      }
    case .elsewhere, .local: break
    }
    let best = self.links.filter { $0.hasDefault(family) }
      .min { $0.link.metric < $1.link.metric }
    return best.map { ($0, $0.link.gatewayAddress(family)) }
  }

  /// The way of traffic from an address, or of new connections.
  func path(to aim: Aim, _ family: AddressFamily, from source: IPAddress? = nil) -> KernelPath {
    if aim == .local { return .loopback }
    guard let (place, gateway) = self.nextHop(to: aim, family, hasSource: source != nil) else {
      return .unsatisfied(.noRoute)
    }
    let link = place.link
    let source = source ?? link.source(family)
    var path = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: link.index, name: link.name)],
      medium: link.medium, source: source, gateway: gateway, table: 254)
    if let source, place.has(source) { path.sourcePrefixLength = TestLink.prefixLength(family) }
    if !link.hasCarrier {
      path.reason = .noCarrier
    } else if source == nil {
      path.reason = .noSourceAddress
    }
    if path.reason != nil { path.status = .requiresConnection }
    return path
  }

  /// The reading of a flow that was made on `made`, or of a new one.
  func reading(
    of made: KernelPath?, from source: IPAddress?, to aim: Aim, _ family: AddressFamily,
    _ networks: TestNetworks = TestNetworks()
  ) -> FlowReading {
    let path = self.path(to: aim, family, from: source)
    var reading = FlowReading(path, network: networks.identity(of: path), isLocal: aim == .local)
    guard aim != .local, let source, let before = made?.chain.first?.index else { return reading }
    if self.owner(of: source) == nil {
      reading.sourceLoss = self.loss(of: source, on: before, to: aim, family)
      return reading
    }
    let now = path.chain.first?.index
    if path.status == .satisfied {
      if now == before {
        reading.alternative = self.alternative(to: path, aim, family)
      } else {
        reading.formerLink = self.formerLink(before, source, to: aim, family, now: now)
      }
    } else if now != before, self.place(before)?.link.isUp != true {
      reading.formerLink = .failed
    }
    return reading
  }

  /// How the address of traffic over a link was lost.
  private func loss(
    of source: IPAddress, on link: UInt32, to aim: Aim, _ family: AddressFamily
  ) -> FlowReading.SourceLoss {
    guard let place = self.place(link), place.link.isUp, place.link.hasCarrier else {
      return .final
    }
    let new = self.path(to: aim, family)
    guard new.chain.first?.index == link, let other = new.source else { return .mayReturn }
    let length = TestLink.prefixLength(family)
    return IPPrefix(other, length: length) == IPPrefix(source, length: length) ? .final : .mayReturn
  }

  private func formerLink(
    _ link: UInt32, _ source: IPAddress, to aim: Aim, _ family: AddressFamily, now: UInt32?
  ) -> FlowReading.FormerLink {
    if self.place(now)?.has(source) == true { return .untied }
    guard let place = self.place(link), place.link.isUp, place.link.hasCarrier else {
      return .failed
    }
    let isOnLink = (aim == .neighbour(link) || aim == .through(link)) && place.isConnected(family)
    return place.hasDefault(family) || isOnLink ? .withRoute : .withoutRoute
  }

  private func alternative(
    to own: KernelPath, _ aim: Aim, _ family: AddressFamily
  ) -> FlowReading.Alternative? {
    guard let (place, gateway) = self.nextHop(to: aim, family, hasSource: false) else {
      return nil
    }
    let (index, source) = (place.link.index, place.link.source(family))
    if index != own.chain.first?.index {
      guard place.link.hasCarrier else { return nil }
      return .init(link: index, source: source, isKept: true)
    }
    let length = TestLink.prefixLength(family)
    guard let source, let before = own.source, own.sourcePrefixLength != nil,
      IPPrefix(source, length: length) != IPPrefix(before, length: length)
    else { return nil }
    return .init(link: index, source: source, isKept: gateway != own.gateway)
  }

  // MARK: - Kernel messages

  /// The messages about all differences.
  func events(since old: Scene) -> [KernelEvent] {
    let indexes = Set((old.links + self.links).map(\.link.index)).sorted()
    return indexes.flatMap { index in
      Place.events(from: old.place(index), to: self.place(index))
    }
  }
}

extension Scene.Place {
  var addresses: Set<IPAddress> {
    self.formerAddresses.union(AddressFamily.allCases.compactMap { self.link.source($0) })
  }

  func has(_ address: IPAddress) -> Bool { self.addresses.contains(address) }

  /// Whether the link's own subnet has a route.
  fileprivate func isConnected(_ family: AddressFamily) -> Bool {
    self.link.isUp && self.addresses.contains { $0.family == family }
  }

  fileprivate func hasDefault(_ family: AddressFamily) -> Bool {
    self.link.isUp && self.link.gateway[family] != nil
  }

  fileprivate static func events(from old: Self?, to new: Self?) -> [KernelEvent] {
    let (before, after) = (old?.addresses ?? [], new?.addresses ?? [])
    func address(_ address: IPAddress, _ place: Self) -> Address {
      Address(
        address, prefixLength: TestLink.prefixLength(address.family), link: place.link.index)
    }
    var events: [KernelEvent] = []
    for family in AddressFamily.allCases where old?.link.change(family) != new?.link.change(family)
    {
      events += old?.link.routeRemoved(family) ?? []
    }
    if let old {
      events += before.subtracting(after).sorted().map { .addressRemoved(address($0, old)) }
    }
    guard let new else { return events + (old.map { [.linkRemoved($0.link.link)] } ?? []) }
    if old?.link.link != new.link.link { events.append(.link(new.link.link)) }
    events += after.subtracting(before).sorted().map { .address(address($0, new)) }
    for family in AddressFamily.allCases where old?.link.change(family) != new.link.change(family) {
      events += new.link.routeAdded(family)
    }
    if let router = new.router, router != old?.router, new.link.isUp, new.link.hasCarrier {
      events += AddressFamily.allCases.compactMap { new.link.gatewayAddress($0) }.map {
        .neighbour(
          Neighbour($0, link: new.link.index, hardwareAddress: [2, 0, 0, 0, 0, router]))
      }
    }
    return events
  }
}

extension KernelPath {
  static let loopback = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 1, name: "lo")], medium: .loopback,
    source: "127.0.0.1", sourcePrefixLength: 8, table: 255)
}

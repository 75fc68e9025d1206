@testable import Connectivity

/// What is there at one moment: what a reading shows of paths and of flows, and what the kernel says when it changes.
struct Scene: Hashable {
  var links: [Place] = []

  /// A link with all that is on it and behind it.
  struct Place: Hashable {
    var link: TestLink
    /// The last parts of addresses that are there, and that new connections do not get any more.
    var formerHosts: [AddressFamily: Set<Int>] = [:]
    /// Which router has the gateway's address; `nil` before the kernel knows.
    var router: UInt8? = 1

    init(_ link: TestLink) { self.link = link }
  }

  /// Where a flow goes.
  enum Aim: Hashable {
    case elsewhere
    /// Another machine on the link of this index.
    case neighbour(UInt32)
    /// Somewhere that a route of its own leads to, by the router on the link of this index.
    case through(UInt32)
    /// This machine.
    case local
  }

  // MARK: - What a reading shows

  var observation: Observation {
    Observation(ipv4: self.best(.ipv4), ipv6: self.best(.ipv6))
  }

  private func best(_ family: AddressFamily) -> ObservedPath {
    let routed = self.links.filter { $0.link.isUp && $0.link.gateway[family] != nil }
    return routed.min { $0.link.metric < $1.link.metric }?.link.observed(family)
      ?? ObservedPath(.unsatisfied(.noRoute))
  }

  func path(to aim: Aim, _ family: AddressFamily) -> Path {
    switch aim {
    case .elsewhere: self.best(family).path
    case .neighbour(let index): self.connected(index, family) ?? self.best(family).path
    case .through(let index): self.routed(index, family) ?? self.best(family).path
    case .local: .loopback
    }
  }

  /// What a reading shows of a flow that was made on `old` and from `source`.
  func reading(
    of old: Path?, from source: IPAddress?, to aim: Aim, _ family: AddressFamily
  ) -> FlowReading {
    var reading = FlowReading(self.path(to: aim, family), isLocal: aim == .local)
    let place = self.place(reading.path.chain.first?.index)
    reading.network = place?.network(reading.path) ?? NetworkIdentity()
    guard aim != .local, let index = old?.chain.first?.index, let source else { return reading }
    let before = self.place(index)
    reading.isSourceGone = before?.has(source) != true
    let isElsewhere =
      reading.path.status == .satisfied && reading.path.chain.first?.index != index
    reading.isLinkLost =
      before?.link.isUp != true || isElsewhere && before?.link.hasCarrier != true
    return reading
  }

  /// What a reading shows to a maker.
  func reading(for maker: ChangeMaker) -> ChangeMaker.Reading {
    var reading = ChangeMaker.Reading(self.observation)
    for family in AddressFamily.allCases {
      let old = maker.path(family)
      reading.flows[family] = self.reading(of: old, from: old?.source, to: .elsewhere, family)
    }
    reading.lostSources = Set(
      maker.sources.filter {
        self.place($0.link.index)?.has($0.address) != true
      })
    return reading
  }

  func place(_ index: UInt32?) -> Place? { self.links.first { $0.link.index == index } }

  /// The route of a link's own subnet.
  private func connected(_ index: UInt32, _ family: AddressFamily) -> Path? {
    var path = self.routed(index, family)
    path?.gateway = nil
    return path
  }

  private func routed(_ index: UInt32, _ family: AddressFamily) -> Path? {
    guard let link = self.place(index)?.link, link.host[family] != nil else { return nil }
    return link.with { $0.gateway[family] = 1 }.observed(family)?.path
  }

  // MARK: - What the kernel says

  /// The messages about all that is not as it was.
  func events(since old: Scene) -> [KernelEvent] {
    let indexes = Set((old.links + self.links).map(\.link.index)).sorted()
    return indexes.flatMap { index in
      Place.events(from: old.place(index), to: self.place(index))
    }
  }
}

extension Scene.Place {
  var addresses: Set<IPAddress> {
    Set(
      AddressFamily.allCases.flatMap { family in
        let hosts = self.formerHosts[family, default: []].union(
          self.link.host[family].map { [$0] } ?? [])
        return hosts.compactMap { host in self.link.with { $0.host[family] = host }.source(family) }
      })
  }

  fileprivate func has(_ address: IPAddress) -> Bool {
    self.link.source(address.family) == address
      || self.formerHosts[address.family]?.isEmpty == false && self.addresses.contains(address)
  }

  /// A modem's neighbours have no hardware addresses.
  fileprivate func network(_ path: Path) -> NetworkIdentity {
    NetworkIdentity(
      gateway: path.gateway,
      gatewayHardwareAddress: self.link.medium == .cellular
        ? nil : self.router.map { [2, 0, 0, 0, 0, $0] },
      hasHardwareAddresses: self.link.medium != .cellular,
      prefix: path.source.flatMap { source in
        path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
      })
  }

  fileprivate static func events(from old: Self?, to new: Self?) -> [KernelEvent] {
    let (before, after) = (old?.addresses ?? [], new?.addresses ?? [])
    var events: [KernelEvent] = []
    for family in AddressFamily.allCases where old?.link.change(family) != new?.link.change(family)
    {
      events += old?.link.routeRemoved(family) ?? []
    }
    if let old {
      events += before.subtracting(after).sorted().map {
        .addressRemoved(Address($0, prefixLength: 24, link: old.link.index))
      }
    }
    guard let new else { return events + (old.map { [.linkRemoved($0.link.link)] } ?? []) }
    if old?.link.link != new.link.link { events.append(.link(new.link.link)) }
    events += after.subtracting(before).sorted().map {
      .address(Address($0, prefixLength: 24, link: new.link.index))
    }
    for family in AddressFamily.allCases where old?.link.change(family) != new.link.change(family) {
      events += new.link.routeAdded(family)
    }
    if let router = new.router, router != old?.router, let gateway = new.link.gatewayAddress(.ipv4)
    {
      events.append(
        .neighbour(
          Neighbour(gateway, link: new.link.index, hardwareAddress: [2, 0, 0, 0, 0, router])))
    }
    return events
  }
}

extension Path {
  static let loopback = Path(
    status: .satisfied, chain: [PathLink(index: 1, name: "lo")], medium: .loopback,
    source: "127.0.0.1", sourcePrefixLength: 8, table: 255)
}

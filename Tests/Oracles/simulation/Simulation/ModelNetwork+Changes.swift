import Connectivity
import ConnectivityRules
import ModelRoutes

/// Changes of links, addresses and routes, and the kernel's messages about them.
extension ModelNetwork {
  mutating func change(_ index: UInt32?, _ body: (inout ModelLink) -> Void) -> [KernelEvent] {
    guard let place = self.place(index) else { return [] }
    let before = self.told
    let had = self.link(index)?.flags.contains(.lowerUp)
    body(&self.links[place])
    if had == true, self.link(index)?.flags.contains(.lowerUp) != true {
      self.links[place].downCount += 1
    }
    if self.link(index)?.flags.contains(.lowerUp) != true { self.links[place].neighbours = [:] }
    if self.link(index)?.state != .up { self.forgetLearnt(behind: index) }
    return self.messages(since: before)
  }

  /// A bridge forgets what was behind a port without carrier (br_stp_disable_port). connd does not
  /// listen to that.
  private mutating func forgetLearnt(behind port: UInt32?) {
    guard let place = self.place(self[port]?.master) else { return }
    self.links[place].learnt = self.links[place].learnt.filter { $0.value != port }
  }

  /// The kernel's message about each link.
  private var told: [UInt32: Link] {
    var told: [UInt32: Link] = [:]
    for link in self.links { told[link.index] = self.link(link.index) }
    return told
  }

  /// The messages include the vlan, whose carrier is that of the link below it.
  private func messages(since before: [UInt32: Link]) -> [KernelEvent] {
    self.links.compactMap { link in
      guard let now = self.link(link.index), now != before[link.index] else { return nil }
      return .link(now)
    }
  }

  /// Sets a link down: IPv4's routes are removed silently, IPv6's addresses and routes with
  /// messages.
  mutating func setDown(_ index: UInt32) -> [KernelEvent] {
    var events = self.change(index) { $0.isUp = false }
    events += self.dropRoutes { $0.legs.contains { $0.link == index } }
    for address in self[index]?.addresses ?? [] where address.address.family == .ipv6 {
      events += self.removeAddress(address)
    }
    return events
  }

  mutating func addAddress(_ address: Address) -> [KernelEvent] {
    guard let place = self.place(address.link) else { return [] }
    guard self.links[place].isUp || address.address.family == .ipv4 else { return [] }
    self.links[place].addresses.removeAll { $0.address == address.address }
    self.links[place].addresses.append(address)
    return [.address(address)]
  }

  /// Removes an address. With a link's last IPv4 address, all its IPv4 routes are removed silently.
  mutating func removeAddress(_ address: Address) -> [KernelEvent] {
    guard let place = self.place(address.link), self.has(address.address, on: address.link) else {
      return []
    }
    self.links[place].addresses.removeAll { $0.address == address.address }
    let family = address.address.family
    if family == .ipv4,
      !self.links[place].addresses.contains(where: { $0.address.family == family })
    {
      _ = self.dropRoutes {
        $0.legs.contains { $0.link == address.link } && $0.prefix.address.family == family
      }
    }
    return [.addressRemoved(address)]
  }

  mutating func addRoute(_ route: ModelRoute) -> [KernelEvent] {
    for leg in route.legs {
      guard let link = self[leg.link], link.isUp else { return [] }
      let hasAddress = link.addresses.contains { $0.address.family == route.prefix.address.family }
      guard hasAddress || link.sort == .tunnel || route.prefix.address.family == .ipv6 else {
        return []
      }
    }
    let isReplaced = self.routes.contains { $0.matched == route.matched }
    self.routes.removeAll { $0.matched == route.matched }
    self.routes.append(route)
    return [.route(route.change, replaced: isReplaced)]
  }

  mutating func removeRoute(_ route: ModelRoute) -> [KernelEvent] {
    guard self.routes.contains(route) else { return [] }
    self.routes.removeAll { $0 == route }
    return [.routeRemoved(route.change)]
  }

  /// - Returns: The kernel's messages. For IPv4 it sends none.
  private mutating func dropRoutes(where isDropped: (ModelRoute) -> Bool) -> [KernelEvent] {
    let dropped = self.routes.filter(isDropped)
    self.routes.removeAll(where: isDropped)
    return dropped.filter { $0.prefix.address.family == .ipv6 }.map { .routeRemoved($0.change) }
  }

  mutating func removeLink(_ index: UInt32) -> [KernelEvent] {
    var events: [KernelEvent] = []
    for upper in self.links where upper.lower == index { events += self.removeLink(upper.index) }
    self.forgetLearnt(behind: index)
    events += self.dropRoutes { $0.legs.contains { $0.link == index } }
    for address in self[index]?.addresses ?? [] { events += self.removeAddress(address) }
    let removed = self.link(index)
    self.links.removeAll { $0.index == index }
    return events + (removed.map { [.linkRemoved($0)] } ?? [])
  }

  mutating func addLink(
    _ name: String, _ sort: ModelLink.Sort, _ fill: (inout ModelLink) -> Void = { _ in }
  ) -> [KernelEvent] {
    self.lastIndex += 1
    var link = ModelLink(index: self.lastIndex, name: name, sort: sort)
    fill(&link)
    self.links.append(link)
    guard var told = self.link(link.index) else { return [] }
    told.isNew = true
    return [.link(told)]
  }

  mutating func addDefault(
    _ index: UInt32, _ family: AddressFamily, router: UInt8 = 1
  ) -> [KernelEvent] {
    guard let link = self[index] else { return [] }
    let gateway = link.sort == .tunnel ? nil : link.router(family, router)
    return self.addRoute(
      ModelRoute(
        .all(family), metric: link.metric, over: [.init(index, via: gateway)]))
  }

  /// The kernel resolves the routers' addresses.
  mutating func learnRouters(_ index: UInt32) -> [KernelEvent] {
    if let master = self[index]?.master { return self.learnRouters(master) }
    guard let place = self.place(index), self.links[place].hasNeighbours,
      self.link(index)?.flags.contains(.lowerUp) == true
    else { return [] }
    let port = self.ports(of: index).first { $0.sort == .wired }
    var events: [KernelEvent] = []
    for leg in self.routes.flatMap(\.legs) where leg.link == index {
      guard let router = leg.gateway else { continue }
      let found = self.links[place].hardwareAddress(of: router)
      // Behind a bridge without its cable, only guests could answer.
      if self.links[place].sort == .bridge {
        guard let port, self.link(port.index)?.state == .up else { continue }
        if self.links[place].learnt[found] != port.index {
          self.links[place].learnt[found] = port.index
          events.append(.bridgeEntry(BridgeEntry(found, port: port.index, bridge: index)))
        }
      }
      guard self.links[place].neighbours[router] != found else { continue }
      self.links[place].neighbours[router] = found
      events.append(.neighbour(Neighbour(router, link: index, hardwareAddress: found)))
    }
    return events
  }

  /// Repairs a link as a network manager would.
  mutating func repair(_ name: String) -> [KernelEvent] {
    guard let index = self.named(name)?.index else { return [] }
    var events = self.change(index) { link in
      link.isUp = true
      link.hasCarrier = true
      link.isDormant = false
    }
    if let master = self[index]?.master { events += self.change(master) { $0.isUp = true } }
    return events + self.configure(index)
  }

  /// Adds what DHCP and router advertisements bring.
  mutating func configure(_ index: UInt32) -> [KernelEvent] {
    guard let link = self[index], link.isUp else { return [] }
    if let master = link.master { return self.configure(master) }
    var events: [KernelEvent] = []
    for family in AddressFamily.allCases {
      let wanted = link.host(family, 7)
      let subnet = IPPrefix.block(wanted.address, wanted.prefixLength)
      let present = link.addresses.filter { $0.address.family == family }
      for old in present where !subnet.contains(old.address) || old.flags.contains(.tentative) {
        events += self.removeAddress(old)
      }
      if !present.contains(where: { subnet.contains($0.address) && !$0.flags.contains(.tentative) })
      {
        events += self.addAddress(wanted)
      }
      if !self.routes.contains(where: { route in
        route.link == index && route.prefix == .all(family)
          && (route.gateway.map { family == .ipv6 || subnet.contains($0) } ?? true)
      }) {
        events += self.addDefault(index, family)
      }
    }
    return events + self.learnRouters(index)
  }
}

import Connectivity
import ConnectivityRules
import ModelRoutes
import TestKit

extension ModelNetwork {
  static let tunnelRemote = IPAddress.bytes([198, 51, 100, 200])
  /// A destination of flows beside the default route.
  static let elsewhere = IPAddress.bytes([198, 51, 100, 9])

  /// A random event in the network that may change any path.
  mutating func happen(using random: inout SeededGenerator) -> [KernelEvent] {
    let links = self.links.filter { $0.sort != .loopback && !self.isBystander($0) }
    // A recorded machine may have lost all of its links.
    guard !links.isEmpty else { return [] }
    let link = random.pick(links)
    let family = random.pick(AddressFamily.allCases)
    // The bridge or the bond has addresses and routes, not its ports.
    let top = self[link.master] ?? link
    switch random.number(0...32) {
    case 0...4: return self.repair(random.pick(["eth0", "wlan0", "wwan0", "wlan0"]))
    case 5...7 where !self.ports(of: link.index).isEmpty:
      // It has the carrier of its ports.
      return []
    case 5, 6:
      return self.change(link.index) { $0.hasCarrier.toggle() } + self.learn(link.index, &random)
    case 7:
      // A bond's ports do not authenticate.
      return top.sort == .bond ? [] : self.change(link.index) { $0.isDormant.toggle() }
    case 8: return self.setDown(link.index)
    case 9: return self.change(link.index) { $0.isUp = true } + self.configure(link.index)
    case 10: return self.rotate(top, family, &random)
    case 11, 12:
      guard let address = link.addresses.randomElement(using: &random) else { return [] }
      return self.removeAddress(address)
    case 13:
      var address = top.host(family, random.pick([7, 8, 9]))
      if random.oneIn(4) { address.flags.insert(.tentative) }
      return self.addAddress(address)
    case 14, 15, 16:
      guard let route = self.defaults.randomElement(using: &random) else { return [] }
      return self.removeRoute(route)
    case 17, 18:
      return self.addDefault(top.index, family, router: random.pick([1, 1, 1, 2]))
        + self.learn(top.index, &random)
    case 19: return self.join(link, &random)
    case 20: return self.roam()
    case 21: return self.enumerateAnew(link)
    case 22: return self.toggleTunnel(&random)
    case 23: return self.toggleVlan()
    case 24: return self.toggleRule(&random)
    case 25: return self.toggleHostRoute(&random)
    case 26: return self.toggleRefusal(family, &random)
    case 27: return self.leadToContainer(family, &random)
    case 28:
      guard let led = self.containers.filter({ !self.isBystander($0) }).first else { return [] }
      return random.oneIn(3)
        ? self.removeLink(led.index) : self.change(led.index) { $0.hasCarrier.toggle() }
    case 29: return self.toggleSpread(family, &random)
    case 30:
      self.local = self.local == nil ? Self.anyIP : nil
      return [.rule(.ipv4)]
    default: return self.learnRouters(link.index)
    }
  }

  /// Source addresses of flows that are on no link (`ip route add local … dev lo`).
  static let anyIP = IPPrefix.block(.bytes([198, 18, 0, 0]), 24)

  /// A default route over two links.
  private mutating func toggleSpread(
    _ family: AddressFamily, _ random: inout SeededGenerator
  ) -> [KernelEvent] {
    if let route = self.routes.first(where: { $0.legs.count > 1 }) {
      return self.removeRoute(route)
    }
    let legs = self.uplinks.map { ModelRoute.Leg($0.index, via: $0.router(family, 1)) }
    guard legs.count > 1 else { return [] }
    return self.addRoute(
      ModelRoute(.all(family), metric: random.pick([20, 650]), over: legs))
  }

  private mutating func learn(_ index: UInt32, _ random: inout SeededGenerator) -> [KernelEvent] {
    random.oneIn(3) ? [] : self.learnRouters(index)
  }

  private var defaults: [ModelRoute] { self.routes.filter { $0.prefix.length <= 1 } }

  private var containers: [ModelLink] {
    self.links.filter { $0.sort == .container && $0.master == nil }
  }

  /// Whether no route leads to a container's link, so that it does not matter.
  private func isBystander(_ link: ModelLink) -> Bool {
    link.sort == .container && link.master == nil
      && link.addresses.allSatisfy(\.address.isLinkLocal)
      && !self.routes.contains { $0.link == link.index }
  }

  /// A container takes the traffic, like the far side of a VPN in one; or another route leads
  /// there, and the traffic may follow later.
  private mutating func leadToContainer(
    _ family: AddressFamily, _ random: inout SeededGenerator
  ) -> [KernelEvent] {
    guard let link = self.containers.randomElement(using: &random), link.isUp else { return [] }
    var events = self.addAddress(link.host(family, 7))
    if !random.oneIn(3) { events += self.addDefault(link.index, family) }
    return events
  }

  /// Containers start or stop, or change something in between.
  private mutating func containerNoise(_ random: inout SeededGenerator) -> [KernelEvent] {
    let bystanders = self.containers.filter(self.isBystander)
    guard let link = bystanders.randomElement(using: &random),
      bystanders.count > 8 || !random.oneIn(3)
    else {
      var events: [KernelEvent] = []
      // With many of them, connd stops listening to new ones.
      for _ in 0..<random.pick([1, 1, 6]) {
        events += self.addLink("veth\(self.lastIndex)", .container) { $0.isUp = false }
        for isUp in [true, false, true] {
          events += self.change(self.lastIndex) { $0.isUp = isUp }
        }
      }
      return events
    }
    switch random.number(0...3) {
    case 0: return self.removeLink(link.index)
    case 1:
      let own = IPAddress.bytes(
        [0xfe, 0x80] + [UInt8](repeating: 0, count: 12) + [1, random.pick([7, 8])])
      return self.addAddress(Address(own, prefixLength: 64, link: link.index))
    default: return self.change(link.index) { $0.hasCarrier.toggle() }
    }
  }

  /// New connections get another address of the same subnet (RFC 8981).
  private mutating func rotate(
    _ link: ModelLink, _ family: AddressFamily, _ random: inout SeededGenerator
  ) -> [KernelEvent] {
    var events: [KernelEvent] = []
    for var old in link.addresses where old.address.family == family && random.oneIn(2) {
      old.flags.insert(.deprecated)
      events += self.addAddress(old)
    }
    return events + self.addAddress(link.host(family, random.pick([7, 8, 9])))
  }

  /// Another network: Wi-Fi at another place, the cable in another socket, or a modem that
  /// re-dials.
  private mutating func join(_ link: ModelLink, _ random: inout SeededGenerator) -> [KernelEvent] {
    let networks: [ModelLink.Sort: [UInt8]] = [
      .wifi: [2, 3, 4], .wired: [6, 7], .cellular: [20, 21], .vlan: [6, 7],
    ]
    guard let network = networks[link.sort].map({ random.pick($0) }),
      self[link.master]?.sort != .bond
    else { return [] }
    var events = self.change(link.index) { $0.hasCarrier = false }
    events += self.change(link.index) { link in
      link.network = network
      link.hasCarrier = true
      link.isDormant = false
    }
    // Links above share the cable.
    for place in self.links.indices
    where self.links[place].lower == link.index || self.links[place].index == link.master {
      self.links[place].network = network
      self.links[place].neighbours = [:]
    }
    return events + (random.oneIn(4) ? [] : self.configure(link.index))
  }

  /// Roams from one access point to another of the same network.
  private mutating func roam() -> [KernelEvent] {
    guard let wifi = self.named("wlan0"), wifi.isUp, wifi.hasCarrier else { return [] }
    let down = self.change(wifi.index) { $0.hasCarrier = false }
    return down + self.change(wifi.index) { $0.hasCarrier = true } + self.learnRouters(wifi.index)
  }

  /// A modem that was replugged has another index.
  private mutating func enumerateAnew(_ link: ModelLink) -> [KernelEvent] {
    guard link.sort == .cellular || link.sort == .wired else { return [] }
    let events = self.removeLink(link.index)
    return events
      + self.addLink(link.name, link.sort) { ($0.network, $0.master) = (link.network, link.master) }
      + self.repair(link.name)
  }

  /// A VPN like OpenVPN's: two halves that hide the default route, and a host route to its remote
  /// end.
  private mutating func toggleTunnel(_ random: inout SeededGenerator) -> [KernelEvent] {
    if let tunnel = self.named("gre1") {
      guard random.oneIn(3) else { return self.reroute(random.pick(self.links.map(\.index))) }
      let host = self.routes.filter { $0.prefix == .block(Self.tunnelRemote, 32) }
      return host.flatMap { self.removeRoute($0) } + self.removeLink(tunnel.index)
    }
    var events = self.addLink("gre1", .tunnel) { $0.remote = Self.tunnelRemote }
    guard let tunnel = self.named("gre1") else { return events }
    events += self.addAddress(tunnel.host(.ipv4, 7))
    if let way = self.defaults.first(where: { $0.prefix == .all(.ipv4) })?.link {
      events += self.reroute(way)
    }
    for half: UInt8 in [0, 128] {
      let prefix = IPPrefix.block(.bytes([half, 0, 0, 0]), 1)
      events += self.addRoute(
        ModelRoute(prefix, metric: 50, over: [.init(tunnel.index)]))
    }
    return events
  }

  /// The tunnel's packets use another link.
  private mutating func reroute(_ index: UInt32) -> [KernelEvent] {
    guard let link = self[index], link.sort != .tunnel, link.sort != .loopback,
      link.sort != .container, link.master == nil
    else { return [] }
    return self.addRoute(
      ModelRoute(
        .block(Self.tunnelRemote, 32), metric: 50,
        over: [.init(index, via: link.router(.ipv4, 1))]))
  }

  private mutating func toggleVlan() -> [KernelEvent] {
    if let vlan = self.named("vlan5") { return self.removeLink(vlan.index) }
    guard let below = self.named("eth0") else { return [] }
    let events = self.addLink("vlan5", .vlan) { vlan in
      vlan.lower = below.index
      vlan.network = below.network
    }
    return events + self.repair("vlan5")
  }

  /// Traffic from an address of a link stays on that link, whatever else there is.
  private mutating func toggleRule(_ random: inout SeededGenerator) -> [KernelEvent] {
    if let rule = self.rules.first {
      self.rules.removeFirst()
      return [.ruleRemoved(rule.family)]
    }
    let candidates = self.links.filter { $0.sort == .wifi || $0.sort == .cellular }
    guard let link = candidates.randomElement(using: &random), link.isUp,
      let source = link.addresses.first
    else { return [] }
    let family = source.address.family
    let selector: ModelRule.Selector =
      random.oneIn(2) ? .source(source.address) : .port(443, family)
    let rule = ModelRule(selector, table: 100)
    let gateway = link.router(family, 1)
    self.rules.append(rule)
    // The route comes first: it has no effect before its rule.
    return self.addRoute(
      ModelRoute(
        .all(family), table: 100, metric: 0, over: [.init(link.index, via: gateway)]))
      + [.rule(family)]
  }

  private mutating func toggleHostRoute(_ random: inout SeededGenerator) -> [KernelEvent] {
    let prefix = IPPrefix.block(Self.elsewhere, 32)
    if let route = self.routes.first(where: { $0.prefix == prefix }) {
      return self.removeRoute(route)
    }
    let links = self.links.filter { $0.hasNeighbours && $0.master == nil }
    guard let link = links.randomElement(using: &random) else {
      return []
    }
    return self.addRoute(
      ModelRoute(
        prefix, metric: 1, over: [.init(link.index, via: link.router(.ipv4, 1))]))
      + self.learn(link.index, &random)
  }

  private mutating func toggleRefusal(
    _ family: AddressFamily, _ random: inout SeededGenerator
  ) -> [KernelEvent] {
    let prefix = IPPrefix.all(family)
    if let route = self.routes.first(where: { $0.prefix == prefix && $0.link == nil }) {
      return self.removeRoute(route)
    }
    return self.addRoute(
      ModelRoute(
        prefix, metric: random.pick([30, 9999]),
        refusal: random.pick([.unreachable, .prohibited, .blackhole])))
  }

  /// A random event that leaves every path alone (T3).
  mutating func noise(_ probe: IPAddress, using random: inout SeededGenerator) -> [KernelEvent] {
    let link = random.pick(self.links.filter { $0.sort != .container })
    switch random.number(0...8) {
    case 0, 6, 7: return self.containerNoise(&random)
    case 1:
      // Wireless drivers send this while they scan: a name, and flags that mean nothing.
      guard let wifi = self.named("wlan0"), wifi.isUp else { return [] }
      return [.link(Link(index: wifi.index, name: wifi.name, flags: [.up]))]
    case 2: return link.addresses.map { .address($0) }
    case 3: return self.link(link.index).map { $0.state == .up ? [.link($0)] : [] } ?? []
    case 4:
      let prefix = IPPrefix.block(.bytes([172, 16, UInt8(random.number(0...9)), 0]), 24)
      let route = ModelRoute(prefix, metric: 0, refusal: .unreachable)
      return self.addRoute(route) + self.removeRoute(route)
    case 5: return [.rule(.ipv4), .ruleRemoved(.ipv4)]
    default:
      // A host route that captures one of several probes.
      let prefix = IPPrefix.block(probe, probe.family.bitWidth)
      if let route = self.routes.first(where: { $0.prefix == prefix }) {
        return self.removeRoute(route)
      }
      return self.addRoute(
        ModelRoute(prefix, metric: 0, refusal: .unreachable))
    }
  }
}

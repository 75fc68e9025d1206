import Connectivity
import ConnectivityRules
import ModelRoutes
import Testing

extension IPAddress {
  /// Parses an address that is spelt in a test.
  init(spelt text: String) throws { self = try #require(IPAddress(text)) }
}

extension IPPrefix {
  /// Parses a prefix that is spelt in a test.
  init(spelt text: String, _ length: Int) throws {
    self = try #require(IPPrefix(try IPAddress(spelt: text), length: length))
  }
}

extension RouteAnswer {
  /// A way over a link.
  static func over(
    _ link: UInt32, via gateway: String? = nil, from source: String, table: UInt32 = 254
  ) -> RouteAnswer {
    .route(
      Route(
        outLink: link, gateway: gateway.flatMap { IPAddress($0) }, source: IPAddress(source),
        table: table))
  }

  fileprivate var route: Route? { if case .route(let route) = self { route } else { nil } }
}

extension ModelKernel {
  func addLink(_ index: UInt32, _ name: String, kind: String? = nil, hasCarrier: Bool = true) {
    self.linkTable[index] = LinkFacts(
      Link(
        index: index, name: name, kind: kind,
        flags: hasCarrier ? [.up, .lowerUp, .running] : [.up],
        operationalState: hasCarrier ? .up : .down, carrier: hasCarrier,
        hardwareAddress: [2, 0, 0, 0, 0, UInt8(truncatingIfNeeded: index)]),
      device: Device(driver: kind == nil ? "e1000e" : nil))
  }

  func addTunnel(_ index: UInt32, _ name: String, to remote: String) {
    self.linkTable[index] = LinkFacts(
      Link(
        index: index, name: name, kind: "gre", hardwareType: 778, flags: [.up, .lowerUp],
        outer: IPAddress(remote).map { Destination($0) }))
  }

  /// Adds a link on top of others, which are its ports.
  func addStack(_ index: UInt32, _ name: String, kind: String, over ports: [UInt32]) {
    self.addLink(index, name, kind: kind)
    self.linkTable[index]?.device.lowerLinks = ports
    for port in ports { self.linkTable[port]?.link.master = index }
  }

  func setState(of link: UInt32, _ state: LinkState) {
    self.linkTable[link]?.link.flags = state == .down ? [] : state == .up ? [.up, .lowerUp] : [.up]
    self.linkTable[link]?.link.carrier = state == .up
    self.linkTable[link]?.link.operationalState = state == .up ? .up : .down
  }

  /// Routes a prefix this way from now on. If no link has the source address yet, the link gets it.
  func lead(
    _ prefix: String, _ length: Int, _ way: RouteAnswer, metric: UInt32 = 0, from: IPPrefix? = nil
  ) throws {
    try self.spread(prefix, length, over: [way], metric: metric, from: from)
  }

  /// Routes a prefix over several legs, in their table. If no rule selects that table, one for all
  /// traffic does.
  func spread(
    _ prefix: String, _ length: Int, over ways: [RouteAnswer], metric: UInt32 = 0,
    from: IPPrefix? = nil
  ) throws {
    let routes = ways.compactMap(\.route)
    var route = ModelRoute(
      try IPPrefix(spelt: prefix, length), table: routes.first?.table ?? 254, metric: metric,
      over: routes.map { .init($0.outLink, via: $0.gateway, source: $0.source) })
    route.from = from
    route.kind = routes.first?.kind ?? .unicast
    if case .noRoute(let reason) = ways[0] { route.refusal = reason }
    self.routes.removeAll { $0.matched == route.matched && $0.from == from }
    self.routes.append(route)
    if route.table != 254, !self.rules.contains(where: { $0.table == route.table }) {
      self.rules.append(ModelRule(.all, table: route.table))
    }
    for leg in route.legs where route.kind == .unicast {
      guard let source = leg.source, self.owner(of: source) == nil else { continue }
      self.give(source, to: leg.link)
    }
  }

  /// Routes the traffic that a rule selects this way, by the way's table.
  func direct(_ selector: ModelRule.Selector, _ way: RouteAnswer) throws {
    try self.spread("0.0.0.0", 0, over: [way])
    self.rules.removeAll { $0.table == way.route?.table }
    self.rules.append(ModelRule(selector, table: way.route?.table ?? 254))
  }

  /// Routes this way all that is sent from the way's source (`ip rule from …`).
  func pin(_ way: RouteAnswer) throws {
    try self.direct(.source(try #require(way.route?.source)), way)
  }

  func give(_ address: IPAddress, to link: UInt32, flags: AddressFlags = []) {
    self.addressTable.append(
      Address(
        address, prefixLength: address.family == .ipv4 ? 24 : 64, link: link, flags: flags))
  }

  func give(_ address: String, to link: UInt32) throws {
    self.give(try IPAddress(spelt: address), to: link)
  }

  /// Removes the address from every link.
  func take(_ address: String) {
    self.addressTable.removeAll { $0.address == IPAddress(address) }
  }

  /// Removes the route to a prefix with this metric.
  func cut(_ prefix: String, _ length: Int, metric: UInt32 = 0) throws {
    let prefix = try IPPrefix(spelt: prefix, length)
    self.routes.removeAll { $0.prefix == prefix && $0.metric == metric }
  }
}

import Connectivity
import ConnectivityRules
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

  /// Routes a prefix over several legs.
  func spread(
    _ prefix: String, _ length: Int, over ways: [RouteAnswer], metric: UInt32 = 0,
    from: IPPrefix? = nil
  ) throws {
    let prefix = try IPPrefix(spelt: prefix, length)
    self.routes.removeAll { $0.prefix == prefix && $0.metric == metric && $0.from == from }
    self.routes.append(Entry(prefix: prefix, metric: metric, ways: ways, from: from))
    for way in ways { self.give(way) }
  }

  /// Routes this way all that is sent from the way's source (`ip rule from …`).
  func pin(_ way: RouteAnswer) {
    self.give(way)
    guard let source = way.route?.source else { return }
    self.pinned[source] = way
  }

  private func give(_ way: RouteAnswer) {
    guard let route = way.route, route.kind == .unicast, let source = route.source,
      !self.addressTable.contains(where: { $0.address == source })
    else { return }
    self.give(source, to: route.outLink)
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

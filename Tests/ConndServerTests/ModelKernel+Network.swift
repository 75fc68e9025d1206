import Connectivity
import Testing

extension IPAddress {
  /// One that a test spells itself.
  init(spelt text: String) throws { self = try #require(IPAddress(text)) }
}

extension RouteAnswer {
  /// The way over a link.
  static func over(
    _ link: UInt32, via gateway: String? = nil, from source: String
  ) -> RouteAnswer {
    .route(
      Route(outLink: link, gateway: gateway.flatMap { IPAddress($0) }, source: IPAddress(source)))
  }
}

extension ModelKernel {
  func addLink(_ index: UInt32, _ name: String, hasCarrier: Bool = true) {
    self.linkTable[index] = LinkFacts(
      Link(
        index: index, name: name, flags: hasCarrier ? [.up, .lowerUp, .running] : [.up],
        operationalState: hasCarrier ? .up : .down, carrier: hasCarrier,
        hardwareAddress: [2, 0, 0, 0, 0, UInt8(index)]))
  }

  func addTunnel(_ index: UInt32, _ name: String, to remote: String) {
    self.linkTable[index] = LinkFacts(
      Link(
        index: index, name: name, kind: "gre", hardwareType: 778, flags: [.up, .lowerUp],
        remote: IPAddress(remote)))
  }

  /// What goes to a prefix goes this way from now on.
  func lead(_ prefix: String, _ length: Int, _ way: RouteAnswer) throws {
    let prefix = try #require(IPPrefix(try IPAddress(spelt: prefix), length: length))
    self.routes.removeAll { $0.prefix == prefix }
    self.routes.append((prefix, way))
  }
}

import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Why traffic does not use a link")
struct UnusedReasonTests {
  private static func link(_ name: String = "eth0", master: UInt32? = nil) -> Link {
    var link = Link(
      index: 2, name: name, flags: [.up, .running, .lowerUp], operationalState: .up, carrier: true)
    link.master = master
    return link
  }

  private static func route(
    _ length: Int = 0, table: UInt32 = 254, _ metric: UInt32
  ) throws -> MatchedRoute {
    let prefix = try #require(IPPrefix("0.0.0.0", length: length))
    return MatchedRoute(prefix: prefix, table: table, priority: metric)
  }

  @Test("rules come before prefixes, and prefixes before metrics")
  func order() throws {
    let used = try Self.route(1, table: 254, 100)
    for (route, reason) in try [
      (Self.route(1, 600), .higherMetric), (Self.route(1, 100), .equalMetric),
      (Self.route(0, 50), .lessSpecific), (Self.route(8, table: 100, 50), .laterRule),
    ] as [(MatchedRoute, UnusedReason)] {
      #expect(
        UnusedReason(Self.link(), hasAddress: true, route: route, insteadOf: used) == reason)
    }
    #expect(
      try UnusedReason(Self.link(), hasAddress: true, route: Self.route(0, 50), insteadOf: nil)
        == .equalMetric)
  }

  @Test("a link that carries nothing says so, whatever its route")
  func state() throws {
    var (down, dark, waiting) = (Self.link(), Self.link(), Self.link())
    down.flags = []
    dark.carrier = false
    waiting.operationalState = .dormant
    for (link, reason) in [(down, .down), (dark, .noCarrier), (waiting, .dormant)]
      as [(Link, UnusedReason)]
    {
      for route in [try Self.route(0, 1), nil] {
        #expect(
          try UnusedReason(link, hasAddress: true, route: route, insteadOf: Self.route(0, 100))
            == reason)
      }
    }
  }

  @Test("without a route: a port, no address, or only no route")
  func withoutRoute() throws {
    let used = try Self.route(0, 100)
    #expect(UnusedReason(Self.link(), hasAddress: true, route: nil, insteadOf: used) == .noRoute)
    #expect(
      UnusedReason(
        Self.link(), hasAddress: true, route: nil, isDiscarded: true, insteadOf: nil)
        == .discarded)
    #expect(
      UnusedReason(Self.link(), hasAddress: false, route: nil, insteadOf: used) == .noAddress)
    #expect(
      UnusedReason(Self.link(master: 9), hasAddress: false, route: nil, insteadOf: used) == .port)
  }
}

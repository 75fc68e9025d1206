import Connectivity
import ConnectivityRules
import Testing

@Suite("The scope of a change")
struct ChangeScopeTests {
  /// A VLAN above eth0, with the gateway 192.0.2.1.
  private static let path = KernelPath(
    status: .satisfied,
    chain: [KernelPath.Link(index: 5, name: "vlan10"), KernelPath.Link(index: 2, name: "eth0")],
    source: "192.0.2.7", gateway: "192.0.2.1")
  private static let flow = Destination("203.0.113.9", source: "192.0.2.7")

  private static func touches(_ trigger: ReadTrigger) -> Bool {
    ChangeScope(trigger).touches(Self.flow, on: [Self.path])
  }

  private static func route(
    _ prefix: IPAddress, _ length: Int, over link: UInt32?
  ) throws -> RouteChange {
    let prefix = try #require(IPPrefix(prefix, length: length))
    return RouteChange(
      MatchedRoute(prefix: prefix, table: 254, priority: 100), outLink: link, gateway: nil)
  }

  @Test("E2 a change touches a flow if it names its links, addresses, route or gateway")
  func named() throws {
    func address(_ address: IPAddress, on link: UInt32) -> Address {
      Address(address, prefixLength: 24, link: link)
    }
    let events: [(KernelEvent, Bool)] = try [
      (.link(Link(index: 5, name: "vlan10")), true),
      (.linkRemoved(Link(index: 2, name: "eth0")), true),
      (.link(Link(index: 9, name: "veth9")), false),
      (.addressRemoved(address("192.0.2.7", on: 5)), true),
      (.address(address("203.0.113.9", on: 9)), true),
      // Another address of its own link
      (.address(address("192.0.2.8", on: 5)), false),
      (.route(Self.route("0.0.0.0", 0, over: 5), replaced: false), true),
      (.routeRemoved(Self.route("203.0.113.0", 24, over: 5)), true),
      (.routeRemoved(Self.route("203.0.113.0", 24, over: nil)), true),
      (.route(Self.route("0.0.0.0", 0, over: 9), replaced: false), false),
      (.route(Self.route("198.51.100.0", 24, over: 5), replaced: false), false),
      (.neighbour(Neighbour("192.0.2.1", link: 5, isFailed: true)), true),
      (.neighbour(Neighbour("203.0.113.9", link: 5, isFailed: true)), true),
      (.neighbour(Neighbour("192.0.2.1", link: 5)), false),
      (.neighbour(Neighbour("192.0.2.1", link: 9, isFailed: true)), false),
      (.neighbour(Neighbour("192.0.2.99", link: 5, isFailed: true)), false),
    ]
    for (event, expected) in events {
      #expect(Self.touches(.events([event])) == expected, "\(event)")
    }
  }

  @Test("E2 what names no traffic touches all flows, or those of its family")
  func unnamed() {
    for event in [.overrun, .nexthop(id: 1), .nexthopRemoved(id: 1)] as [KernelEvent] {
      #expect(Self.touches(.events([event])))
    }
    for event in [KernelEvent.rule, KernelEvent.ruleRemoved, KernelEvent.setting] {
      #expect(Self.touches(.events([event(.ipv4)])) && !Self.touches(.events([event(.ipv6)])))
    }
    #expect(Self.touches(.resumed(.seconds(1))) && Self.touches(.kernelBack))
    for trigger in [.timer, .metering, .events([.malformed("")])] as [ReadTrigger] {
      #expect(!Self.touches(trigger) && ChangeScope(trigger).isEmpty)
    }
  }

  @Test("E2 so many routes that comparing them takes longer than asking → all flows are touched")
  func manyRoutes() throws {
    let events = try (0..<100).map { number in
      KernelEvent.routeRemoved(try Self.route(#require(IPAddress("10.0.\(number).0")), 24, over: 9))
    }
    #expect(Self.touches(.events(events)) && !Self.touches(.events(Array(events.prefix(50)))))
    var scope = ChangeScope(.events(Array(events.prefix(50))))
    scope.add(ChangeScope(.events(Array(events.suffix(50)))))
    #expect(scope.touches(Self.flow, on: [Self.path]))
  }
}

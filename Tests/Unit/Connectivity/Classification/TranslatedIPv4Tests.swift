import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Translated IPv4")
struct TranslatedIPv4Tests {
  private static func facts(_ kind: String?, from source: IPAddress) -> PathFacts {
    PathFacts(
      destination: "203.0.113.9", answer: .route(Route(outLink: 7, source: source)),
      links: [LinkClassifierTests.link("x0", kind: kind)],
      source: Address(source, prefixLength: 32, link: 7))
  }

  @Test(
    "K9 the source address and the kind of the link decide whether IPv4 is translated",
    arguments: [
      ("tun", "192.0.0.1", true), (nil, "192.0.0.2", true), (nil, "192.0.0.0", true),
      (nil, "192.0.0.7", true), ("vlan", "192.0.0.2", true),
      // DS-Lite, and other tunnels
      ("ip6tnl", "192.0.0.2", false), ("wireguard", "192.0.0.2", false),
      // Other blocks of the registry (RFC 7600, RFC 8155)
      (nil, "192.0.0.8", false), (nil, "192.0.0.10", false), ("tun", "192.0.2.1", false),
    ] as [(String?, IPAddress, Bool)])
  func recognized(kind: String?, source: IPAddress, isTranslated: Bool) {
    let facts = Self.facts(kind, from: source)
    #expect(facts.isTranslated == isTranslated)
    #expect((facts.firstTunnel != nil) == (!isTranslated && facts.links[0].isTunnel))
  }

  @Test("K9 an address of another link, or an IPv4 gateway → not translated")
  func elsewhere() {
    var facts = Self.facts(nil, from: "192.0.0.2")
    facts.answer = .route(Route(outLink: 7, gateway: "fe80::1", source: "192.0.0.2"))
    #expect(facts.isTranslated)
    facts.answer = .route(Route(outLink: 7, gateway: "192.0.0.1", source: "192.0.0.2"))
    #expect(!facts.isTranslated)
    facts = Self.facts(nil, from: "192.0.0.2")
    facts.source = nil
    #expect(!facts.isTranslated)
  }

  // MARK: - Life

  /// A reading of a translated flow.
  ///
  /// - Parameters:
  ///   - ofLink: The IPv6 addresses of the link below.
  ///   - elsewhere: Those of another link.
  private static func reading(
    _ ofLink: [IPAddress], elsewhere: [IPAddress] = [], isSatisfied: Bool = true
  ) -> FlowReading {
    var path = KernelPath(
      status: .satisfied,
      chain: [KernelPath.Link(index: 5, name: "clat"), KernelPath.Link(index: 3, name: "wlan0")],
      medium: .wifi,
      source: "192.0.0.1", sourcePrefixLength: 32, table: 254)
    if !isSatisfied { (path.status, path.reason) = (.requiresConnection, .noSourceAddress) }
    var network = NetworkIdentity(hasHardwareAddresses: false)
    network.translation = TranslationPrefixes(
      ofLink.map { Address($0, prefixLength: 64, link: 3) }
        + elsewhere.map { Address($0, prefixLength: 128, link: 4) }, on: 3)
    return FlowReading(path, network: network)
  }

  private static let made = Self.reading(["2001:db8:a::5"])

  private func flow(on reading: FlowReading = Self.made) -> FollowedFlow {
    FollowedFlow(Flow(Destination("203.0.113.5"), local: "192.0.0.1"), on: reading)
  }

  @Test(
    "K9 I0 one of a translated flow's first prefixes remains → nothing is destroyed",
    arguments: [
      Self.made, Self.reading(["2001:db8:a::6"]), Self.reading(["2001:db8:b::5", "2001:db8:a::5"]),
      // Another link has the prefix, and sends the packets.
      Self.reading(["2001:db8:b::5"], elsewhere: ["2001:db8:a::9"]),
      Self.reading(["fe80::1", "fd00::5", "2001:db8:a::5"]),
    ])
  func lives(reading: FlowReading) {
    var flow = self.flow()
    #expect(flow.see(reading) == nil)
    #expect(flow.deadline == nil)
  }

  @Test("K9 I1 the last prefix is gone → advised, and destroyed at the end of the grace period")
  func prefixLost() {
    for remaining in [[], ["fe80::1", "fd00::5"]] as [[IPAddress]] {
      var flow = self.flow()
      #expect(flow.see(Self.reading(remaining), at: 100) == "advise sourceAddressLost")
      #expect(flow.deadline == 1100)
      #expect(flow.see(Self.reading(remaining), at: 1099) == nil)
      #expect(flow.see(Self.reading(remaining), at: 1100) == "destroy sourceAddressLost")
    }
  }

  @Test("K9 I10 the prefix comes back in time → nothing is destroyed")
  func prefixBack() {
    var flow = self.flow()
    let lost = Self.reading([], isSatisfied: false)
    #expect(flow.see(lost, at: 100) == "advise sourceAddressLost")
    #expect(flow.see(Self.made, at: 900) == nil)
    #expect(flow.see(Self.made, at: 2000) == nil)
    #expect(flow.see(lost, at: 2100) == "advise sourceAddressLost")
  }

  @Test("K9 I1 another prefix takes the place of the last one → destroyed immediately")
  func prefixReplaced() {
    var flow = self.flow()
    #expect(flow.see(Self.reading(["2001:db8:b::5"])) == "destroy sourceAddressLost")
  }

  @Test("K9 later prefixes alone do not keep a flow; its first prefixes do, in any order")
  func laterPrefix() {
    var flow = self.flow(on: Self.reading(["2001:db8:a::5", "2001:db8:b::5"]))
    #expect(flow.see(Self.reading(["2001:db8:b::5", "2001:db8:c::5"])) == nil)
    #expect(flow.see(Self.reading(["2001:db8:a::7", "2001:db8:c::5"])) == nil)
    #expect(flow.see(Self.reading(["2001:db8:c::5"])) == "destroy sourceAddressLost")
  }

  @Test("K9 the prefixes are unknown → nothing is destroyed")
  func unknownPrefixes() {
    var flow = self.flow(on: Self.reading([]))
    #expect(flow.see(Self.reading(["2001:db8:a::5"])) == nil)
    // From now on the flow has a prefix.
    #expect(flow.see(Self.made.with { $0.network.translation = nil }) == nil)
    #expect(flow.see(Self.reading(["2001:db8:b::5"])) == "destroy sourceAddressLost")
  }

  // MARK: - Questions

  @Test("K9 E2 the IPv6 path below changes → the change touches a translated flow")
  func touched() throws {
    func address(
      _ address: IPAddress, on link: UInt32 = 3, _ flags: AddressFlags = []
    ) -> Address {
      Address(address, prefixLength: 64, link: link, flags: flags)
    }
    func route(
      _ address: IPAddress, _ length: Int, via gateway: IPAddress? = "fe80::1",
      over link: UInt32 = 3
    ) throws -> KernelEvent {
      let prefix = try #require(IPPrefix(address, length: length))
      return .routeRemoved(
        RouteChange(
          MatchedRoute(prefix: prefix, table: 254, priority: 100), outLink: link, gateway: gateway))
    }
    let events: [(KernelEvent, Bool)] = try [
      (.addressRemoved(address("2001:db8:a::5")), true),
      (.address(address("2001:db8:a::5", .deprecated)), true),
      // A router repeats its advertisement.
      (.address(address("2001:db8:a::5")), false),
      (.addressRemoved(address("2001:db8:a::5", on: 9)), false),
      (.addressRemoved(address("fe80::5")), false),
      (route("::", 0), true), (route("64:ff9b::", 96), true),
      (route("::", 0, over: 9), false), (route("2001:db8:a::", 64, via: nil), false),
      (.neighbour(Neighbour("fe80::1", link: 3, isFailed: true)), true),
      (.rule(.ipv6), true),
    ]
    let path = Self.made.path
    for (event, expected) in events {
      let scope = ChangeScope(.events([event]))
      let translated = Destination("203.0.113.9", source: "192.0.0.1")
      #expect(scope.touches(translated, on: [path]) == expected, "\(event)")
      // Other IPv4 on the same links does not depend on IPv6.
      #expect(!scope.touches(Destination("203.0.113.9", source: "192.0.2.7"), on: [path]))
    }
  }
}

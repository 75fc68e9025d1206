import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Classification of paths")
struct PathClassifierTests {
  static let probe: IPAddress = "17.0.0.1"
  static let probe6: IPAddress = "2600::1"

  static func route(
    source: String? = "192.0.2.7", gateway: String? = "192.0.2.1", kind: Route.Kind = .unicast
  ) -> RouteAnswer {
    .route(
      Route(
        kind: kind, outLink: 7, gateway: gateway.flatMap { IPAddress($0) },
        source: source.flatMap { IPAddress($0) }))
  }

  @Test("a path has the kernel's data")
  func satisfied() {
    let path = PathClassifier().path(
      PathFacts(
        destination: Self.probe, answer: Self.route(), links: [LinkClassifierTests.link("eth0")]))
    #expect(
      path
        == KernelPath(
          status: .satisfied, chain: [KernelPath.Link(index: 7, name: "eth0")], medium: .wired,
          evidence: KernelPath.Evidence(.hardwareType, "ether", .wired),
          source: IPAddress("192.0.2.7"),
          gateway: IPAddress("192.0.2.1"), table: 254))
  }

  @Test(
    "K2 a route that is not unicast → not reachable, with the route's type as the reason",
    arguments: [KernelPath.Reason.noRoute, .unreachable, .prohibited, .blackhole, .throw])
  func notReachable(reason: KernelPath.Reason) {
    let path = PathClassifier().path(
      PathFacts(destination: Self.probe, answer: .noRoute(reason)))
    #expect(path == .unsatisfied(reason))
    #expect(!ReachabilityFlags(path).reachable)
  }

  @Test(
    "K3 a dead link below a valid route → connectionRequired",
    arguments: [
      ([LinkClassifierTests.link(flags: [.up], carrier: false)], KernelPath.Reason.noCarrier),
      ([LinkClassifierTests.link(state: .dormant)], .dormant),
      ([LinkClassifierTests.link("wwan0", modem: ModemLink(isSuspended: true))], .suspended),
      ([LinkClassifierTests.link(modem: ModemLink(isSuspended: true), flags: [])], .linkDown),
      ([LinkClassifierTests.link(flags: [])], .linkDown),
      ([LinkClassifierTests.link(kind: "vxlan"), LinkClassifierTests.link(flags: [])], .linkDown),
      (
        [
          LinkClassifierTests.link(kind: "vlan", flags: [.up], state: .lowerLayerDown),
          LinkClassifierTests.link(state: .dormant),
        ], .dormant
      ),
      ([], .linkDown),
    ])
  func deadLink(links: [LinkFacts], reason: KernelPath.Reason) {
    let path = PathClassifier().path(
      PathFacts(destination: Self.probe, answer: Self.route(), links: links))
    #expect(path.status == .requiresConnection)
    #expect(path.reason == reason)
    #expect(ReachabilityFlags(path).connectionRequired)
  }

  @Test("K3 a dormant link is not reachable")
  func dormant() {
    let path = PathClassifier().path(
      PathFacts(
        destination: Self.probe, answer: Self.route(),
        links: [LinkClassifierTests.link("wlan0", device: Device(type: "wlan"), state: .dormant)]))
    let status = ConnectivityStatus(ipv4: path, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
    #expect(status.category == .offline)
    #expect(status.interface == "wlan0")
  }

  @Test(
    "K3 without a usable source address → no traffic",
    arguments: [
      (probe, nil, [], false), (probe, "127.0.0.1", [], false), (probe, "192.0.2.7", [], true),
      (probe6, nil, [], false), (probe6, "::1", [], false),
      (probe6, "fe80::7", [], false), (probe6, "2001:db8::7", [], true),
      (probe6, "2001:db8::7", [.tentative], false),
      (probe6, "2001:db8::7", [.tentative, .optimistic], true),
      (probe6, "2001:db8::7", [.duplicate], false),
      (probe6, "2001:db8::7", [.deprecated, .temporary], true),
      ("fe80::99", "fe80::7", [], true),
    ] as [(IPAddress, String?, AddressFlags, Bool)])
  func source(destination: IPAddress, source: String?, flags: AddressFlags, usable: Bool) {
    let address = source.flatMap { IPAddress($0) }
    let path = PathClassifier().path(
      PathFacts(
        destination: destination, answer: Self.route(source: source),
        links: [LinkClassifierTests.link()],
        source: address.map { Address($0, prefixLength: 24, link: 7, flags: flags) }))
    #expect(path.status == (usable ? .satisfied : .requiresConnection))
    #expect(path.reason == (usable ? nil : .noSourceAddress))
  }

  @Test("K3 a link-local IPv4 source and a default route without a gateway → no network")
  func linkLocalSource() {
    func path(_ takesAll: Bool, to destination: IPAddress = Self.probe) -> KernelPath {
      var facts = PathFacts(
        destination: destination, answer: Self.route(source: "169.254.7.7", gateway: nil),
        links: [LinkClassifierTests.link()])
      facts.takesAllForNeighbours = takesAll
      return PathClassifier().path(facts)
    }
    #expect(path(true).reason == .noSourceAddress)
    #expect(path(true, to: "169.254.9.9").status == .satisfied)
    #expect(path(false).status == .satisfied)
  }

  @Test("K3 a route to a link without an exit → a blackhole")
  func sink() {
    func path(_ links: [LinkFacts]) -> KernelPath {
      PathClassifier().path(
        PathFacts(destination: Self.probe, answer: Self.route(), links: links))
    }
    let eth0 = LinkClassifierTests.link()
    for kind in ["dummy", "ifb", "nlmon"] {
      let sink = LinkClassifierTests.link(kind: kind)
      #expect(path([sink]) == .unsatisfied(.blackhole))
      for above in ["vlan", "bond", "team", "macsec"] {
        let links = [LinkClassifierTests.link(kind: above), sink]
        #expect(path(links) == .unsatisfied(.blackhole), "\(above)")
      }
      // Other links above it may answer, and so may the destination of a route's own header.
      for above in ["macvlan", "bridge", "gre"] {
        let links = [LinkClassifierTests.link(kind: above), sink]
        #expect(path(links).status == .satisfied, "\(above)")
      }
      #expect(path([sink, eth0]).status == .satisfied)
    }
    let configured = PathClassifier(policy: LinkPolicy([.init(match: "x0", medium: .wired)]))
    let sink = LinkClassifierTests.link(kind: "dummy")
    let facts = PathFacts(destination: Self.probe, answer: Self.route(), links: [sink])
    #expect(configured.path(facts).status == .satisfied, "the configuration knows better")
  }

  @Test("a local destination needs no other source address")
  func local() {
    let path = PathClassifier().path(
      PathFacts(
        destination: "127.0.0.1",
        answer: Self.route(source: "127.0.0.1", gateway: nil, kind: .local),
        links: [LinkClassifierTests.link("lo", type: 772, state: .unknown)]))
    #expect(path.status == .satisfied)
    #expect(path.medium == .loopback)
  }

  @Test(
    "K5 an unknown medium has an unknown cost, unless the configuration sets the cost or the medium"
  )
  func unknownCost() {
    func costsMoney(_ chain: [LinkFacts], _ rules: [LinkPolicy.Rule] = []) -> Bool? {
      PathClassifier(policy: LinkPolicy(rules)).path(
        PathFacts(destination: Self.probe, answer: Self.route(), links: chain)
      ).isExpensive
    }
    let veth = LinkClassifierTests.link("veth0", kind: "veth")
    #expect(costsMoney([veth]) == nil)
    #expect(costsMoney([LinkClassifierTests.link("wg0", kind: "wireguard")]) == nil)
    #expect(costsMoney([veth], [.init(match: "veth0", medium: .wired)]) == false)
    #expect(costsMoney([veth], [.init(match: "veth0", expensive: true)]) == true)
    #expect(costsMoney([LinkClassifierTests.link()]) == false)
    #expect(
      KernelPath.unsatisfied(.noRoute).isExpensive == nil && KernelPath.unknown.isExpensive == nil)
  }

  @Test("K6 a tunnel whose remote end is unreachable carries no traffic")
  func brokenBelow() {
    let path = PathClassifier().path(
      PathFacts(
        destination: Self.probe, answer: Self.route(),
        links: [LinkClassifierTests.link(kind: "gre", type: 778)], brokenBelow: .noRoute))
    #expect(path.status == .requiresConnection)
    #expect(path.reason == .noRoute)
  }

  @Test("K10 2G is ultra-constrained, unless the configuration or a user says otherwise")
  func constraint() {
    func level(
      _ generation: MobileGeneration?, _ rule: ConstraintLevel? = nil,
      _ stated: CostOverride.Setting? = nil
    ) -> ConstraintLevel {
      let wwan = LinkClassifierTests.link(
        "wwan0", kind: "wwan", modem: ModemLink(generation: generation))
      let overrides = CostOverrides([.link("wwan0"): CostOverride(constrained: stated, user: 0)])
      let rules = [LinkPolicy.Rule(match: "wwan0", constraint: rule)]
      return PathClassifier(policy: LinkPolicy(rules), overrides: overrides).path(
        PathFacts(destination: Self.probe, answer: Self.route(), links: [wwan])
      ).constraint
    }
    #expect([nil, .third, .fourth, .fifth].allSatisfy { level($0) == .unconstrained })
    #expect(level(.second) == .ultra)
    #expect(level(.second, .unconstrained) == .unconstrained)
    #expect(level(.fourth, .ultra) == .ultra)
    #expect(level(.second, nil, .off) == .unconstrained)
    // Saving data on 2G saves no less than 2G asks for.
    #expect(level(.second, nil, .on) == .ultra)
    #expect(level(.fourth, nil, .on) == .constrained)
    #expect(level(.fourth, .ultra, .off) == .ultra)
  }

  @Test(
    "cellular, Bluetooth, metered Wi-Fi and an iPhone are expensive, unless the configuration says otherwise"
  )
  func cost() {
    func cost(_ chain: [LinkFacts], _ rules: [LinkPolicy.Rule] = []) -> [Bool] {
      let path = PathClassifier(policy: LinkPolicy(rules)).path(
        PathFacts(destination: Self.probe, answer: Self.route(), links: chain))
      return [path.isMetered, path.isConstrained]
    }
    let wwan = LinkClassifierTests.link("wwan0", kind: "wwan")
    let vlan = LinkClassifierTests.link("vlan1", kind: "vlan", lower: 7)
    #expect(cost([wwan]) == [true, false])
    #expect(cost([LinkClassifierTests.link(device: Device(type: "bluetooth"))]) == [true, false])
    #expect(cost([LinkClassifierTests.link()]) == [false, false])
    #expect(cost([wwan], [.init(match: "wwan0", expensive: false)]) == [false, false])
    let hotspot = LinkClassifierTests.link(
      "wlan0",
      device: Device(
        hasPhy80211: true,
        wireless: WirelessLink(
          role: .station,
          accessPoint: AccessPoint(bssid: [2, 0, 0, 0, 0, 1], isMetered: true))))
    #expect(cost([hotspot]) == [true, false])
    #expect(cost([vlan, hotspot]) == [true, false])
    #expect(cost([hotspot], [.init(match: "wlan0", expensive: false)]) == [false, false])
    let iPhone = LinkClassifierTests.link("eth1", device: Device(driver: "ipheth"))
    #expect(cost([iPhone]) == [true, false])
    #expect(cost([vlan, iPhone]) == [true, false])
    #expect(cost([iPhone], [.init(match: "eth1", expensive: false)]) == [false, false])
    #expect(
      cost([LinkClassifierTests.link("usb0", device: Device(driver: "rndis_host"))])
        == [false, false])
    #expect(cost([vlan, wwan], [.init(match: "wwan0", constraint: .constrained)]) == [true, true])
    #expect(
      cost(
        [vlan, wwan],
        [.init(match: "wwan*", expensive: false), .init(match: "v*", expensive: true)])
        == [true, false])
  }

  @Test("K2 one captured probe is outvoted; in a tie the first decides")
  func majority() {
    let wifi = Self.route()
    let vpn = RouteAnswer.route(Route(outLink: 9))
    let otherSource = Self.route(source: "192.0.2.8")
    #expect(DefaultDestination.majority(of: [vpn, wifi, otherSource]) == 1)
    #expect(DefaultDestination.majority(of: [wifi, vpn]) == 0)
    #expect(DefaultDestination.majority(of: [vpn, .noRoute(.noRoute), .noRoute(.noRoute)]) == 1)
    #expect(
      DefaultDestination.majority(of: [.noRoute(.blackhole), .noRoute(.noRoute), wifi]) == 0)
    #expect(DefaultDestination.majority(of: []) == nil)
  }
}

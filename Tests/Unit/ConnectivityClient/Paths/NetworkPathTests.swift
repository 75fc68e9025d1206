import Connectivity
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("A network path")
struct NetworkPathTests {
  /// All properties of a value.
  struct Facts: Hashable, Sendable {
    var status: KernelPath.Status
    var reason: KernelPath.Reason?
    var category: NetworkCategory
    var online = true
    var expensive = false
    var constrained = false
    var medium = NetworkMedium.unknown
    var uses: Set<NetworkMedium> = []
    var ipv4 = false
    var ipv6 = false
    var interfaces: [String] = []
    var gateways: [String] = []
    var locals: [String] = []
  }

  private static func facts(_ path: NetworkPath) -> Facts {
    #expect(path.interface == path.links.first?.name)
    return Facts(
      status: path.status, reason: path.unsatisfiedReason, category: path.category,
      online: path.isOnline, expensive: path.isExpensive == true, constrained: path.isConstrained,
      medium: path.medium, uses: Set(NetworkMedium.allCases.filter(path.usesMedium)),
      ipv4: path.supportsIPv4, ipv6: path.supportsIPv6, interfaces: path.links.map(\.name),
      gateways: path.gateways.map(\.description), locals: path.localAddresses.map(\.description))
  }

  private static let bond = KernelPath(
    status: .satisfied,
    chain: [KernelPath.Link(index: 9, name: "vlan10"), KernelPath.Link(index: 2, name: "eth0")],
    medium: .wired,
    source: IPAddress("203.0.113.7"), gateway: IPAddress("203.0.113.1"), constraint: .constrained)

  @Test(
    "K7 the path of a system status",
    arguments: [
      (
        ConnectivityStatus(ipv4: PathSample.wifi, ipv6: PathSample.none, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv4: true,
          interfaces: ["wlan0"], gateways: ["192.0.2.1"], locals: ["192.0.2.7"])
      ),
      // One link with two families: each property is listed once.
      (
        ConnectivityStatus(ipv4: PathSample.wifi, ipv6: PathSample.wifi6, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv4: true,
          ipv6: true, interfaces: ["wlan0"], gateways: ["192.0.2.1", "fe80::1"],
          locals: ["192.0.2.7", "2001:db8::7"])
      ),
      // In a tie the preferred family comes first, and its path determines the costs.
      (
        ConnectivityStatus(ipv4: Self.bond, ipv6: PathSample.wifi6, preferred: .ipv6),
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi, .wired], ipv4: true,
          ipv6: true, interfaces: ["wlan0", "vlan10"], gateways: ["fe80::1", "203.0.113.1"],
          locals: ["2001:db8::7", "203.0.113.7"])
      ),
      (
        ConnectivityStatus(ipv4: Self.bond, ipv6: PathSample.wifi6, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .wired, constrained: true, medium: .wired,
          uses: [.wifi, .wired], ipv4: true, ipv6: true, interfaces: ["vlan10", "wlan0"],
          gateways: ["203.0.113.1", "fe80::1"], locals: ["203.0.113.7", "2001:db8::7"])
      ),
      // The better path comes first, and only a working one has gateways and addresses.
      (
        ConnectivityStatus(ipv4: PathSample.noCarrier, ipv6: PathSample.wifi6, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv6: true,
          interfaces: ["wlan0"], gateways: ["fe80::1"], locals: ["2001:db8::7"])
      ),
      // Neither a gateway nor IPv6.
      (
        ConnectivityStatus(ipv4: PathSample.cellular, ipv6: PathSample.none, preferred: .ipv6),
        Facts(
          status: .satisfied, category: .cellular, expensive: true, medium: .cellular,
          uses: [.cellular], ipv4: true, interfaces: ["wwan0"], locals: ["198.51.100.20"])
      ),
      (
        ConnectivityStatus(ipv4: PathSample.noCarrier, ipv6: PathSample.none, preferred: .ipv4),
        Facts(
          status: .requiresConnection, reason: .noCarrier, category: .offline, online: false,
          medium: .wifi, interfaces: ["wlan0"])
      ),
      (
        ConnectivityStatus(
          ipv4: PathSample.none, ipv6: .unsatisfied(.prohibited), preferred: .ipv4),
        Facts(status: .unsatisfied, reason: .noRoute, category: .offline, online: false)
      ),
      (
        ConnectivityStatus(
          ipv4: PathSample.none, ipv6: .unsatisfied(.prohibited), preferred: .ipv6),
        Facts(status: .unsatisfied, reason: .prohibited, category: .offline, online: false)
      ),
      // A medium without a category of its own.
      (
        ConnectivityStatus(
          ipv4: KernelPath(
            status: .satisfied, chain: [KernelPath.Link(index: 5, name: "tun0")], medium: .tunnel),
          ipv6: PathSample.none, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .other, medium: .tunnel, uses: [.tunnel], ipv4: true,
          interfaces: ["tun0"])
      ),
      // One unknown family does not make the other doubtful, nor the machine offline.
      (
        ConnectivityStatus(ipv4: .unknown, ipv6: PathSample.wifi6, preferred: .ipv4),
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv6: true,
          interfaces: ["wlan0"], gateways: ["fe80::1"], locals: ["2001:db8::7"])
      ),
      (
        ConnectivityStatus(ipv4: .unknown, ipv6: PathSample.none, preferred: .ipv4),
        Facts(status: .unknown, category: .unknown)
      ),
      (
        ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4),
        Facts(status: .unknown, category: .unknown)
      ),
    ])
  func system(status: ConnectivityStatus, facts: Facts) {
    #expect(Self.facts(NetworkPath(status)) == facts)
  }

  @Test(
    "the path to a destination, in its family only",
    arguments: [
      (
        PathSample.wifi, AddressFamily.ipv4,
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv4: true,
          interfaces: ["wlan0"], gateways: ["192.0.2.1"], locals: ["192.0.2.7"])
      ),
      (
        PathSample.wifi6, .ipv6,
        Facts(
          status: .satisfied, category: .wifi, medium: .wifi, uses: [.wifi], ipv6: true,
          interfaces: ["wlan0"], gateways: ["fe80::1"], locals: ["2001:db8::7"])
      ),
      (
        KernelPath(
          status: .satisfied, chain: [KernelPath.Link(index: 1, name: "lo")], medium: .loopback,
          source: IPAddress("::1")), .ipv6,
        Facts(
          status: .satisfied, category: .other, medium: .loopback, uses: [.loopback], ipv6: true,
          interfaces: ["lo"], locals: ["::1"])
      ),
      (
        PathSample.noCarrier, .ipv4,
        Facts(
          status: .requiresConnection, reason: .noCarrier, category: .offline, online: false,
          medium: .wifi, interfaces: ["wlan0"])
      ),
      (
        .unsatisfied(.blackhole), .ipv6,
        Facts(status: .unsatisfied, reason: .blackhole, category: .offline, online: false)
      ),
      (.unknown, .ipv6, Facts(status: .unknown, category: .unknown)),
    ] as [(KernelPath, AddressFamily, Facts)])
  func destination(path: KernelPath, family: AddressFamily, facts: Facts) {
    let value = NetworkPath(path, family: family)
    #expect(Self.facts(value) == facts)
    #expect((family == .ipv4 ? value.ipv6 : value.ipv4) == nil)
    #expect((family == .ipv4 ? value.ipv4 : value.ipv6) == (path.status == .unknown ? nil : path))
  }

  @Test("K8 all unknown values are equal, and count as online")
  func unknown() {
    let nothing = NetworkPath(ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv6))
    #expect(nothing == .unknown)
    #expect(NetworkPath(.unknown, family: .ipv6) == .unknown)
    #expect(NetworkPath.unknown.isOnline)
    #expect(NetworkPath.unknown.status == .unknown)
    #expect(NetworkPath.unknown.ipv4 == nil && NetworkPath.unknown.ipv6 == nil)
  }

  @Test("T2 an interruption has neither a path nor a reason")
  func interrupted() {
    #expect(
      Self.facts(.interrupted) == Facts(status: .unsatisfied, category: .offline, online: false))
  }

  @Test("equal contents are equal values, different contents are not")
  func equality() {
    func path(_ change: (inout KernelPath) -> Void) -> NetworkPath {
      var path = PathSample.wifi
      change(&path)
      return NetworkPath(PathSample.status(path))
    }
    #expect(path { _ in } == NetworkPath(PathSample.status(PathSample.wifi)))
    #expect(path { _ in } != path { $0.gateway = IPAddress("192.0.2.254") })
    #expect(path { _ in } != path { $0.costsMoney = true })
    // Another link with the same name.
    #expect(path { _ in } != path { $0.chain[0].index = 7 })
    #expect(
      NetworkPath(PathSample.none, family: .ipv4) != NetworkPath(PathSample.none, family: .ipv6))
  }

  @Test(
    "the description of a value in a log",
    arguments: [
      (
        NetworkPath(PathSample.status(PathSample.wifi, PathSample.wifi6)),
        "satisfied, wifi by wlan0, ipv4, ipv6"
      ),
      (
        NetworkPath(PathSample.cellular, family: .ipv4),
        "satisfied, cellular by wwan0, ipv4, expensive"
      ),
      (
        NetworkPath(PathSample.noCarrier, family: .ipv4),
        "requiresConnection, noCarrier, wifi by wlan0"
      ),
      (NetworkPath(PathSample.none, family: .ipv4), "unsatisfied, noRoute"),
      (.unknown, "unknown"),
    ])
  func description(path: NetworkPath, text: String) {
    #expect(path.description == text)
  }

  @Test("C8 a path that the application may not use counts as none, with the reason")
  func limited() {
    func limited(_ access: NetworkAccess, _ ipv4: KernelPath, _ ipv6: KernelPath) -> String {
      let status = ConnectivityStatus(ipv4: ipv4, ipv6: ipv6, preferred: .ipv4)
      let path = NetworkPath(status).limited(to: access)
      let why = path.refusal.map { " \($0.reason.rawValue)" } ?? ""
      return "\(path.status.rawValue) \(path.category.rawValue)\(why)"
    }
    let (wifi, cellular, none) = (PathSample.wifi, PathSample.cellular, PathSample.none)
    #expect(limited(.unrestricted, cellular, none) == "satisfied cellular")
    #expect(limited(.inexpensive, cellular, none) == "unsatisfied none expensive")
    #expect(limited(.inexpensive, wifi, none) == "satisfied wifi")
    #expect(limited(.requiring([.wifi]), cellular, none) == "unsatisfied none cellular")
    #expect(limited(.requiring([.cellular]), cellular, none) == "satisfied cellular")
    var saving = wifi
    saving.constraint = .constrained
    #expect(limited(.inexpensive, saving, none) == "unsatisfied none constrained")
    #expect(limited(NetworkAccess(allowsExpensiveAccess: false), saving, none) == "satisfied wifi")
    // The other family may be used.
    #expect(limited(.requiring([.wifi]), cellular, PathSample.wifi6) == "satisfied wifi")
    #expect(
      limited(.requiring([.wifi]), PathSample.noCarrier, cellular)
        == "requiresConnection none cellular")
    // Nothing is refused for an unknown path; it does not make up for a refused one.
    #expect(limited(.inexpensive, .unknown, .unknown) == "unknown unknown")
    #expect(limited(.inexpensive, cellular, .unknown) == "unsatisfied none expensive")

    let host = NetworkPath(cellular, family: .ipv4).limited(to: .inexpensive)
    #expect(host.status == .unsatisfied && host.refusal?.reason == .expensive && !host.isOnline)
  }

  @Test("names can be resolved if there are DNS servers, or if that is unknown")
  func supportsDNS() {
    let status = ConnectivityStatus(
      ipv4: PathSample.wifi, ipv6: PathSample.none, preferred: .ipv4)
    let server = DNSSettings.Server("192.0.2.53").map { [$0] } ?? []
    #expect(NetworkPath(status, dns: DNSSettings(servers: server)).supportsDNS)
    #expect(!NetworkPath(status, dns: DNSSettings(search: ["lan"])).supportsDNS)
    #expect(NetworkPath(status).supportsDNS && NetworkPath.unknown.supportsDNS)
    #expect(!NetworkPath.interrupted.supportsDNS)
  }
}

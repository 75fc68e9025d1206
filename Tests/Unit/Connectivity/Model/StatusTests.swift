import Connectivity
import Testing

@Suite("Status")
struct StatusTests {
  static let wifi = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], medium: .wifi)
  static let cellular = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 4, name: "wwan0")], medium: .cellular,
    isExpensive: true)
  static let dialling = KernelPath(
    status: .requiresConnection, reason: .dormant,
    chain: [KernelPath.Link(index: 4, name: "wwan0")],
    medium: .cellular)
  static let none = KernelPath.unsatisfied(.noRoute)

  @Test(
    "K7 the summary follows the better family; in a tie, the preferred one",
    arguments: [
      (wifi, cellular, AddressFamily.ipv4, AddressFamily.ipv4, NetworkCategory.wifi),
      (wifi, cellular, .ipv6, .ipv6, .cellular),
      (none, cellular, .ipv4, .ipv6, .cellular),
      (dialling, wifi, .ipv4, .ipv6, .wifi),
      (wifi, dialling, .ipv6, .ipv4, .wifi),
      (none, dialling, .ipv4, .ipv6, .offline),
      (none, none, .ipv4, .ipv4, .offline),
      (none, none, .ipv6, .ipv6, .offline),
      (.unknown, wifi, .ipv4, .ipv6, .wifi),
      (.unknown, .unknown, .ipv4, .ipv4, .unknown),
    ])
  func summary(
    ipv4: KernelPath, ipv6: KernelPath, preferred: AddressFamily, followed: AddressFamily,
    category: NetworkCategory
  ) {
    let status = ConnectivityStatus(ipv4: ipv4, ipv6: ipv6, preferred: preferred)
    #expect(status.family == followed)
    #expect(status.category == category)
    #expect(status.path == (followed == .ipv4 ? ipv4 : ipv6))
  }

  @Test("K7 IPv6 with a unique local address only → IPv4 comes first, whatever is preferred")
  func uniqueLocal() throws {
    var local = Self.cellular
    local.source = IPAddress("fd00::7")
    let both = ConnectivityStatus(ipv4: Self.wifi, ipv6: local, preferred: .ipv6)
    #expect(both.family == .ipv4)
    // A router may translate it.
    for other in [Self.none, Self.dialling] {
      let alone = ConnectivityStatus(ipv4: other, ipv6: local, preferred: .ipv4)
      #expect(alone.family == .ipv6 && alone.category == .cellular)
    }
    local.source = IPAddress("2001:db8::7")
    #expect(ConnectivityStatus(ipv4: Self.wifi, ipv6: local, preferred: .ipv6).family == .ipv6)
  }

  @Test("K7 the interface is the out-link, even for a path that requires a connection")
  func interface() {
    let dialling = ConnectivityStatus(ipv4: Self.dialling, ipv6: Self.none, preferred: .ipv4)
    #expect(dialling.interface == "wwan0")
    #expect(dialling.flags.reachable && dialling.flags.connectionRequired)
    let none = ConnectivityStatus(ipv4: Self.none, ipv6: Self.none, preferred: .ipv4)
    #expect(none.interface == nil)
    #expect(!none.flags.reachable)
  }

  @Test("K4 isWWAN follows the medium at the bottom, if there is a path")
  func isWWAN() {
    #expect(ReachabilityFlags(Self.cellular).isWWAN)
    #expect(ReachabilityFlags(Self.dialling).isWWAN)
    #expect(!ReachabilityFlags(Self.wifi).isWWAN)
    #expect(!ReachabilityFlags(KernelPath(status: .unsatisfied, medium: .cellular)).isWWAN)
  }
}

import Connectivity
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("Why not the other link")
struct UnusedLinkTests {
  private static func explanation(
    _ reason: Connectivity_V1_UnusedReason, priority: UInt32 = 700
  ) -> Connectivity_V1_Explanation {
    var explanation = Connectivity_V1_Explanation.sample
    var unused = Connectivity_V1_UnusedLink.slower
    unused.reason = reason
    unused.routePriority = priority
    unused.link.master = "br0"
    if [.noRoute, .noAddress, .port, .discarded].contains(reason) { unused.clearRoutePrefix() }
    explanation.unusedLinks = [unused]
    return explanation
  }

  @Test(
    "the first line names the reason, and the last ones each other link",
    arguments: [
      (
        .higherMetric, "its route has the lower metric (600 < 700)",
        "metric 700, loses: 600 is lower"
      ),
      (
        .laterRule, "a rule for it comes first (32766: from all)",
        "metric 700 in table 254 (main), loses: rule 32766 comes before rule 32766"
      ),
      (
        .lessSpecific, "its route is more specific (0.0.0.0/0)",
        "0.0.0.0/0, loses: 0.0.0.0/0 is more specific"
      ),
      (
        .equalMetric, "the kernel prefers it among two equal defaults",
        "metric 700, loses: the kernel prefers another equal route for this destination"
      ),
      (.noCarrier, "eth1 has no carrier", "no carrier"), (.down, "eth1 is down", "down"),
      (.dormant, "eth1 is dormant", "dormant"),
      (.noRoute, nil, "up, no default route"),
      (.noAddress, nil, "up, no IPv4 address, no default route"),
      (.port, nil, "a port of br0"),
      (
        .discarded, nil, "up, but the traffic is discarded"
      ),
    ] as [(Connectivity_V1_UnusedReason, String?, String)])
  func reasons(_ reason: Connectivity_V1_UnusedReason, sentence: String?, row: String) throws {
    let lines = try Style.plain(width: .max).explanation(Self.explanation(reason), host: nil)
    let why = sentence.map { " because \($0)." } ?? ", the only link with a route."
    #expect(lines.first == "Traffic leaves by vlan10 (wired)\(why)")
    #expect(lines.last == "  not by    eth1: \(row)")
  }

  @Test("K2 several links have equal routes → the first line counts default routes only")
  func equals() throws {
    var explanation = Self.explanation(.equalMetric)
    explanation.unusedLinks.append(explanation.unusedLinks[0])
    func first() throws -> String? {
      try Style.plain(width: .max).explanation(explanation, host: nil).first
    }
    #expect(try first()?.hasSuffix("because the kernel prefers it among 3 equal defaults.") == true)
    explanation.unusedLinks[0].routePrefix = "192.0.2.0/24"
    #expect(try first()?.hasSuffix("because the kernel prefers it among equal routes.") == true)
  }

  @Test("only one link was compared → the first line says nothing about the others")
  func oneLink() throws {
    let used = Self.explanation(.noRoute)
    let lines = try Style.plain(width: .max).explanation(used, host: nil, link: "eth1")
    #expect(
      lines.first == "eth1 is not used: it has no default route. Traffic leaves by vlan10 (wired).")
  }

  @Test(
    "the user asks about a link → the first line says first why that link is not used",
    arguments: [
      (.noCarrier, "it has no carrier"), (.down, "it is down"), (.dormant, "it is dormant"),
      (.port, "it is a port of br0"), (.noAddress, "it has no IPv4 address and no default route"),
      (.discarded, "the traffic is discarded"),
    ] as [(Connectivity_V1_UnusedReason, String)])
  func asked(_ reason: Connectivity_V1_UnusedReason, why: String) throws {
    let lines = try Style.plain(width: .max).explanation(
      Self.explanation(reason), host: nil, link: "eth1")
    #expect(lines.first == "eth1 is not used: \(why). Traffic leaves by vlan10 (wired).")
  }

  @Test("a preferred link, and the used link, are answered by the sentence itself")
  func askedOrUsed() throws {
    var explanation = Self.explanation(.higherMetric)
    func first(_ link: String) throws -> String? {
      try Style.plain(width: .max).explanation(explanation, host: nil, link: link).first
    }
    #expect(
      try first("eth1")
        == "Traffic leaves by vlan10 (wired) because its route has the lower metric (600 < 700).")
    explanation.unusedLinks = []
    #expect(try first("vlan10") == "Traffic leaves by vlan10 (wired).")
  }

  @Test("the other address family uses another link → both are named")
  func families() throws {
    var ipv6 = KernelPath.wlan
    ipv6.chain = [KernelPath.Link(index: 7, name: "eth1")]
    ipv6.medium = .wired
    let status = ConnectivityStatus(ipv4: .stack, ipv6: ipv6, preferred: .ipv4)
    func first(
      _ reason: Connectivity_V1_UnusedReason, host: String? = nil, link: String? = nil
    ) throws -> String? {
      try Style.plain(width: .max).explanation(
        Self.explanation(reason), host: host, link: link, status: status
      ).first
    }
    let other = "IPv6 traffic leaves by eth1 (wired)."
    let blocked = ConnectivityStatus(
      ipv4: .stack, ipv6: .unsatisfied(.prohibited), preferred: .ipv4)
    #expect(
      try Style.plain(width: .max).explanation(
        Self.explanation(.noRoute), host: nil, status: blocked
      ).first
        == "IPv4 traffic leaves by vlan10 (wired), the only link with an IPv4 route. IPv6 traffic does not leave: a prohibit rule or route."
    )
    #expect(
      try first(.noRoute)
        == "IPv4 traffic leaves by vlan10 (wired), the only link with an IPv4 route. \(other)")
    #expect(
      try first(.noRoute, link: "eth1")
        == "eth1 is not used for IPv4: it has no default route. IPv4 traffic leaves by vlan10 (wired). \(other)"
    )
    // A host has one family.
    #expect(
      try first(.noRoute, host: "192.0.2.1")
        == "Traffic leaves by vlan10 (wired), the only link with a route.")
  }

  @Test("a tunnel is called one, with the links below; multicast has no only link")
  func tunnel() throws {
    var explanation = Self.explanation(.noRoute)
    explanation.links[0].medium = .tunnel
    func first() throws -> String? {
      try Style.plain(width: .max).explanation(explanation, host: "x").first
    }
    #expect(
      try first()
        == "Traffic leaves by vlan10, a tunnel over bond0 over eth0 (wired), the only link with a route."
    )
    explanation.links[0].medium = .wired
    explanation.destination = "224.0.0.251"
    #expect(try first() == "Traffic leaves by vlan10 (wired).")
    let lines = try Style.plain(width: .max).explanation(explanation, host: "x")
    #expect(!lines.contains { $0.contains("not by") }, "\(lines)")
  }

  private static func discarded(
    _ reason: KernelPath.Reason, _ discard: (inout Connectivity_V1_Discard) -> Void
  ) throws -> [String] {
    var explanation = Self.explanation(.discarded)
    explanation.clearRoutePrefix()
    explanation.rules = []
    explanation.path = Connectivity_V1_Path(.unsatisfied(reason))
    discard(&explanation.discard)
    return try Style.plain(width: .max).explanation(explanation, host: nil)
  }

  @Test(
    "K2 a rule discards the traffic → its number, selector and action",
    arguments: [
      (.prohibited, "prohibits", "prohibit"), (.blackhole, "drops", "blackhole"),
      (.noRoute, "rejects", "unreachable"),
    ] as [(KernelPath.Reason, String, String)])
  func rule(reason: KernelPath.Reason, verb: String, action: String) throws {
    let lines = try Self.discarded(reason) {
      ($0.rule.priority, $0.rule.selector) = (50, "from all")
    }
    let why = "rule 50 (from all) \(verb) the traffic"
    #expect(lines.first == "No traffic leaves: \(why).")
    #expect(lines.contains("  rule      50: from all \(action)"))
    #expect(lines.last == "  not by    eth1: up, but \(why)")
  }

  @Test(
    "K2 a route discards the traffic → its type, metric and table, and the rule that leads to it",
    arguments: [
      (.prohibited, "prohibit"), (.blackhole, "blackhole"), (.unreachable, "unreachable"),
    ] as [(KernelPath.Reason, String)])
  func route(reason: KernelPath.Reason, type: String) throws {
    let lines = try Self.discarded(reason) {
      ($0.rule.priority, $0.rule.selector) = (32766, "from all")
      ($0.routePrefix, $0.routePriority, $0.routeTable) = ("0.0.0.0/0", 50, 254)
    }
    #expect(
      lines.first
        == "No traffic leaves: the route “\(type) default metric 50 in table 254 (main)” discards the traffic."
    )
    for line in [
      "  rule      32766: from all", "  table     254 (main)",
      "  route     \(type) default metric 50",
    ] { #expect(lines.contains(line), "\(lines)") }
  }

  @Test("without a path the first line says why")
  func noPath() throws {
    func first(
      _ path: KernelPath, host: String? = nil, master: String? = nil
    ) throws -> String? {
      var explanation = Self.explanation(.higherMetric)
      explanation.path = Connectivity_V1_Path(path)
      if let master {
        explanation.links[0].name = path.interface ?? ""
        explanation.links[0].master = master
      }
      return try Style.plain(width: .max).explanation(explanation, host: host).first
    }
    #expect(try first(.unsatisfied(.noRoute)) == "No traffic leaves: no route.")
    var path = KernelPath.wlan
    (path.status, path.reason) = (.requiresConnection, .noCarrier)
    #expect(
      try first(path)
        == "Traffic is lost on wlan0, which has no carrier: the kernel uses its route until it is "
        + "removed (sysctl ignore_routes_with_linkdown).")
    path.reason = .dormant
    #expect(try first(path) == "No traffic leaves: wlan0 is dormant.")
    path.reason = .noSourceAddress
    #expect(try first(path) == "No traffic leaves: wlan0 has no usable source address.")
    #expect(
      try first(path, master: "br0")
        == "No traffic leaves: wlan0 has no usable source address (wlan0 is a port of br0).")
    #expect(
      try first(.unsatisfied(.noRoute), host: "192.0.2.1")
        == "No traffic to 192.0.2.1 leaves: no route.")
    path = .wlan
    path.medium = .loopback
    #expect(try first(path) == "The address belongs to this machine.")
  }
}

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
        "metric 700, loses: the kernel prefers another equal route"
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
    #expect(lines.first == "Traffic leaves by vlan10 (wired).")
  }

  @Test("without a path the first line says why")
  func noPath() throws {
    func first(_ path: KernelPath) throws -> String? {
      var explanation = Self.explanation(.higherMetric)
      explanation.path = Connectivity_V1_Path(path)
      return try Style.plain(width: .max).explanation(explanation, host: nil).first
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
    path = .wlan
    path.medium = .loopback
    #expect(try first(path) == "The address belongs to this machine.")
  }
}

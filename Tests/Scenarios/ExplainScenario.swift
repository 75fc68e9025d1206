import TestKit
import TestTraits
import Testing

/// `connctl explain`: why traffic does not use the other links, compared with the kernel's choice.
@Suite("Explanations", .needsNamespaces, .blocking)
struct ExplainScenario {
  private func explain(_ lab: Laboratory, _ arguments: String...) throws -> (
    first: String, others: [String]
  ) {
    let outcome = try Command.outcome(
      of: lab.namespace.wrapped([Programs.connctl, "--socket", lab.socket, "explain"] + arguments))
    #expect(outcome.status == 0, "\(outcome.standardError)")
    let lines = outcome.output.split(separator: "\n").map(String.init)
    let start = lines.firstIndex { $0.hasPrefix("  not by") } ?? lines.endIndex
    return (lines.first ?? "", lines[start...].map { String($0.dropFirst(12)) })
  }

  /// The link of `ip route get`.
  private func link(
    _ lab: Laboratory, to destination: String = "17.0.0.1", _ options: String = ""
  ) throws -> String? {
    let words = try lab.namespace.ip("route get \(destination) \(options)").split(separator: " ")
    return words.firstIndex(of: "dev").map { String(words[$0 + 1]) }
  }

  @Test("K2 two default routes → the metric decides, and each other link has its reason")
  func metrics() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0", "eth1"], routes: ["eth0", "wlan0"])
    try lab.addLink("eth2")
    try lab.start()
    let explained = try self.explain(lab)
    #expect(
      explained.first
        == "Traffic leaves by eth0 (wired) because its route has the lower metric (100 < 200).")
    #expect(try self.link(lab) == "eth0")
    #expect(
      explained.others == [
        "wlan0: metric 200, loses: 100 is lower", "eth1: up, no default route",
        "eth2: up, no IPv4 address, no default route",
      ])
    for arguments in [["wlan0"], ["--link", "wlan0"], ["17.0.0.1", "--link", "wlan0"]] {
      let one = try Command.outcome(
        of: lab.namespace.wrapped(
          [Programs.connctl, "--socket", lab.socket, "explain"] + arguments))
      #expect(one.output.contains("\n  not by    wlan0: metric 200, loses: 100 is lower\n"))
      #expect(!one.output.contains("eth1:"))
    }
    #expect(try self.explain(lab, "eth0").others == ["eth0: it is used"])
    let unknown = try Command.outcome(
      of: lab.namespace.wrapped([
        Programs.connctl, "--socket", lab.socket, "explain", "--link", "nope0",
      ]))
    #expect(unknown.status == 64 && unknown.standardError.contains("there is no link “nope0”"))
  }

  @Test("K2 the kernel keeps a dead route → the sentence says so, and why the other one loses")
  func deadRoute() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    try lab.outside.ip("link set eth0 down")
    _ = try lab.events { $0.status.ipv4.reason == "noCarrier" }
    let explained = try self.explain(lab)
    #expect(explained.first.hasPrefix("Traffic is lost on eth0, which has no carrier:"))
    #expect(try self.link(lab) == "eth0")
    #expect(explained.others == ["wlan0: metric 200, loses: 100 is lower"])
    try lab.namespace.set("net/ipv4/conf/all/ignore_routes_with_linkdown", "1")
    try lab.namespace.set("net/ipv4/conf/eth0/ignore_routes_with_linkdown", "1")
    let moved = try self.explain(lab)
    #expect(try self.link(lab) == "wlan0")
    #expect(moved.first.hasPrefix("Traffic leaves by wlan0 (Wi-Fi)"))
    #expect(moved.others == ["eth0: no carrier"])
  }

  @Test("K2 a rule, a longer prefix, an equal metric, or a mark decides")
  func others() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    try lab.namespace.ip("rule add priority 90 fwmark 0x10 lookup 100")
    try lab.namespace.ip("route add default via 10.1.0.1 dev wlan0 table 100")
    let marked = try self.explain(lab, "--mark", "0x10")
    #expect(try self.link(lab, "mark 0x10") == "wlan0")
    #expect(
      marked.first
        == "Traffic leaves by wlan0 (Wi-Fi) because a rule for it comes first (90: from all fwmark 0x10)."
    )
    #expect(
      marked.others
        == ["eth0: metric 100 in table 254 (main), loses: rule 90 comes before rule 32766"])

    try lab.namespace.ip("route add 0.0.0.0/1 via 10.1.0.1 dev wlan0")
    let specific = try self.explain(lab, "17.0.0.1")
    #expect(try self.link(lab) == "wlan0")
    #expect(
      specific.first
        == "Traffic leaves by wlan0 (Wi-Fi) because its route is more specific (0.0.0.0/1).")
    #expect(specific.others == ["eth0: 0.0.0.0/0, loses: 0.0.0.0/1 is more specific"])

    try lab.namespace.ip("route del 0.0.0.0/1")
    try lab.namespace.ip("route append default via 10.1.0.1 dev wlan0 metric 100")
    let equal = try self.explain(lab)
    #expect(try self.link(lab) == "eth0")
    #expect(
      equal.first
        == "Traffic leaves by eth0 (wired) because the kernel prefers it among two equal defaults.")
  }

  @Test("D6 an explanation costs the same, whatever the number of routes")
  func manyRoutes() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    let connd = try #require(lab.connd)
    func time() throws -> Duration {
      try (0..<5).map { _ in
        let before = try connd.processorTime()
        _ = try self.explain(lab)
        return try connd.processorTime() - before
      }.min() ?? .zero
    }
    let few = try time()
    try lab.namespace.ipBatch(
      (0..<100_000).map { number in
        "route add 11.\(number >> 16).\(number >> 8 & 255).\(number & 255)/32 via 10.0.0.1"
      })
    #expect(try time() < few * 3 + .milliseconds(30))
    #expect(try self.explain(lab).others == ["wlan0: metric 200, loses: 100 is lower"])
  }

  @Test(
    "K2 a kill switch discards the traffic → the first line names the rule or route",
    arguments: [
      ("rule add pref 50 prohibit", "rule 50 (from all) prohibits the traffic"),
      (
        "rule add pref 60 not fwmark 0x1 unreachable",
        "rule 60 (not from all fwmark 0x1) rejects the traffic"
      ),
      (
        "route add blackhole default metric 50",
        "the route “blackhole default metric 50 in table 254 (main)” discards the traffic"
      ),
      (
        "route add unreachable default metric 50 table 99",
        "the route “unreachable default metric 50 in table 99” discards the traffic"
      ),
    ])
  func killSwitch(command: String, why: String) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    if command.contains("table 99") { try lab.namespace.ip("rule add pref 70 lookup 99") }
    try lab.start()
    try lab.namespace.ip(command)
    _ = try lab.events { $0.to == "none" }
    let explained = try self.explain(lab)
    #expect(explained.first == "No traffic leaves: \(why).")
    #expect(explained.others == ["eth0: up, but \(why)"])
  }

  @Test("K2 traffic bound to a link without a route → path, is and explain agree")
  func assumedNeighbour() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.start()
    // The kernel itself would take 203.0.113.9 for a neighbour.
    #expect(try self.link(lab, to: "203.0.113.9", "oif eth1") == "eth1")
    let path = try lab.connctl("path", "--via", "eth1", "203.0.113.9")
    #expect(path.status == 1 && path.output.contains("unsatisfied: no route"), "\(path)")
    #expect(try lab.connctl("path", "--via", "eth0", "203.0.113.9").status == 0)
    #expect(try lab.connctl("is", "online", "--via", "eth1").status == 1)
    #expect(
      try self.explain(lab, "eth1").first
        == "eth1 is not used: it has no default route. Traffic leaves by eth0 (wired).")
  }
}

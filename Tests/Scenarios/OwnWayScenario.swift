import TestKit
import TestTraits
import Testing

/// Connections that the kernel routes differently from the rest: by a rule, a route, a mark or a
/// link of their own.
@Suite("Own way", .needsNamespaces, .blocking)
struct OwnWayScenario {
  /// How a connection comes to use the second link, while the rest uses the first.
  struct Way: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Arguments of `ip`; FAMILY stands for `-4` or `-6`, GATEWAY for the second link's gateway.
    var commands: [String]
    var options = TCPConnection.Options()

    private static let table = "FAMILY route add default via GATEWAY table 100"

    /// Rules on the connection's own protocol and ports.
    static let byProtocol = [
      Way(
        testDescription: "rule ipproto tcp",
        commands: [Self.table, "FAMILY rule add ipproto tcp lookup 100"]),
      Way(
        testDescription: "rule dport",
        commands: [Self.table, "FAMILY rule add dport 8443 lookup 100"],
        options: .init(remotePort: 8443)),
      Way(
        testDescription: "rule dport range",
        commands: [Self.table, "FAMILY rule add ipproto tcp dport 8000-8999 lookup 100"],
        options: .init(remotePort: 8443)),
      Way(
        testDescription: "rule sport",
        commands: [Self.table, "FAMILY rule add sport 2345 lookup 100"],
        options: .init(sourcePort: 2345)),
      Way(
        testDescription: "rule sport range",
        commands: [Self.table, "FAMILY rule add ipproto tcp sport 2000-2999 lookup 100"],
        options: .init(sourcePort: 2345)),
    ]

    /// Other reasons for a connection's own way.
    static let others = [
      Way(
        testDescription: "rule from",
        commands: [Self.table, "FAMILY rule add from SOURCE lookup 100"],
        options: .init(source: "SOURCE")),
      Way(
        testDescription: "rule fwmark",
        commands: [Self.table, "FAMILY rule add fwmark 16 lookup 100"],
        options: .init(mark: 16)),
      Way(
        testDescription: "SO_BINDTODEVICE",
        commands: ["FAMILY route add default via GATEWAY dev LINK metric 900"],
        options: .init(link: "LINK")),
      Way(
        testDescription: "host route", commands: ["FAMILY route add SERVER via GATEWAY dev LINK"]),
    ]

    /// The connection, over the second of the given links.
    func flow(_ lab: Laboratory, family: String, link: String) throws -> GuardedFlow {
      let isIPv6 = family == "-6"
      let server = isIPv6 ? Uplinks.server6 : Uplinks.server
      let source = isIPv6 ? "2001:db8:1::2" : "10.1.0.2"
      let words = [
        "FAMILY": family, "GATEWAY": isIPv6 ? "2001:db8:1::1" : "10.1.0.1", "LINK": link,
        "SERVER": server, "SOURCE": source,
      ]
      func filled(_ text: String) -> String {
        words.reduce(text) { $0.replacing($1.key, with: $1.value) }
      }
      for command in self.commands { try lab.namespace.ip(filled(command)) }
      var options = self.options
      options.source = options.source.map(filled)
      options.link = options.link.map(filled)
      let flow = try GuardedFlow(lab, to: server, options)
      #expect(flow.connection?.local == source)
      #expect(flow.path.interface == link)
      return flow
    }
  }

  private static let families = ["-4", "-6"]

  private func end(_ lab: Laboratory, link: String, family: String) throws {
    try lab.namespace.ip(
      "address del \(family == "-6" ? "2001:db8:1::2/64" : "10.1.0.2/24") dev \(link)")
  }

  // MARK: A way that is rebuilt

  /// Ways that are taken away and restored, while another default route uses the same link.
  private static let refills = [
    (
      ["route add default via 10.1.0.1 dev eth1 table 101", "rule add from 10.1.0.2 lookup 101"], 0
    ),
    (
      ["route add default via 10.1.0.1 dev eth1 table 101", "rule add from 10.1.0.2 lookup 101"], 1
    ),
    (["route add 203.0.113.0/24 via 10.1.0.1 dev eth1 metric 200"], 0),
  ]

  @Test(
    "I10 a flow's own way is removed and rebuilt → nothing ends, although a worse route uses its link",
    arguments: Self.refills, [true, false])
  func refilled(way: (words: [String], last: Int), comesBack: Bool) throws {
    let lab = try Uplinks.laboratory(
      ["eth0", "eth1"], configuration: comesBack ? "grace: {route: 20s}\n" : "")
    for words in way.words { try lab.namespace.ip(words) }
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server, .init(source: "10.1.0.2"))
    #expect(flow.path.interface == "eth1")
    let words = way.words[way.last]
    try lab.namespace.ip(words.replacing(" add ", with: " del "))
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain interfaceLost")
    guard comesBack else { return try flow.expectDestroyed("betterPath") }
    // Other events in between change nothing.
    try lab.namespace.ip("address add 10.0.0.3/24 dev eth0")
    try lab.namespace.ip("route add 192.0.2.0/24 via 10.0.0.1 dev eth0")
    try lab.namespace.ip(words)
    try flow.expectSpared(atMost: .drain) {
      try lab.namespace.ipBatch(["address del 10.1.0.2/24 dev eth1", "link set eth1 down"])
    }
  }

  // MARK: Protocol and ports

  @Test(
    "I0 a rule by protocol or port → the flow is looked up with its own",
    arguments: Way.byProtocol, Self.families)
  func protocolsAndPorts(way: Way, family: String) throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"], ipv6: family == "-6")
    try lab.start()
    let flow = try way.flow(lab, family: family, link: "eth1")
    try lab.ip("link set eth1 mtu 1400")
    try flow.expectSpared(atMost: .nothing) { try self.end(lab, link: "eth1", family: family) }
  }

  @Test(
    "I3 I10 the rule by protocol is deleted → the flow drains, and is destroyed after the route's grace period"
  )
  func ruleGone() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.start()
    let flow = try #require(Way.byProtocol.first).flow(lab, family: "-4", link: "eth1")
    try lab.namespace.ip("rule del ipproto tcp lookup 100")
    try flow.expectDestroyed(
      "interfaceLost", after: ["drain interfaceLost"], cause: "graceEnded")
  }

  @Test(
    "I0 several next hops, chosen by protocol and ports → each is right", arguments: Self.families)
  func multipath(family: String) throws {
    let isIPv6 = family == "-6"
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [], ipv6: isIPv6)
    for link in ["all", "eth0", "eth1"] {
      // A connection may leave by one link with the address of the other.
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    let hops = (0...1).map { number in
      "nexthop via \(isIPv6 ? "2001:db8:\(number)::1" : "10.\(number).0.1") dev eth\(number)"
    }
    try lab.namespace.set("net/ipv\(isIPv6 ? 6 : 4)/fib_multipath_hash_policy", "1")
    try lab.namespace.ip("\(family) route add default \(hops.joined(separator: " "))")
    try lab.start()
    let flows = try (0..<8).map { _ in
      try GuardedFlow(lab, to: isIPv6 ? Uplinks.server6 : Uplinks.server)
    }
    #expect(flows.allSatisfy { ["eth0", "eth1"].contains($0.path.interface) })
    try lab.namespace.ip("link set eth1 mtu 1400")
    try GuardedFlow.expectSpared(flows, atMost: .nothing) {
      for number in 0...1 {
        let prefix = isIPv6 ? "2001:db8:\(number)::" : "10.\(number).0."
        let (length, link) = (isIPv6 ? 64 : 24, "eth\(number)")
        // Another address stays, and with it the next hops: the loss of one does not affect
        // connections on the others.
        try lab.namespace.set("net/ipv4/conf/\(link)/promote_secondaries", "1")
        for change in ["add \(prefix)3", "del \(prefix)2"] {
          try lab.namespace.ip("address \(change)/\(length) dev \(link)")
          try lab.awaitEvaluation()
        }
      }
    }
  }

  // MARK: The default route is lost or replaced

  @Test(
    "I0 I10 main's default route is lost → a flow with a way of its own lives",
    arguments: Way.byProtocol.prefix(1) + Way.others, Self.families)
  func defaultGone(way: Way, family: String) throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], routes: ["eth0"], ipv6: family == "-6")
    // The other family would keep the category.
    if family == "-6" { try lab.namespace.ip("-4 route flush 0/0") }
    try lab.start()
    let flow = try way.flow(lab, family: family, link: "wlan0")
    let watcher = try #require(lab.watcher)
    try lab.namespace.ip("\(family) route del default dev eth0")
    // A bound flow needs a default route on its link, which then everyone uses.
    try watcher.wideDestroy()
    try flow.expectSpared { try self.end(lab, link: "wlan0", family: family) }
  }

  @Test(
    "I0 I5 the category changes → a flow with a way of its own lives",
    // A rule for all of TCP would give the other flow that way, too.
    arguments: Way.byProtocol.dropFirst().prefix(1) + Way.others)
  func categoryChanges(way: Way) throws {
    let lab = try Uplinks.laboratory(["eth0", "wwan0", "wlan0"], routes: ["eth0", "wlan0"])
    try lab.start()
    let flow = try way.flow(lab, family: "-4", link: "wwan0")
    let ordinary = try GuardedFlow(lab, to: "10.0.0.1")
    // Beside a rule by a mark the lookup is not proof, and what is sent asks the peer (E0, E1).
    let traffic = try #require(ordinary.connection).startTraffic()
    defer { traffic.stop() }
    try traffic.awaitAnswers()
    try lab.ip("link set eth0 down")
    #expect(try lab.event().to == "wifi")
    try #require(lab.watcher).wideDestroy()
    try ordinary.expectDestroyed("interfaceLost")
    try flow.expectSpared { try self.end(lab, link: "wwan0", family: "-4") }
  }

  @Test("I2 the link of a flow with a way of its own goes down → destroyed")
  func ownLinkGone() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try lab.start()
    let flow = try #require(Way.byProtocol.first).flow(lab, family: "-4", link: "eth1")
    try lab.ip("link set eth1 down")
    try flow.expectDestroyed("interfaceLost", cause: "linkDown")
  }
}

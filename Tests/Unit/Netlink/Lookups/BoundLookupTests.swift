import CLinux
import Connectivity
import TestKit
import Testing

@testable import Netlink

/// Lookups with a fixed source or out-link, and for many destinations together.
@Suite(
  "Lookups for one flow",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct BoundLookupTests {
  private let namespace: NetworkNamespace
  private let requester: Requester

  /// Two links to two routers, the default route over the first.
  init() throws {
    self.namespace = try NetworkNamespace()
    for words in [
      "link add ve0 index 10 type veth peer name ve1 index 21",
      "link add ve2 index 30 type veth peer name ve3 index 41",
      "link set ve0 up", "link set ve1 up", "link set ve2 up", "link set ve3 up",
      "addr add 192.0.2.2/24 dev ve0", "addr add 198.51.100.2/24 dev ve2",
      "addr add 2001:db8::2/64 dev ve0 nodad", "addr add 2001:db8:1::2/64 dev ve2 nodad",
      "route add default via 192.0.2.1",
      "route add default via 198.51.100.1 metric 700",
      "route add default via 2001:db8::1 dev ve0 metric 100",
      "route add default via 2001:db8:1::1 dev ve2 metric 700",
      "route add 203.0.113.0/24 via 198.51.100.7 table 1000",
      "-6 route add 2001:db8:7::/48 via 2001:db8:1::7 table 1000",
    ] { try self.namespace.ip(words) }
    self.requester = try self.namespace.perform { try Requester() }
  }

  private func route(
    _ destination: String, from source: String? = nil, by outLink: UInt32? = nil
  ) throws -> RouteAnswer {
    try self.requester.route(
      to: Destination(
        address(destination), source: source.map { try address($0) }, outLink: outLink))
  }

  private func expect(
    _ answer: RouteAnswer, _ outLink: UInt32, _ gateway: String?, _ source: String,
    table: UInt32 = 254, location: SourceLocation = #_sourceLocation
  ) throws {
    let expected = Route(
      outLink: outLink, gateway: try gateway.map { try address($0) },
      source: try address(source), table: table)
    #expect(answer == .route(expected), sourceLocation: location)
  }

  @Test("I3 a source selects its rules, and is the answer's source")
  func source() throws {
    try self.expect(self.route("203.0.113.9"), 10, "192.0.2.1", "192.0.2.2")
    try self.expect(
      self.route("203.0.113.9", from: "198.51.100.2"), 10, "192.0.2.1", "198.51.100.2")
    try self.expect(
      self.route("2001:db8:7::9", from: "2001:db8:1::2"), 10, "2001:db8::1", "2001:db8:1::2")
    try self.namespace.ip("rule add from 198.51.100.2 lookup 1000")
    try self.namespace.ip("-6 rule add from 2001:db8:1::2 lookup 1000")
    try self.expect(self.route("203.0.113.9"), 10, "192.0.2.1", "192.0.2.2")
    try self.expect(
      self.route("203.0.113.9", from: "198.51.100.2"), 30, "198.51.100.7", "198.51.100.2",
      table: 1000)
    try self.expect(
      self.route("2001:db8:7::9", from: "2001:db8:1::2"), 30, "2001:db8:1::7", "2001:db8:1::2",
      table: 1000)
    let match = try self.requester.match(
      for: Destination(address("203.0.113.9"), source: address("198.51.100.2")))
    #expect(
      try match?.route
        == MatchedRoute(prefix: prefix("203.0.113.0/24"), table: 1000, priority: 0))
  }

  @Test("I3 traffic bound to a link leaves by that link")
  func outLink() throws {
    try self.expect(self.route("8.8.8.8", by: 10), 10, "192.0.2.1", "192.0.2.2")
    try self.expect(self.route("8.8.8.8", by: 30), 30, "198.51.100.1", "198.51.100.2")
    try self.expect(self.route("2001:4860::8", by: 30), 30, "2001:db8:1::1", "2001:db8:1::2")
    let destination = try Destination(address("8.8.8.8"), outLink: 30)
    #expect(try self.requester.match(for: destination)?.route?.priority == 700)
  }

  @Test("I3 source and link together: IPv6 would treat the link as a preference")
  func sourceAndOutLink() throws {
    try self.expect(
      self.route("8.8.8.8", from: "198.51.100.2", by: 30), 30, "198.51.100.1", "198.51.100.2")
    try self.expect(
      self.route("2001:4860::8", from: "2001:db8:1::2", by: 30), 30, "2001:db8:1::1",
      "2001:db8:1::2")
    // The kernel answers with the default route over ve0, which no traffic bound to ve3 uses.
    #expect(try self.route("2001:4860::8", from: "2001:db8::2", by: 41) == .noRoute(.noRoute))
    let destination = try Destination(
      address("2001:4860::8"), source: address("2001:db8::2"), outLink: 41)
    #expect(try self.requester.match(for: destination) == nil)
  }

  @Test(
    "I2 replies on a less preferred link are refused only by the strict filter",
    arguments: [(0, 0), (0, 1), (1, 0), (0, 2), (2, 1)])
  func replies(all: Int, link: Int) throws {
    for (name, value) in [("all", all), ("ve0", 0), ("ve2", link)] {
      try self.namespace.run("sysctl", "-qw", "net.ipv4.conf.\(name).rp_filter=\(value)")
    }
    func refuses(_ local: String, _ link: UInt32, mark: UInt32 = 0) throws -> Bool {
      var destination = try Destination(address("8.8.8.8"), mark: mark, source: address(local))
      destination.transport = Transport(6, localPort: 40000, remotePort: 443)
      return try self.requester.refusesReplies(to: destination, by: link)
    }
    #expect(try !refuses("192.0.2.2", 10))
    #expect(try refuses("198.51.100.2", 30) == (max(all, link) == 1))
    // A rule for the mark counts if the filter uses marks.
    try self.namespace.ip("rule add fwmark 7 lookup 77")
    try self.namespace.ip("route add default via 198.51.100.1 dev ve2 table 77")
    #expect(try refuses("198.51.100.2", 30, mark: 7) == (max(all, link) == 1))
    try self.namespace.run("sysctl", "-qw", "net.ipv4.conf.all.src_valid_mark=1")
    #expect(try !refuses("198.51.100.2", 30, mark: 7))
    // A link that is gone gives no answer.
    #expect(try !refuses("198.51.100.2", 99))
    try self.namespace.ip("rule add from 198.51.100.2 lookup 77")
    #expect(try !refuses("198.51.100.2", 30))
  }

  @Test("A link that does not exist, is down, or has no route")
  func noLink() throws {
    for text in ["8.8.8.8", "2001:4860::8"] {
      #expect(try self.route(text, by: 99) == .noRoute(.noRoute))
      #expect(try self.requester.match(for: Destination(address(text), outLink: 99)) == nil)
    }
    // IPv4 treats the destination as a neighbour then. No table has that route, so its table is 0.
    try self.expect(self.route("8.8.8.8", by: 41), 41, nil, "192.0.2.2", table: 0)
    #expect(try self.requester.match(for: Destination(address("8.8.8.8"), outLink: 41)) == nil)
    #expect(try self.route("2001:4860::8", by: 41) == .noRoute(.noRoute))
    try self.namespace.ip("link set ve3 down")
    #expect(try self.route("8.8.8.8", by: 41) == .noRoute(.noRoute))
  }

  @Test(
    "K2 a foreign source address and a missing route have different reasons")
  func noSource() throws {
    for source in ["203.0.113.77", "127.0.0.1", "255.255.255.255", "224.0.0.1"] {
      #expect(try self.route("8.8.8.8", from: source) == .noRoute(.noSourceAddress), "\(source)")
    }
    #expect(try self.route("8.8.8.8", from: "2001:db8::2") == .noRoute(.noSourceAddress))
    #expect(try self.route("2001:4860::8", from: "192.0.2.2") == .noRoute(.noSourceAddress))
    for words in ["rule add from 198.51.100.2", "-6 rule add from 2001:db8:1::2"] {
      try self.namespace.ip("\(words) lookup 1001 priority 100")
    }
    for (kind, reason) in [
      ("blackhole", .blackhole), ("prohibit", .prohibited), ("unreachable", .unreachable),
    ] as [(String, KernelPath.Reason)] {
      try self.namespace.ip("route replace \(kind) default table 1001")
      #expect(try self.route("8.8.8.8", from: "198.51.100.2") == .noRoute(reason))
      try self.namespace.ip("-6 route add \(kind) default table 1001")
      #expect(try self.route("2001:4860::8", from: "2001:db8:1::2") == .noRoute(reason))
      try self.namespace.ip("-6 route flush table 1001")
    }
  }

  @Test(
    "Lookups in a batch give the same answers as single ones", arguments: [0, 1, 31, 32, 33, 500])
  func many(count: Int) throws {
    for words in [
      "route add blackhole 10.1.0.0/16", "route add unreachable 10.2.0.0/16",
      "route add prohibit 10.3.0.0/16", "route add throw 10.4.0.0/16",
      "-6 route add blackhole 2001:db8:9::/48", "rule add fwmark 7 lookup 1000",
      "rule add from 198.51.100.2 lookup 1000",
    ] { try self.namespace.ip(words) }
    var generator = SeededGenerator(seed: UInt64(count))
    let addresses = try [
      "8.8.8.8", "10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1", "203.0.113.9", "192.0.2.2",
      "127.0.0.1", "2001:4860::8", "2001:db8:9::1", "2001:db8:7::1", "::1", "2001:db8:1::9",
    ].map { try address($0) }
    let sources = try [
      nil, nil, "192.0.2.2", "198.51.100.2", "203.0.113.77", "2001:db8::2", "2001:db8:1::2",
    ].map { try $0.map { try address($0) } }
    let destinations = try (0..<count).map { _ in
      Destination(
        try #require(addresses.randomElement(using: &generator)),
        mark: Bool.random(using: &generator) ? 7 : 0,
        source: sources.randomElement(using: &generator) ?? nil,
        outLink: [nil, nil, 10, 30, 41, 99].randomElement(using: &generator) ?? nil)
    }
    let answers = try self.requester.routes(to: destinations)
    #expect(answers.count == count)
    for (destination, answer) in zip(destinations, answers) {
      #expect(try self.requester.route(to: destination) == answer, "\(destination)")
    }
  }

  @Test("D8 answers lost to a full socket buffer are requested again")
  func overrun() throws {
    let destinations = try (0..<200).map { Destination(try address("10.9.0.\($0)")) }
    // The kernel uses its minimum buffer, which holds one answer or a few.
    #expect(self.requester.socket.setSocket(SO_RCVBUF, CInt(1)))
    for answer in try self.requester.routes(to: destinations) {
      try self.expect(answer, 10, "192.0.2.1", "192.0.2.2")
    }
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Real troubles with the traffic of two users, and the part that `connctl why` blames.
@Suite("The part that fails", .needsNamespaces, .blocking)
struct WhyScenario {
  struct Trouble: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var verdict: String
    /// The numbers of the hosts that the verdict is about, or `nil` for any.
    var hosts: [Int]?
    var port: UInt32?
    /// Whether the verdict is about one address family only.
    var isOfFamily = false
    /// Whether the question of each user is answered in this way. Otherwise nothing is wrong for
    /// the other user.
    var isForAll = true
    /// Begins the trouble for an address family.
    var cause: @Sendable (WhyBench, WhyBench.Family) throws -> Void

    init(
      _ name: String, _ verdict: String, hosts: [Int]? = nil, port: UInt32? = nil,
      isOfFamily: Bool = false, isForAll: Bool = true,
      _ cause: @escaping @Sendable (WhyBench, WhyBench.Family) throws -> Void
    ) {
      (self.testDescription, self.verdict, self.hosts, self.port) = (name, verdict, hosts, port)
      (self.isOfFamily, self.isForAll, self.cause) = (isOfFamily, isForAll, cause)
    }

    /// The right answer, in the form of ``WhyBench/Report/answer(hasHosts:)``.
    func answer(_ family: WhyBench.Family) -> String {
      WhyBench.Report(
        verdict: self.verdict, hosts: (self.hosts ?? []).map { family.hosts[$0] }, port: self.port,
        family: self.isOfFamily ? family.rawValue : nil, evidence: []
      ).answer(hasHosts: self.hosts != nil)
    }
  }

  static let troubles = [
    Trouble("nothing", "nothingWrong", hosts: []) { _, _ in },
    Trouble("a local firewall drops a user's packets", "notLetOut", isForAll: false) { bench, _ in
      try bench.filterHere("output", "meta skuid \(WhyBench.user) drop")
    },
    Trouble("a local firewall rejects a user's packets", "notLetOut", isForAll: false) { bench, _ in
      try bench.filterHere("output", "meta skuid \(WhyBench.user) reject")
    },
    Trouble("a local firewall drops packets to two hosts", "notLetOut", hosts: [0, 1]) {
      bench, family in
      for host in 0..<2 { try bench.filterHere("output", "\(family.to(host)) drop") }
    },
    Trouble("a local firewall drops the answers to a user", "onlyUser", isForAll: false) {
      bench, family in
      try bench.filterHere("input", "meta skuid \(WhyBench.user) \(family.fromBeyond) drop")
    },
    Trouble("40 % of the packets are lost in the router", "packetsLost") { bench, family in
      try bench.filterOutside("numgen random mod 100 < 40 \(family.toBeyond) drop")
    },
    Trouble("nothing beyond the link answers", "nothingAnswers") { bench, family in
      try bench.filterOutside("\(family.toBeyond) drop")
    },
    Trouble("the DNS server is silent", "namesUnresolved") { bench, _ in
      try bench.filterOutside("udp dport 53 drop")
    },
    Trouble("one host is silent", "onlyDestination", hosts: [1]) { bench, family in
      try bench.filterOutside("\(family.to(1)) drop")
    },
    Trouble("one port is silent", "onlyDestination", port: 7000) { bench, _ in
      try bench.filterOutside("tcp dport 7000 drop")
    },
    Trouble("one address family is silent", "onlyDestination", isOfFamily: true) { bench, family in
      try bench.filterOutside("\(family.toBeyond) drop")
    },
    Trouble("packets above 1,300 bytes are lost without a word", "largePacketsLost") { bench, _ in
      try bench.filterOutside("meta length > 1300 drop")
    },
    Trouble("the route is removed", "noPath") { bench, family in
      try bench.lab.namespace.ip("\(family.option) route del default")
    },
  ]

  @Test(
    "Q7 two users talk to several hosts, and a part of the way fails → connctl names the part",
    .enabled(if: Users.areMany, "only one user exists here"),
    arguments: Self.troubles, WhyBench.Family.allCases)
  func verdict(of trouble: Trouble, family: WhyBench.Family) throws {
    let families = trouble.isOfFamily ? WhyBench.Family.allCases : [family]
    // The other port belongs to another service of the same hosts.
    let bench = try WhyBench(families, ports: trouble.port == nil ? [7000] : [7000, 7001])
    try waitUntil("the traffic flows") { try bench.why().verdict == "nothingWrong" }
    try trouble.cause(bench, family)
    let expected = trouble.answer(family)
    var seen: [String] = []
    try bench.wait("\(expected), but \(seen)") { report in
      seen.append(report.answer(hasHosts: trouble.hosts != nil))
      #expect(!report.evidence.isEmpty, "\(report)")
      return seen.last == expected
    }
    let other = trouble.isForAll ? trouble.verdict : "nothingWrong"
    try waitUntil("the other user gets \(other)") {
      try bench.why(as: WhyBench.other).verdict == other
    }
  }

  @Test(
    "Q7 connections are idle → unknown; a question about one host is about its connections",
    .enabled(if: Users.areMany, "only one user exists here"))
  func subjects() throws {
    let bench = try WhyBench([.ipv4], ports: [7000])
    try waitUntil("the traffic flows") { try bench.why().verdict == "nothingWrong" }
    try bench.filterOutside("\(WhyBench.Family.ipv4.to(1)) drop")
    let hosts = WhyBench.Family.ipv4.hosts
    try waitUntil("the host is silent") { try bench.why([hosts[1]]).verdict == "onlyDestination" }
    #expect(try bench.why([hosts[0]]).verdict == "nothingWrong")
    #expect(try bench.why(["203.0.113.99"]).verdict == "unknown")
    // All programs of the traffic have the interpreter's name.
    let process = try #require(bench.talker(of: WhyBench.user))
    #expect(try bench.why(["\(process)"]).verdict == "onlyDestination")
    try bench.endTraffic()
    try waitUntil("no traffic is left") { try bench.why().verdict == "unknown" }
  }

  @Test(
    "Q7 --ask: the router refuses a datagram, or drops it", arguments: WhyBench.Family.allCases)
  func router(family: WhyBench.Family) throws {
    let bench = try WhyBench([family], ports: [7000])
    let answered = try bench.why(["--ask"], inside: true)
    #expect(answered.router == "answers", "\(answered)")
    try bench.filterOutside("udp dport 33434 drop")
    #expect(try bench.why(["--ask"], inside: true).router == "silent")
    // From another network namespace, the router would be another one.
    #expect(try bench.why(["--ask"]).router == nil)
  }

  @Test("Q7 E4 --ask: the peer of an idle connection answers, or is silent")
  func peer() throws {
    let bench = try WhyBench([.ipv4], ports: [7000])
    let host = WhyBench.Family.ipv4.hosts[0]
    let program = try bench.lab.namespace.spawn(
      WhyBench.command(
        [
          "/usr/bin/python3", "-c",
          "import signal, socket; s = socket.create_connection(('\(host)', 7000)); print('open', flush=True); signal.pause()",
        ], as: WhyBench.user))
    try program.line { $0 == "open" }
    let process = "\(program.processIdentifier)"
    try waitUntil("it is idle") { try bench.why([process], inside: true).verdict == "unknown" }
    #expect(try bench.why([process, "--ask"], inside: true).verdict == "nothingWrong")
    try bench.filterOutside("\(WhyBench.Family.ipv4.to(0)) drop")
    try waitUntil("it is idle again") {
      try bench.why([process], inside: true).verdict == "unknown"
    }
    #expect(try bench.why([process, "--ask"], inside: true).verdict != "nothingWrong")
  }

  @Test("D7 a diagnosis ends → no timer is left, and connd sleeps")
  func idle() throws {
    let bench = try WhyBench([.ipv4], ports: [7000])
    _ = try bench.why()
    let connd = try #require(bench.lab.connd)
    try bench.endTraffic()
    let before = try connd.processorTime()
    var pause = pollfd()
    poll(&pause, 0, 1500)
    #expect(try connd.processorTime() - before < .milliseconds(20))
  }
}

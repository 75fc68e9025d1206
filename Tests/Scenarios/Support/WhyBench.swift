import Glibc
import TestKit
import TestTraits
import Testing

/// A host behind a router, the traffic of two users to four hosts, and a host in its own network.
final class WhyBench {
  enum Family: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case ipv4, ipv6

    var testDescription: String { self.rawValue }

    var hosts: [String] {
      (1...4).map { self == .ipv4 ? "203.0.113.\($0)" : "2001:db8:1::\($0)" }
    }
    var nameServer: String { self == .ipv4 ? "203.0.113.53" : "2001:db8:1::53" }
    var neighbour: String { self == .ipv4 ? "10.0.0.9" : "2001:db8:a::9" }
    var option: String { self == .ipv4 ? "-4" : "-6" }
    private var name: String { self == .ipv4 ? "ip" : "ip6" }
    private var beyond: String { self == .ipv4 ? "203.0.113.0/24" : "2001:db8:1::/48" }

    /// Expressions of nft(8) for packets to a host, and to or from all hosts beyond the router.
    func to(_ host: Int) -> String { "\(self.name) daddr \(self.hosts[host])" }
    var toBeyond: String { "\(self.name) daddr \(self.beyond)" }
    var fromBeyond: String { "\(self.name) saddr \(self.beyond)" }
  }

  /// A line of `connctl why --json`.
  struct Report: Decodable {
    var verdict: String
    var hosts: [String]
    var port: UInt32?
    var family: String?
    var evidence: [String]
    var router: String?

    /// The verdict with what it is about: `onlyDestination, hosts 203.0.113.2`.
    func answer(hasHosts: Bool) -> String {
      ([self.verdict] + [self.port.map { "port \($0)" }, self.family].compactMap { $0 }
        + (hasHosts ? ["hosts"] + self.hosts.sorted() : [])).joined(separator: " ")
    }
  }

  static let user: UInt32 = 65_534
  static let other: UInt32 = 65_533

  let lab: Laboratory
  private let families: [Family]
  private var traffic: [RunningCommand] = []
  private var talkers: [UInt32: RunningCommand] = [:]

  init(_ families: [Family], ports: [Int]) throws {
    try TestSize.needsAll("nftables and Python")
    let lab = try Laboratory(ipv6: true)
    (self.lab, self.families) = (lab, families)
    try lab.addLink("eth0", "10.0.0.2", ipv6: "2001:db8:a::2")
    for family in Family.allCases {
      let length = family == .ipv4 ? 32 : 128
      for host in family.hosts + [family.nameServer] {
        try lab.outside.ip("address add \(host)/\(length) dev lo nodad")
      }
      let mask = family == .ipv4 ? 24 : 64
      try lab.outside.ip("address add \(family.neighbour)/\(mask) dev eth0 nodad")
    }
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0")
    try lab.namespace.ip("-6 route add default via 2001:db8:a::1 dev eth0")
    try lab.directory.write("nameserver \(families[0].nameServer)\n", to: "resolv.conf")
    try Command.run(["chmod", "711", lab.directory.path])
    try lab.start(prefix: [
      "unshare", "--mount", "sh", "-c",
      "mount --bind \"$0\"/resolv.conf /etc/resolv.conf && exec \"$@\"", lab.directory.path,
    ])
    let servers = families.map(\.nameServer).joined(separator: ",")
    try self.run(in: lab.outside, ["serve", servers] + ports.map { "\($0)" })
    for user in [Self.user, Self.other] {
      let ends = families.flatMap { family in
        (family.hosts + [family.neighbour]).flatMap { host in
          ports.map { "\(host.contains(":") ? "[\(host)]" : host):\($0)" }
        }
      }
      self.talkers[user] = try self.run(in: lab.namespace, ["talk"] + ends, as: user)
    }
    try self.run(in: lab.namespace, ["names", families[0].nameServer], as: Self.other)
  }

  deinit { for command in self.traffic { command.signal(SIGKILL) } }

  @discardableResult
  private func run(
    in namespace: NetworkNamespace, _ arguments: [String], as user: UInt32? = nil
  ) throws -> RunningCommand {
    let script = [
      "/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/traffic.py"),
    ]
    let command = script + arguments
    let running = try namespace.spawn(user.map { Self.command(command, as: $0) } ?? command)
    self.traffic.append(running)
    try running.line { $0 == "ready" }
    return running
  }

  /// The command that runs these arguments as a user, as in ``Programs/asNobody(_:)``.
  static func command(_ arguments: [String], as user: UInt32) -> [String] {
    Programs.asNobody(arguments).map { $0 == "--reuid=65534" ? "--reuid=\(user)" : $0 }
  }

  /// The process of a user's traffic.
  func talker(of user: UInt32) -> Int32? { self.talkers[user]?.processIdentifier }

  func endTraffic() throws {
    for command in self.traffic {
      command.signal(SIGKILL)
      try command.wait()
    }
  }

  // MARK: - Troubles

  func filterHere(_ hook: String, _ rule: String) throws {
    try self.lab.namespace.nft(
      "table inet t {\nchain \(hook) { type filter hook \(hook) priority 0; \(rule); }\n}\n")
  }

  /// Filters the packets of the host when they arrive outside.
  func filterOutside(_ rule: String) throws {
    try self.lab.outside.nft(
      "table inet t {\nchain c { type filter hook prerouting priority -300; iif eth0 \(rule); }\n}\n"
    )
  }

  // MARK: - Answers

  /// - Parameter inside: Whether connctl runs in the host's network namespace.
  func why(
    _ arguments: [String] = [], as user: UInt32 = WhyBench.user, inside: Bool = false
  ) throws -> Report {
    let command = Self.command(
      [Programs.connctl, "--socket", self.lab.socket, "why", "--json"] + arguments, as: user)
    let outcome = try Command.outcome(
      of: inside ? self.lab.namespace.wrapped(command) : command)
    guard !outcome.output.isEmpty else { throw CommandError("why: \(outcome.standardError)") }
    let report: Report = try decode(outcome.output)
    guard outcome.status == (report.verdict == "nothingWrong" ? 0 : 1) else {
      throw CommandError("why: status \(outcome.status)")
    }
    return report
  }

  /// Asks until an answer is right.
  func wait(_ what: @autoclosure () -> String, _ isRight: (Report) -> Bool) throws {
    let patience = Patience(.seconds(30))
    while !isRight(try self.why()) {
      guard !patience.isOver else { throw CommandError("expected \(what())") }
    }
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Calls to servers by name, with real name servers, when the network changes.
@Suite("Names", .needsNamespaces, .blocking)
struct NamesScenario {
  static let old = "10.0.0.1"
  static let new = "10.1.0.1"

  /// A host with two links, whose name servers know all names.
  struct Bench {
    let bench: CallBench
    let names: NameServers
    let server: CallServer

    /// - Parameter options: the resolver's options while it asks the old server.
    init(server arguments: [String] = [], options: String? = nil) throws {
      self.bench = try CallBench(["eth0", "eth1"], withConnd: false)
      let lab = self.bench.lab
      self.names = try NameServers(
        lab, answer: CallBench.server, [NamesScenario.old: "eth0", NamesScenario.new: "eth1"])
      try self.names.use(NamesScenario.old, options: options)
      try lab.start(prefix: self.names.prefix)
      self.server = try CallServer(lab, arguments)
    }

    func client(_ channels: Int, _ arguments: [String] = []) throws -> CallProbe {
      try self.client(to: (0..<channels).map { "server\($0).test" }, arguments)
    }

    func client(to hosts: [String], _ arguments: [String] = []) throws -> CallProbe {
      try CallProbe(
        self.bench.lab, to: hosts.map { "dns:\($0)" }, ["--backoff", "60"] + arguments,
        prefix: self.names.prefix)
    }

    /// Pulls the cable while calls are open on all channels, and waits for their end. Then starts a
    /// call on each channel, whose lookup hangs.
    func pullCable(_ client: CallProbe, _ channels: Int) throws -> [String] {
      let open = try (0..<channels).map { try client.open($0) }
      let moment = CallProbe.now
      try self.bench.lab.outside.ip("link set eth0 down")
      for calls in open {
        try client.expectEnded(calls, ["interfaceLost"], since: moment, "cable pulled")
      }
      let waiting = try (0..<channels).map { try client.startQuick($0) }
      for channel in 0..<channels {
        try client.next("state") {
          $0.channel == channel && $0.state == "connecting" && $0.at > moment
        }
      }
      return waiting
    }

    /// Returns once this many lookups wait for the old name server.
    func awaitLookups(_ count: Int) throws {
      try waitUntil("\(count) lookups wait") {
        let sockets = try self.bench.lab.namespace.run(
          "ss", "--no-header", "--udp", "--numeric", "dst", "\(NamesScenario.old):53")
        return sockets.split(separator: "\n").count >= count
      }
    }

    /// The number of datagrams that the client's machine rejected: it runs no name server.
    func rejectedQueries() throws -> Int {
      let lines = try self.bench.lab.namespace.run("cat", "/proc/net/snmp").split(separator: "\n")
        .filter { $0.hasPrefix("Udp:") }.map { $0.split(separator: " ") }
      guard let column = lines.first?.firstIndex(of: "NoPorts"), let count = lines.last?[column],
        let count = Int(count)
      else { throw CommandError("no counter of UDP: \(lines)") }
      return count
    }

    /// Does what network managers do after the cable is pulled.
    func leaveCable() throws { try self.bench.lab.namespace.ip("address flush dev eth0") }

    /// Does what network managers do when the lookups hang already.
    ///
    /// - Returns: The moment at which the resolver's file was rewritten.
    func manageNetwork(_ lookups: Int) throws -> UInt64 {
      try self.awaitLookups(lookups)
      try self.leaveCable()
      try self.names.use(NamesScenario.new)
      return CallProbe.now
    }
  }

  @Test(
    "C5 the DNS servers change while a lookup waits for the old ones → the call succeeds",
    arguments: [1, 8])
  func serversReplaced(channels: Int) throws {
    let bench = try Bench()
    let client = try bench.client(channels)
    let calls = try bench.pullCable(client, channels)
    let moment = try bench.manageNetwork(channels)
    for call in calls {
      let end = try client.next("ended", of: call)
      let delay = Duration.nanoseconds(Int64(end.at) - Int64(moment))
      #expect(end.code == "ok", "\(end) \(client.command.standardError)")
      Timings.expect(delay, below: .seconds(1), "call after other DNS servers, of \(channels)")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test("C5 a name does not exist → each call fails, and the error has the name")
  func missing() throws {
    let bench = try Bench()
    let client = try CallProbe(
      bench.bench.lab, to: ["dns:missing.test"], ["--backoff", "60"], prefix: bench.names.prefix)
    for _ in 0..<2 {
      let start = CallProbe.now
      let call = try client.startQuick(0)
      let end = try client.next("ended", of: call)
      #expect(end.code == "unavailable")
      #expect(end.message?.contains("missing.test") == true, "\(end)")
      // No change of the network holds the failure.
      Timings.expect(
        .nanoseconds(Int64(end.at) - Int64(start)), below: .milliseconds(500), "missing name")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test("C5 graceful shutdown while a lookup hangs → the channel ends")
  func shutdown() throws {
    let bench = try Bench()
    let client = try bench.client(1)
    let calls = try bench.pullCable(client, 1)
    try bench.awaitLookups(1)
    let moment = CallProbe.now
    try client.send("shutdown")
    #expect(try client.next("ended", of: calls[0]).code == "unavailable")
    let delay = Duration.nanoseconds(Int64(try client.next("quit").at) - Int64(moment))
    Timings.expect(delay, below: .seconds(1), "graceful shutdown during a lookup")
    #expect(try client.command.wait() == 0)
    try bench.server.end()
  }
}

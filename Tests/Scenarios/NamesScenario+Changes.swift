import TestKit
import Testing

/// Lookups that begin after a change of the network, and those of many channels.
extension NamesScenario {
  /// A number of channels. Their lookups hang when the DNS servers change.
  struct Crowd: CustomTestStringConvertible, Sendable {
    var channels: Int
    /// Whether the channels have the same name.
    var sharesName: Bool
    /// Whether the channels connected before the change, so that the name has last addresses.
    var hasConnected: Bool

    var testDescription: String {
      "\(self.channels) channels to \(self.sharesName ? "one name" : "different names"), "
        + (self.hasConnected ? "connected before" : "new")
    }
  }

  private struct Stats: Decodable { var subscribers: Int }

  @Test(
    "C5 the DNS servers change while the lookups of many channels hang → each call succeeds",
    arguments: [
      Crowd(channels: 60, sharesName: true, hasConnected: true),
      Crowd(channels: 200, sharesName: true, hasConnected: true),
      Crowd(channels: 200, sharesName: false, hasConnected: true),
      Crowd(channels: 200, sharesName: true, hasConnected: false),
      Crowd(channels: 200, sharesName: false, hasConnected: false),
    ])
  func crowd(_ crowd: Crowd) throws {
    // On a busy machine, glibc's ten seconds end before the network has changed.
    let bench = try Bench(options: "timeout:30 attempts:5")
    let channels = 0..<crowd.channels
    let client = try bench.client(
      to: channels.map { crowd.sharesName ? "server.test" : "server\($0).test" }, ["--quiet"])
    if crowd.hasConnected {
      for call in try channels.map({ try client.startQuick($0) }) {
        #expect(try client.next("ended", of: call).code == "ok")
      }
    }
    try bench.bench.lab.outside.ip("link set eth0 down")
    if crowd.hasConnected {
      for channel in channels {
        try client.next("state") { $0.channel == channel && $0.state == "transientFailure" }
      }
    }
    let calls = try channels.map { try client.startQuick($0) }
    // Each channel that resolves its name follows the DNS servers.
    try waitUntil("all channels resolve their names") {
      let stats = try bench.bench.lab.connctl("stats", "--json").output
      return try decode(stats, as: Stats.self).subscribers > crowd.channels
    }
    // Lookups of different names wait for threads, of which 64 are for one network.
    try bench.awaitLookups(crowd.sharesName ? 1 : 60)
    // In the other order, lookups in between fail, which a busy machine notices only after the
    // second for which their failure is held.
    try bench.names.use(Self.new)
    let moment = CallProbe.now
    try bench.leaveCable()
    let ends = try calls.map { try client.next("ended", of: $0) }
    #expect(ends.allSatisfy { $0.code == "ok" }, "\(ends.filter { $0.code != "ok" })")
    let last = ends.map(\.at).max() ?? moment
    Timings.expect(
      .nanoseconds(Int64(last) - Int64(moment)), below: .seconds(1),
      "last of \(crowd.testDescription)")
    try client.quit()
    try bench.server.end()
  }

  /// How the name server of the pulled cable is lost.
  enum LostServer: CaseIterable, Sendable {
    /// Queries to it are not answered.
    case silent
    /// The kernel has no route to it, so lookups fail immediately.
    case unreachable
  }

  @Test(
    "C5 the only name server is lost with the cable → calls reach the name's last addresses",
    arguments: LostServer.allCases)
  func nameServerLost(_ lost: LostServer) throws {
    let bench = try Bench()
    let client = try bench.client(2)
    let open = try client.open(0)
    let moment = CallProbe.now
    try bench.bench.lab.outside.ip("link set eth0 down")
    try client.expectEnded(open, ["interfaceLost"], since: moment, "cable pulled")
    try bench.leaveCable()
    if lost == .unreachable {
      try bench.bench.lab.namespace.ip("route add unreachable \(Self.old)")
    }
    // This name has no last addresses.
    let unknown = try client.startQuick(1)
    for call in try client.startSeries(0, 10, every: .milliseconds(100)) {
      try client.expectSuccess(
        of: call, from: "10.1.0.2", "call, name server \(lost)", goal: .milliseconds(600))
    }
    // The resolver gives up after ten seconds.
    #expect(try client.next("ended", of: unknown).code == "unavailable")
    // Much later, the next connection needs no name server either.
    try bench.server.end()
    let server = try CallServer(bench.bench.lab)
    try client.expectNextCall(
      0, from: "10.1.0.2", "call after a restart of the server", goal: .milliseconds(600))
    try client.quit()
    try server.end()
  }

  @Test("C5 a lookup begins just after a change and fails → the call waits for the DNS servers")
  func noServersYet() throws {
    let bench = try Bench()
    let client = try bench.client(2)
    let open = try client.open(0)
    let moment = CallProbe.now
    try bench.bench.lab.outside.ip("link set eth0 down")
    try client.expectEnded(open, ["interfaceLost"], since: moment, "cable pulled")
    try bench.leaveCable()
    // glibc asks this machine then, on which nothing listens.
    try bench.bench.lab.directory.write("", to: "resolv.conf")
    // These lookups begin after the channel has received the change.
    let calls = try client.startSeries(1, 10, every: .milliseconds(20))
    try waitUntil("a lookup has failed") { try bench.rejectedQueries() > 0 }
    try bench.names.use(Self.new)
    let isInTime = CallProbe.now < moment + 500_000_000
    for call in calls {
      let end = try client.next("ended", of: call)
      // On a busy machine, the DNS servers may come after the second for which the failure is held.
      #expect(end.code == "ok" || !isInTime && end.at > moment + 1_000_000_000, "\(end)")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test("C4 no path exists while a name is looked up → the caller is informed, and then served")
  func waits() throws {
    let bench = try Bench()
    let client = try bench.client(1)
    let open = try client.open(0)
    let moment = CallProbe.now
    for link in ["eth0", "eth1"] { try bench.bench.lab.outside.ip("link set \(link) down") }
    try client.expectEnded(open, ["interfaceLost"], since: moment, "both cables pulled")
    let call = try client.startQuick(0)
    let wait = try client.next("waiting")
    #expect(wait.at > moment)
    #expect(wait.message == "requiresConnection")
    try bench.bench.lab.outside.ip("link set eth0 up")
    try client.expectSuccess(of: call, from: "10.0.0.2", "call after the cable is back")
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "C5 clients are cancelled while they resolve a name or connect → all end, and nothing is left",
    arguments: [false, true])
  func abandoned(isAnswered: Bool) throws {
    let directory = try TemporaryDirectory()
    let (certificate, key) = ("\(directory.path)/certificate.pem", "\(directory.path)/key.pem")
    try Command.run([
      "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
      "-nodes", "-days", "2", "-subj", "/CN=server.test", "-addext",
      "subjectAltName=DNS:server.test", "-keyout", key, "-out", certificate,
    ])
    let bench = try Bench(server: ["--certificate", certificate, "--key", key])
    let names = 8
    let client = try bench.client(names, ["--quiet", "--tls-ca", certificate])
    if !isAnswered { try bench.bench.lab.outside.ip("link set eth0 down") }
    let process = "/proc/\(client.command.processIdentifier)"
    func abandon(_ count: Int) throws {
      for channel in 0..<names {
        try client.send("abandon \(channel) \(count) \(count)-\(channel)")
      }
      for channel in 0..<names {
        try client.next("abandoned", within: .seconds(60)) { $0.channel == channel }
      }
    }
    func descriptors() throws -> Int {
      try Command.run(["ls", "\(process)/fd"]).split(separator: "\n").count
    }
    // The first ones start threads, and connect to connd.
    try abandon(10)
    let before = try descriptors()
    // Its server stops after some 600 calls, because its reports are not read.
    try abandon(50)
    // Equal lookups share a thread. A late change may cause others.
    let lookups = try Command.run(["sh", "-c", "cat \(process)/task/*/comm 2>/dev/null || true"])
      .split(separator: "\n").count { $0 == "connd-lookup" }
    #expect(lookups <= 2 * names)
    let memory = try Command.run(["grep", "VmRSS", "\(process)/status"])
    print("abandoned: \(lookups) lookups, \(memory)")
    // A lookup that hangs keeps its socket.
    try waitUntil("no descriptor is left") { try descriptors() <= before + 4 + 2 * names }
    // Lookups that hang do not delay the exit.
    let moment = CallProbe.now
    try client.quit()
    Timings.expect(
      .nanoseconds(Int64(CallProbe.now) - Int64(moment)), below: .seconds(1), "exit")
    try bench.server.end()
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Troubles of a Wi-Fi or of hosts, and whether connd says that the Wi-Fi limps (Q2, Q3). New
/// channels connect while the trouble lasts.
@Suite("Limping links", .needsNamespaces, .blocking, .serialized)
struct LimpScenario {
  struct Trouble: CustomTestStringConvertible, Sendable {
    var testDescription: String
    /// Whether the link limps. `nil` if it may: a user would notice such a link, too.
    var limps: Bool?
    /// Whether `make test` runs it. `make limps` runs all, each for minutes.
    var isQuick = false
    /// The number of hosts that do not answer.
    var deadHosts = 0
    /// Whether an upload fills the queue.
    var hasUpload = false
    var cause: @Sendable (OtherWayBench) throws -> Void

    init(
      _ name: String, limps: Bool? = false, isQuick: Bool = false, deadHosts: Int = 0,
      hasUpload: Bool = false,
      _ cause: @escaping @Sendable (OtherWayBench) throws -> Void = { _ in }
    ) {
      (self.testDescription, self.limps, self.isQuick) = (name, limps, isQuick)
      (self.deadHosts, self.hasUpload, self.cause) = (deadHosts, hasUpload, cause)
    }
  }

  private static let hosts = [
    OtherWayBench.server, OtherWayBench.secondServer, OtherWayBench.thirdServer,
  ]

  private static let troubles = [
    Trouble("good"),
    Trouble("loss 1 %") { $0.wifi.lose(0.01) },
    Trouble("loss 3 %", isQuick: true) { $0.wifi.lose(0.03) },
    Trouble("loss 10 %", limps: nil) { $0.wifi.lose(0.1) },
    Trouble("loss 30 %", limps: nil) { $0.wifi.lose(0.3) },
    Trouble("loss 60 %", limps: true, isQuick: true) { $0.wifi.lose(0.6) },
    Trouble("loss 100 %", limps: true) { $0.wifi.lose(1) },
    Trouble("round trip 0.4 s") { $0.wifi.delay(.milliseconds(200)) },
    Trouble("round trip 1 s", isQuick: true) { $0.wifi.delay(.milliseconds(500)) },
    // The second SYN is sent before the answer to the first one arrives.
    Trouble("round trip 1.2 s beside a fast link", isQuick: true) {
      $0.wifi.delay(.milliseconds(600))
      $0.cable.delay(.milliseconds(1))
    },
    Trouble("full queue", isQuick: true, hasUpload: true) {
      $0.wifi.limit(bitsPerSecond: 2_000_000, queue: 100_000)
    },
    Trouble("256 kbit/s") { $0.wifi.limit(bitsPerSecond: 256_000, queue: 20_000) },
    Trouble("64 kbit/s", limps: nil) { $0.wifi.limit(bitsPerSecond: 64_000, queue: 20_000) },
    Trouble("all hosts dead", deadHosts: 3),
    Trouble("one of three hosts dead", isQuick: true, deadHosts: 1),
    Trouble("slow server", isQuick: true) { $0.server.signal(SIGSTOP) },
    Trouble("one host reached only by the other link", isQuick: true) { bench in
      let outside = bench.lab.outside
      try outside.ip("rule add pref 1 lookup local")
      try outside.ip("rule del pref 0")
      try outside.ip("rule add pref 0 iif wlan0 to \(Self.hosts[0]) blackhole")
    },
  ]

  /// The seconds for which each trouble lasts, with `make limps`.
  private static let seconds = getenv("CONND_LIMPS").flatMap { Int(String(cString: $0)) }

  /// The number of channels that connect at a time.
  private static let channels = 9

  private func bench(_ trouble: Trouble) throws -> OtherWayBench {
    let bench = try OtherWayBench()
    for host in Self.hosts[1...] { try bench.lab.outside.ip("address add \(host)/32 dev lo") }
    for host in Self.hosts.suffix(trouble.deadHosts) {
      try bench.lab.outside.ip("address del \(host)/32 dev lo")
    }
    return bench
  }

  /// The quality of the default path for the traffic of this process's user, or of another one.
  private func quality(
    _ bench: OtherWayBench, as other: ([String]) -> [String] = { $0 }
  ) throws -> String? {
    let command = [
      Programs.connctl, "--socket", bench.lab.socket, "path", "--json", OtherWayBench.server,
    ]
    let outcome = try Command.outcome(of: bench.lab.namespace.wrapped(other(command)))
    return (try decode(outcome.output) as PathReport).quality
  }

  private func client(
    _ bench: OtherWayBench, channels: Int, prefix: [String] = []
  ) throws -> CallProbe {
    let targets = (0..<channels).map { "\(Self.hosts[$0 % Self.hosts.count]):\(CallServer.port)" }
    return try CallProbe(bench.lab, to: targets, ["--quiet"], prefix: prefix)
  }

  @Test(
    "Q2 each trouble of a link or a host → the link limps, or it does not",
    arguments: Self.troubles.filter { Self.seconds != nil || $0.isQuick })
  func decided(_ trouble: Trouble) throws {
    let bench = try self.bench(trouble)
    var upload: RunningCommand?
    var echoes: EchoServer?
    if trouble.hasUpload {
      echoes = try EchoServer(bench.lab)
      upload = try bench.lab.namespace.spawn([
        "bash", "-c", "cat /dev/zero >/dev/tcp/\(OtherWayBench.server)/\(EchoServer.port)",
      ])
    }
    try trouble.cause(bench)
    if trouble.limps == true {
      try self.expectLimp(bench)
    } else {
      // A client may report a contrast a moment after its calls, so it stays for another round.
      var former = try self.connect(bench, trouble)
      let end = ContinuousClock.now + .seconds(trouble.limps == nil ? 0 : Self.seconds ?? 0)
      repeat {
        let client = try self.connect(bench, trouble)
        let quality = try self.quality(bench)
        if trouble.limps == false { #expect(quality != "minimal") }
        print("\(trouble.testDescription): \(quality ?? "unknown")")
        try former.quit()
        former = client
      } while ContinuousClock.now < end
      try former.quit()
    }
    upload?.signal(SIGKILL)
    try upload?.wait()
    try echoes?.end()
    bench.server.signal(SIGCONT)
    try bench.server.end()
  }

  /// Makes new connections, one after the other, until the link limps.
  private func expectLimp(_ bench: OtherWayBench) throws {
    let client = try self.client(bench, channels: 12)
    var attempts = 0
    while try self.quality(bench) != "minimal" {
      guard attempts < 12 else {
        Issue.record("the link does not limp after \(attempts) attempts")
        break
      }
      try client.expectNextCall(attempts, "attempt \(attempts)", within: .seconds(30))
      attempts += 1
    }
    print("the link limps after \(attempts) attempts")
    try client.quit()
  }

  /// Makes new connections until those to living hosts have ended, and the others have sent several
  /// SYNs on both links.
  private func connect(_ bench: OtherWayBench, _ trouble: Trouble) throws -> CallProbe {
    let client = try self.client(bench, channels: Self.channels)
    let before = (bench.wifi.sentBytes, bench.cable.sentBytes)
    let calls = try (0..<Self.channels).map { try client.startQuick($0) }
    let dead = Set(Self.hosts.suffix(trouble.deadHosts))
    for (channel, call) in calls.enumerated() {
      if trouble.testDescription == "slow server" { break }
      guard !dead.contains(Self.hosts[channel % Self.hosts.count]) else { continue }
      try client.next("ended", of: call, within: .seconds(60))
      try bench.server.read(1)
    }
    if !dead.isEmpty || trouble.testDescription == "slow server" {
      // The other way begins after a second, and is not ready either.
      try waitUntil("both ways are tried") {
        bench.wifi.sentBytes >= before.0 + 600 && bench.cable.sentBytes >= before.1 + 600
      }
    }
    return client
  }

  @Test("Q3 one user's races are lost → the link limps for that user, and not for others")
  func ofOthers() throws {
    let bench = try self.bench(Trouble(""))
    let client = try self.client(bench, channels: 3, prefix: Programs.asNobody([]))
    bench.wifi.lose(1)
    for channel in 0..<3 {
      try client.expectNextCall(
        channel, from: OtherWayBench.byCable, "call \(channel)", goal: .seconds(3))
    }
    try waitUntil("the link limps for the user") {
      try self.quality(bench, as: Programs.asNobody) == "minimal"
    }
    #expect(try self.quality(bench) == nil)
    try client.quit()
    try bench.server.end()
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Calls that begin before or after a connection's peer falls silent, and before the stall is known
/// (W4, W8).
@Suite("Calls in a silence", .needsNamespaces, .blocking, .serialized)
struct StallScenario {
  /// The number of channels with the full bed. `make stalls` sets it.
  private static let channels = getenv("CONND_STALLS").flatMap { Int(String(cString: $0)) }

  /// Returns a client with an answered call on the Wi-Fi, and with a second call. The Wi-Fi loses
  /// all packets of the second call.
  private func fail(
    _ bench: OtherWayBench, _ arguments: [String] = [], withCable: Bool = true
  ) throws -> (CallProbe, call: String) {
    let client = try bench.client(arguments)
    try bench.callByWiFi(client)
    if !withCable { bench.cable.lose(1) }
    bench.wifi.lose(1)
    return (client, try client.startQuick(0))
  }

  @Test("W4 a call begins after the first timeout → it is answered by the cable")
  func holds() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, ["--recovery", "never"])
    try waitUntil("the first timeout has passed") {
      try bench.timeouts(from: OtherWayBench.byWiFi) > 0
    }
    try client.expectNextCall(
      0, from: OtherWayBench.byCable, "call after a timeout", goal: .milliseconds(1400))
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 a call begins after the first timeout, and the Wi-Fi recovers → the call uses Wi-Fi")
  func released() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, withCable: false)
    try waitUntil("the first timeout has passed") {
      try bench.timeouts(from: OtherWayBench.byWiFi) > 0
    }
    let waiting = try client.startQuick(0)
    bench.wifi.lose(0)
    for call in [hanging, waiting] {
      try client.expectSuccess(of: call, from: OtherWayBench.byWiFi, "call on the Wi-Fi")
    }
    try client.quit()
    try bench.server.end()
  }

  /// A trouble of a link or server that carries all calls.
  struct Trouble: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var hasUpload = false
    var begin: @Sendable (OtherWayBench) -> Void

    init(
      _ name: String, hasUpload: Bool = false, _ begin: @escaping @Sendable (OtherWayBench) -> Void
    ) {
      (self.testDescription, self.hasUpload, self.begin) = (name, hasUpload, begin)
    }
  }

  private static let troubles = [
    Trouble("loss 3 %") { $0.wifi.lose(oneOf: 33) },
    Trouble("round trip 1 s") { $0.wifi.delay(.milliseconds(500)) },
    Trouble("full queue", hasUpload: true) {
      $0.wifi.limit(bitsPerSecond: 2_000_000, queue: 100_000)
    },
    Trouble("slow server") { $0.server.signal(SIGSTOP) },
  ]

  @Test(
    "W4 W8 the trouble is not a dead link → nothing leaves by the cable",
    arguments: Self.troubles)
  func falseAlarms(_ trouble: Trouble) throws {
    let bench = try OtherWayBench()
    let client = try bench.client()
    try bench.callByWiFi(client)
    let echoes = trouble.hasUpload ? try EchoServer(bench.lab) : nil
    let upload = try echoes.map { _ in
      try bench.lab.namespace.spawn([
        "bash", "-c", "cat /dev/zero >/dev/tcp/\(OtherWayBench.server)/\(EchoServer.port)",
      ])
    }
    let before = bench.cable.sentBytes
    trouble.begin(bench)
    // Three seconds, or a minute with the full bed.
    let calls = try client.startSeries(
      0, Self.channels == nil ? 12 : 240, every: .milliseconds(250))
    for call in calls { try client.next("started", of: call, within: .seconds(90)) }
    bench.server.signal(SIGCONT)
    for call in calls {
      let end = try client.next("ended", of: call)
      #expect(end.code == "ok", "\(end)")
    }
    // On a busy machine, an answer may come a quarter of a second later than after the round trip.
    if Self.channels != nil || trouble.testDescription != "round trip 1 s" {
      #expect(bench.cable.sentBytes == before)
    }
    upload?.signal(SIGKILL)
    try upload?.wait()
    try echoes?.end()
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 a single call stalls → the channel connects by the cable without another call")
  func alone() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, ["--recovery", "never"])
    try waitUntil("a connection by the cable exists") {
      try bench.connections(from: OtherWayBench.byCable) > 0
    }
    try client.expectNextCall(0, from: OtherWayBench.byCable, "next call")
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W8 the cable reaches the server of a stalled connection → its call ends while the loss lasts",
    arguments: ["always", "exceptStreams"])
  func ends(recovery: String) throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, ["--recovery", recovery])
    let end = try client.next("ended", of: hanging, within: .seconds(60))
    #expect(end.code == "unavailable" && end.reason == "silent", "\(end)")
    print("a call on the stalled connection: \(end.message ?? "")")
    try client.expectNextCall(0, from: OtherWayBench.byCable, "the same call again")
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W8 the channel keeps its calls, or its streams → they go on after the loss",
    arguments: [("never", false), ("exceptStreams", true)])
  func goesOn(recovery: String, hasStreams: Bool) throws {
    let bench = try OtherWayBench()
    let client = try bench.client(["--recovery", recovery])
    try bench.callByWiFi(client)
    let open = hasStreams ? try client.open(0) : nil
    bench.wifi.lose(1)
    let hanging = try client.startQuick(0)
    // The fifth timeout occurs after seven seconds, and the cable's connection is in use.
    try waitUntil("calls could end", within: .seconds(60)) {
      try bench.timeouts(from: OtherWayBench.byWiFi) >= 5
    }
    try client.expectNextCall(0, from: OtherWayBench.byCable, "next call")
    #expect(try !client.haveEnded([hanging]))
    if let open { try client.expectOpen(open) }
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    if let open { try client.expectUndisturbed(open) }
    try client.quit()
    try bench.server.end()
  }

  @Test("W8 no other link reaches the server → the call goes on, however long it waits")
  func noContrast() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, withCable: false)
    try waitUntil("calls could end", within: .seconds(60)) {
      try bench.timeouts(from: OtherWayBench.byWiFi) >= 5
    }
    #expect(try !client.haveEnded([hanging]))
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 W8 the cable returns after an attempt has failed → the running call ends")
  func cableReturns() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench, ["--recovery", "always"], withCable: false)
    // An attempt has 20 s.
    try waitUntil("an attempt has failed", within: .seconds(60)) {
      client.command.standardError.contains("could not connect")
    }
    bench.cable.lose(0)
    let end = try client.next("ended", of: hanging, within: .seconds(60))
    #expect(end.code == "unavailable" && end.reason == "silent", "\(end)")
    try client.expectNextCall(0, from: OtherWayBench.byCable, "the same call again")
    try client.quit()
    try bench.server.end()
  }

  // MARK: The bed

  /// The outcome of one call.
  private struct Outcome {
    var duration: Duration
    /// The local address of its connection, or its error.
    var place: String
  }

  @Test(
    "W4 W8 calls begin at any time after the loss → no call waits until the loss ends",
    arguments: [1.0, 0.6], [250, 500, 1000, 1300, 2000])
  func bed(loss: Double, gap: Int) throws {
    if gap > 250, Self.channels == nil { return }
    let (channels, count) = (Self.channels ?? 3, gap == 250 ? 20 : 2)
    let bench = try OtherWayBench()
    let client = try bench.client(["--quiet"], channels: channels)
    try bench.callByWiFi(client, channels: channels)
    let before = (wifi: bench.wifi.sentBytes, cable: bench.cable.sentBytes)
    bench.wifi.lose(loss)
    let series = try (0..<channels).map {
      try client.startSeries($0, count, every: .milliseconds(gap))
    }
    if loss < 1 {
      // Another connection on the Wi-Fi may win the race, which shows no contrast.
      try? waitUntil("all calls have ended", within: .seconds(20)) {
        try client.haveEnded(series.flatMap(\.self))
      }
      bench.wifi.lose(0)
    }
    for number in 0..<count {
      let outcomes = try series.map { try self.outcome(of: $0[number], client) }
      Self.report("loss \(loss), call after \(Double(number * gap) / 1000) s", outcomes)
      if loss == 1 {
        // A busy machine may have sent nothing before the next calls began.
        #expect(outcomes.allSatisfy { $0.place == "cable" || $0.place == "silent" })
        if number == 19 { #expect(outcomes.allSatisfy { $0.place == "cable" }) }
      }
      guard loss == 1, number * gap >= 500 else { continue }
      let slowest = outcomes.map(\.duration).max() ?? .zero
      Timings.expect(slowest, below: .milliseconds(1400), "slowest call at loss \(loss)")
    }
    let (wifi, cable) = (bench.wifi.sentBytes - before.wifi, bench.cable.sentBytes - before.cable)
    print("loss \(loss), gap \(gap) ms: \(wifi) B by the Wi-Fi, \(cable) B by the cable")
    try client.quit()
    try bench.server.end()
  }

  private func outcome(of call: String, _ client: CallProbe) throws -> Outcome {
    let start = try client.next("started", of: call)
    let end = try client.next("ended", of: call, within: .seconds(60))
    let duration = Duration.nanoseconds(Int64(end.at) - Int64(start.at))
    guard end.code == "ok" else {
      return Outcome(duration: duration, place: end.reason ?? end.code ?? "")
    }
    let local = try client.next("open", of: call).local ?? ""
    let isByCable = local.hasPrefix("ipv4:\(OtherWayBench.byCable):")
    return Outcome(duration: duration, place: isByCable ? "cable" : "Wi-Fi")
  }

  private static func report(_ what: String, _ outcomes: [Outcome]) {
    let places = Dictionary(grouping: outcomes, by: \.place).map { "\($0) \($1.count)" }.sorted()
    let times = outcomes.map(\.duration).sorted().map { Int($0 / .milliseconds(1)) }
    let slow = times.count { $0 > 1400 }
    print(
      "\(what): \(places.joined(separator: ", ")); p50 \(times[times.count / 2]) ms, "
        + "worst \(times.last ?? 0) ms, \(slow) of \(times.count) above 1400 ms")
  }
}

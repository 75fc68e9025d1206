import Glibc
import TestKit
import TestTraits
import Testing

/// Calls over a Wi-Fi that loses packets, while a cable leads to the same internet (W1 to W7).
@Suite("The other way", .needsNamespaces, .blocking, .serialized)
struct OtherWayScenario {
  /// The arguments of a client that never ends the calls on a stalled connection (W8).
  private static let keeping = ["--recovery", "never"]

  @Test(
    "W3 the Wi-Fi loses much from the start → the first call is answered by the cable",
    arguments: [0.6, 1.0])
  func first(loss: Double) throws {
    let bench = try OtherWayBench()
    let client = try bench.client()
    bench.wifi.lose(loss)
    try client.expectNextCall(
      0, from: loss == 1 ? OtherWayBench.byCable : nil, "first call at loss \(loss)",
      goal: .milliseconds(1600))
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W1 W2 W4 the Wi-Fi fails under a call → the next call is answered by the cable, and the first goes on"
  )
  func second() throws {
    let bench = try OtherWayBench()
    let client = try bench.client(Self.keeping)
    try bench.callByWiFi(client)
    let open = try client.open(0)
    let before = bench.cable.sentBytes
    bench.wifi.lose(1)
    let hanging = try client.startQuick(0)
    // The user waits, and asks again.
    try client.awaitStall(of: [hanging])
    try client.expectNextCall(
      0, from: OtherWayBench.byCable, "second call", goal: .milliseconds(1400))
    print("second call: \(bench.cable.sentBytes - before) B by the cable")
    bench.wifi.lose(0)
    // The running calls end as they would have without the second connection.
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.expectUndisturbed(open)
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 the Wi-Fi loses 60 % under calls → the next calls are answered, and some by the cable")
  func many() throws {
    let bench = try OtherWayBench()
    let count = 40
    let client = try bench.client(Self.keeping, channels: count)
    try bench.callByWiFi(client, channels: count)
    bench.wifi.lose(0.6)
    let first = try (0..<count).map { try client.startQuick($0) }
    // About half of them stall. The others end, or wait for an answer that was lost.
    try waitUntil("a fifth of the calls stall") { client.stalledChannels.count >= count / 5 }
    let second = try client.stalledChannels.sorted().map { try client.startQuick($0) }
    let start = CallProbe.now
    var times: [Duration] = []
    var byCable = 0
    for number in second.indices {
      // Half of the calls end although the Wi-Fi still loses packets.
      if number == second.count / 2 { bench.wifi.lose(0) }
      let end = try client.next("ended", within: .seconds(60)) { second.contains($0.id ?? "") }
      #expect(end.code == "ok", "\(end)")
      guard end.code == "ok" else { continue }
      times.append(.nanoseconds(Int64(end.at) - Int64(start)))
      let open = try client.next("open", of: end.id)
      if open.local?.hasPrefix("ipv4:\(OtherWayBench.byCable):") == true { byCable += 1 }
    }
    #expect(byCable > 0)
    times.sort()
    let median = try #require(times.dropFirst(times.count / 2).first)
    Timings.expect(median, below: .milliseconds(1400), "second calls at loss 0.6, p50")
    print("\(times.count) second calls, \(byCable) by the cable, worst: \(times.last ?? .zero)")
    for call in first {
      #expect(try client.next("ended", of: call, within: .seconds(60)).code == "ok")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W3 W4 the Wi-Fi loses up to 3 % → nothing leaves by the cable", arguments: [0, 100, 33])
  func good(period: Int) throws {
    let bench = try OtherWayBench()
    bench.wifi.lose(oneOf: period)
    for _ in 0..<8 {
      let client = try bench.client()
      for _ in 0..<10 { try client.expectNextCall(0, "call beside losses") }
      try client.quit()
    }
    #expect(bench.cable.sentBytes == 0)
    try bench.server.end()
  }

  @Test("W7 the Wi-Fi is well again → calls are back on it")
  func back() throws {
    let bench = try OtherWayBench()
    let client = try bench.client(Self.keeping)
    try bench.callByWiFi(client)
    bench.wifi.lose(1)
    let hanging = try client.startQuick(0)
    try client.awaitStall(of: [hanging])
    try client.expectNextCall(0, from: OtherWayBench.byCable, "call by the cable")
    // The last call is answered after the first packet of a trial was lost.
    var isTrying = false
    while !isTrying {
      isTrying = client.command.standardError.contains("trying the default network again")
      try client.expectNextCall(0, from: OtherWayBench.byCable, "call by the cable")
    }
    bench.wifi.lose(0)
    let well = CallProbe.now
    try waitUntil("calls are back on the Wi-Fi") {
      let id = try client.startQuick(0)
      let open = try client.next("open", of: id)
      #expect(try client.next("ended", of: id).code == "ok")
      return open.local?.hasPrefix("ipv4:\(OtherWayBench.byWiFi):") == true
    }
    let delay = Duration.nanoseconds(Int64(CallProbe.now - well))
    Timings.expect(delay, below: .seconds(2), "back on the Wi-Fi")
    try client.expectSuccess(of: hanging, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test("Q2 W3 races are lost to two hosts → the next channel's first call goes by the cable")
  func limp() throws {
    let bench = try OtherWayBench()
    try bench.lab.outside.ip("address add \(OtherWayBench.secondServer)/32 dev lo")
    let targets = [OtherWayBench.server, OtherWayBench.secondServer].map {
      "\($0):\(CallServer.port)"
    }
    let client = try CallProbe(bench.lab, to: [targets[0], targets[1], targets[0], targets[1]])
    bench.wifi.lose(1)
    for channel in 0..<3 {
      try client.expectNextCall(
        channel, from: OtherWayBench.byCable, "call \(channel)", goal: .seconds(2))
    }
    try waitUntil("the Wi-Fi limps") {
      let path: PathReport = try decode(
        try bench.lab.namespace.run(
          Programs.connctl, "--socket", bench.lab.socket, "path", "--json", OtherWayBench.server))
      return path.quality == "minimal"
    }
    try client.expectNextCall(
      3, from: OtherWayBench.byCable, "call in a limp", goal: .milliseconds(400))
    let words = try bench.lab.connctl("explain", OtherWayBench.server)
    #expect(
      words.output.contains("races were won by another link"), "\(words)")
    try client.quit()
    try bench.server.end()
  }

  @Test("W5 connctl path --via shows the path of traffic bound to a link, and the kernel agrees")
  func via() throws {
    let bench = try OtherWayBench()
    for (link, number) in [("wlan0", 0), ("eth1", 1)] {
      let outcome = try bench.lab.namespace.run(
        Programs.connctl, "--socket", bench.lab.socket, "path", "--json", "--via", link,
        OtherWayBench.server
      )
      let path: PathReport = try decode(outcome)
      #expect(path.interface == link && path.gateway == "10.\(number).0.1", "\(outcome)")
    }
    let missing = try bench.lab.connctl("path", "--via", "eth7", OtherWayBench.server)
    #expect(missing.standardError.contains("via: there is no link 'eth7'"), "\(missing)")
    try bench.server.end()
  }

  @Test(
    "W5 W6 an application that connects itself asks for the other way → it connects by the cable",
    arguments: ["handler", "socket"])
  func byApplication(kind: String) throws {
    let bench = try OtherWayBench()
    let server = try EchoServer(bench.lab)
    let client = try server.client(to: OtherWayBench.server, ["--by", kind])
    bench.wifi.lose(1)
    try client.send("other 1")
    try client.next("open", of: "1")
    try client.next("path", of: "1") { $0.message == "eth1" }
    try client.expectEcho(1)
    let outcome = try bench.lab.connctl("metered", "eth1", "on")
    #expect(outcome.status == 0, "\(outcome)")
    try client.send("other 2")
    let refusal = try client.next("refused", of: "2")
    #expect(refusal.reason == "expensive", "\(refusal)")
    try client.quit()
    try server.end()
    try bench.server.end()
  }

  /// The number of rounds of the race test. `make races` runs enough for 10,000 races.
  private static let rounds = getenv("CONND_RACES").flatMap { Int(String(cString: $0)) } ?? 4

  @Test(
    "W2 W8 hundreds of races with random loss → every call succeeds or ends, and none arrives twice",
    arguments: ["never", "always"])
  func races(recovery: String) throws {
    let bench = try OtherWayBench()
    let (channels, losses) = (50, [0.3, 0.6, 0.8, 0.5])
    for round in 0..<Self.rounds {
      let loss = losses[round % losses.count]
      let client = try bench.client(["--recovery", recovery], channels: channels)
      bench.wifi.lose(loss)
      let calls = try (0..<channels).map { try client.startQuick($0) }
      var (byCable, ended) = (0, 0)
      for number in calls.indices {
        // The others may wait for the Wi-Fi.
        if number == channels / 2 { bench.wifi.lose(0) }
        let end = try client.next("ended", within: .seconds(60))
        let mayFail = recovery == "always" && end.reason == "silent"
        #expect(end.code == "ok" || mayFail, "\(end)")
        guard end.code == "ok" else {
          ended += 1
          continue
        }
        let open = try client.next("open", of: end.id)
        if open.local?.hasPrefix("ipv4:\(OtherWayBench.byCable):") == true { byCable += 1 }
      }
      // A call that ended may have reached the server, or not.
      try bench.server.read(channels - ended)
      print("\(channels) races at loss \(loss): \(byCable) won by the cable, \(ended) ended")
      try client.quit()
    }
    try bench.server.end()
  }
}

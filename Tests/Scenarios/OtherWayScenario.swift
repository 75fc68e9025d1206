import Glibc
import TestKit
import Testing

/// Calls over a Wi-Fi that loses packets, while a cable leads to the same internet (W1 to W7).
@Suite("The other way", .needsNamespaces, .laboratory, .serialized)
struct OtherWayScenario {
  /// A global address, which no host outside of the laboratory ever sees.
  private static let server = "93.184.215.14"
  private static let byWiFi = "10.0.0.2"
  private static let byCable = "10.1.0.2"

  /// The microseconds after which a user repeats a call. A connection is examined after a second,
  /// but two timeouts take longer on a busy machine (W4).
  private static let patience: UInt32 = 2_000_000
  /// The bytes of a SYN.
  private static let packet = 60

  /// A host on a Wi-Fi with a round trip of 20 ms. A cable of 60 ms has a default route, too.
  private struct Bench {
    let lab: Laboratory
    let wifi: LossyLink
    let cable: LossyLink
    let server: CallServer

    init(
      configuration: String = "", wifi: String = "wlan0", cable: String = "eth1",
      prepare: (NetworkNamespace) throws -> Void = { _ in }
    ) throws {
      let lab = try Laboratory(configuration: Uplinks.media + configuration)
      self.lab = lab
      try lab.outside.ip("address add \(OtherWayScenario.server)/32 dev lo")
      try lab.namespace.set("net/ipv4/conf/all/rp_filter", "2")
      self.wifi = try LossyLink(wifi, 0, in: lab, delay: .milliseconds(10))
      self.cable = try LossyLink(cable, 1, in: lab, delay: .milliseconds(30))
      for (number, link) in [wifi, cable].enumerated() {
        try lab.namespace.ip(
          "route add default via 10.\(number).0.1 dev \(link) metric \(600 + 100 * number)")
      }
      try prepare(lab.namespace)
      try lab.start()
      self.server = try CallServer(lab)
    }

    func client(_ arguments: [String] = [], channels: Int = 1) throws -> CallProbe {
      let target = "\(OtherWayScenario.server):\(CallServer.port)"
      return try CallProbe(
        self.lab, to: Array(repeating: target, count: channels), arguments)
    }
  }

  @Test(
    "W3 the Wi-Fi loses much from the start → the first call is answered by the cable",
    arguments: [0.6, 1.0])
  func first(loss: Double) throws {
    let bench = try Bench()
    let client = try bench.client()
    bench.wifi.lose(loss)
    try client.expectNextCall(
      0, from: loss == 1 ? Self.byCable : nil, "first call at loss \(loss)",
      within: .milliseconds(1600))
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W1 W2 W4 the Wi-Fi fails under a call → the next call is answered by the cable, and the first goes on"
  )
  func second() throws {
    let bench = try Bench()
    let client = try bench.client()
    try client.expectNextCall(0, from: Self.byWiFi, "call on a good Wi-Fi")
    let open = try client.open(0)
    #expect(bench.cable.sentBytes == 0)
    bench.wifi.lose(1)
    let hanging = try client.startQuick(0)
    // The user waits, and asks again.
    usleep(Self.patience)
    let time = try client.expectNextCall(
      0, from: Self.byCable, "second call", within: .milliseconds(1400))
    print("second call: \(time), \(bench.cable.sentBytes) B by the cable")
    bench.wifi.lose(0)
    // The running calls end as they would have without the second connection.
    try client.expectSuccess(of: hanging, from: Self.byWiFi, "first call", within: .seconds(60))
    try client.expectUndisturbed(open)
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 the Wi-Fi loses 60 % under calls → half of the next calls are answered within 2 s")
  func many() throws {
    let bench = try Bench()
    let count = 40
    let client = try bench.client(channels: count)
    for channel in 0..<count { try client.expectNextCall(channel, "call on a good Wi-Fi") }
    bench.wifi.lose(0.6)
    let first = try (0..<count).map { try client.startQuick($0) }
    usleep(Self.patience)
    let second = try (0..<count).map { try client.startQuick($0) }
    let start = CallProbe.now
    var times: [Duration] = []
    for number in 0..<count {
      // Half of the calls end although the Wi-Fi still loses packets.
      if number == count / 2 { bench.wifi.lose(0) }
      let end = try client.next("ended", within: .seconds(60)) { second.contains($0.id ?? "") }
      #expect(end.code == "ok", "\(end)")
      times.append(.nanoseconds(Int64(end.at) - Int64(start)))
    }
    times.sort()
    let quantiles = [count / 2, count * 9 / 10, count - 1].map { "\(times[$0])" }
    print("second calls at loss 0.6, p50, p90 and worst: \(quantiles)")
    #expect(times[count / 2] < .seconds(2))
    for call in first {
      #expect(try client.next("ended", of: call, within: .seconds(60)).code == "ok")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test(
    "W3 W4 the Wi-Fi loses up to 3 % → nothing leaves by the cable", arguments: [0, 0.01, 0.03])
  func good(loss: Double) throws {
    let bench = try Bench()
    bench.wifi.lose(loss)
    for _ in 0..<8 {
      let client = try bench.client()
      for _ in 0..<10 { try client.expectNextCall(0, "call at loss \(loss)") }
      try client.quit()
    }
    #expect(bench.cable.sentBytes == 0)
    try bench.server.end()
  }

  @Test("W7 the Wi-Fi is well again → calls are back on it within two seconds")
  func back() throws {
    let bench = try Bench()
    let client = try bench.client()
    try client.expectNextCall(0, from: Self.byWiFi, "call on a good Wi-Fi")
    bench.wifi.lose(1)
    let hanging = try client.startQuick(0)
    usleep(Self.patience)
    try client.expectNextCall(0, from: Self.byCable, "call by the cable")
    // Long enough for a trial of the default way that fails.
    for _ in 0..<15 {
      usleep(500_000)
      try client.expectNextCall(0, from: Self.byCable, "call by the cable")
    }
    bench.wifi.lose(0)
    let well = CallProbe.now
    while true {
      let id = try client.startQuick(0)
      let open = try client.next("open", of: id)
      #expect(try client.next("ended", of: id).code == "ok")
      if open.local?.hasPrefix("ipv4:\(Self.byWiFi):") == true { break }
      guard CallProbe.now - well < 10_000_000_000 else { break }
    }
    let delay = Duration.nanoseconds(Int64(CallProbe.now - well))
    print("back on the Wi-Fi after \(delay)")
    #expect(delay < .seconds(2))
    try client.expectSuccess(of: hanging, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test("W5 connctl path --via shows the path of traffic bound to a link, and the kernel agrees")
  func via() throws {
    let bench = try Bench()
    for (link, number) in [("wlan0", 0), ("eth1", 1)] {
      let outcome = try bench.lab.namespace.run(
        Programs.connctl, "--socket", bench.lab.socket, "path", "--json", "--via", link, Self.server
      )
      let path: PathReport = try decode(outcome)
      #expect(path.interface == link && path.gateway == "10.\(number).0.1", "\(outcome)")
    }
    let missing = try bench.lab.connctl("path", "--via", "eth7", Self.server)
    #expect(missing.standardError.contains("via: there is no link 'eth7'"), "\(missing)")
    try bench.server.end()
  }

  /// The number of rounds of the race test. `make races` runs enough for 10,000 races.
  private static let rounds = getenv("CONND_RACES").flatMap { Int(String(cString: $0)) } ?? 4

  @Test("W2 hundreds of races with random loss → every call succeeds, and none arrives twice")
  func races() throws {
    let bench = try Bench()
    let (channels, losses) = (50, [0.3, 0.6, 0.8, 0.5])
    for round in 0..<Self.rounds {
      let loss = losses[round % losses.count]
      let client = try bench.client(channels: channels)
      bench.wifi.lose(loss)
      let calls = try (0..<channels).map { try client.startQuick($0) }
      var byCable = 0
      for number in calls.indices {
        // The others may wait for the Wi-Fi.
        if number == channels / 2 { bench.wifi.lose(0) }
        let end = try client.next("ended", within: .seconds(60))
        #expect(end.code == "ok", "\(end)")
        guard end.code == "ok" else { continue }
        let open = try client.next("open", of: end.id)
        if open.local?.hasPrefix("ipv4:\(Self.byCable):") == true { byCable += 1 }
      }
      print("\(channels) races at loss \(loss): \(byCable) won by the cable")
      try client.quit()
    }
    try bench.server.end()
  }

  // MARK: - Never by the other way

  private static let obstacles:
    [(
      name: String, configuration: String, cable: String, arguments: [String], setup: [String],
      filter: Int
    )] = [
      ("assist never", "", "eth1", ["--assist", "never"], [], 2),
      ("a bound channel", "", "eth1", ["--interface", "wlan0"], [], 2),
      ("a marked channel", "", "eth1", ["--mark", "7"], [], 2),
      ("a host route", "", "eth1", [], ["route add \(Self.server) via 10.0.0.1 dev wlan0"], 2),
      ("half of the internet", "", "eth1", [], ["route add 0.0.0.0/1 via 10.0.0.1 dev wlan0"], 2),
      (
        "a table of its own", "", "eth1", [],
        [
          "route add default via 10.0.0.1 dev wlan0 table 51820",
          "rule add not fwmark 0xca6c table 51820", "rule add table main suppress_prefixlength 0",
        ], 2
      ),
      ("strict filter", "", "eth1", [], [], 1),
      ("a modem", "", "wwan0", [], [], 2),
      ("a modem, although allowed", "", "wwan0", ["--assist", "allowed"], [], 2),
      (
        "a metered cable", "  - {match: \"usb*\", medium: wired, expensive: true}\n", "usb0", [],
        [], 2
      ),
      (
        "a constrained cable", "  - {match: \"usb*\", medium: wired, constrained: true}\n", "usb0",
        [], [], 2
      ),
      ("no second default route", "", "eth1", [], ["route del default dev eth1"], 2),
    ]

  @Test("W5 W6 not one packet leaves by the other link", arguments: Self.obstacles)
  func never(
    row: (
      name: String, configuration: String, cable: String, arguments: [String], setup: [String],
      filter: Int
    )
  ) throws {
    let bench = try Bench(configuration: row.configuration, cable: row.cable) { namespace in
      try namespace.set("net/ipv4/conf/all/rp_filter", "\(row.filter)")
      for line in row.setup { try namespace.ip(line) }
    }
    let client = try bench.client(row.arguments)
    bench.wifi.lose(1)
    let call = try client.startQuick(0)
    // The third SYN leaves after 3 s. The other way would have begun after one.
    try waitUntil("three attempts are lost") { bench.wifi.sentBytes >= 3 * Self.packet }
    #expect(bench.cable.sentBytes == 0, "\(row.name)")
    #expect(client.count { $0.event == "ended" } == 0)
    bench.wifi.lose(0)
    try client.expectSuccess(of: call, from: Self.byWiFi, row.name, within: .seconds(30))
    try client.quit()
    try bench.server.end()
  }
}

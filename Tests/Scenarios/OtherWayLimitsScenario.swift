import TestKit
import TestTraits
import Testing

/// Everything that keeps calls on the default way, however bad it is (W5, W6).
@Suite("The limits of the other way", .needsNamespaces, .blocking, .serialized)
struct OtherWayLimitsScenario {
  /// The bytes of a SYN.
  private static let packet = 60

  struct Obstacle: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var configuration = ""
    /// The name of the other link.
    var cable = "eth1"
    /// Passed to the client.
    var arguments: [String] = []
    /// Run by ip(8) before connd starts.
    var setup: [String] = []
    /// Run by connctl afterwards.
    var commands: [[String]] = []
    var filter = 2
    /// Whether the other link has IPv6.
    var hasIPv6 = false

    init(_ name: String, _ change: (inout Self) -> Void) {
      self.testDescription = name
      change(&self)
    }
  }

  private static let halves = ["route add 0.0.0.0/1 via 10.0.0.1 dev wlan0"]
  /// The rules of wg-quick, which lead into a tunnel that passes packets on to the Wi-Fi.
  private static let wgQuick = [
    "route add default via 10.0.0.1 dev wlan0 table 51820",
    "rule add not fwmark 0xca6c table 51820", "rule add table main suppress_prefixlength 0",
  ]
  private static let ipv6Only = [
    "route del default dev eth1", "-6 address add 2001:db8::2/64 dev eth1 nodad",
    "-6 route add default via 2001:db8::1 dev eth1",
  ]

  private static let obstacles = [
    Obstacle("assist never") { $0.arguments = ["--assist", "never"] },
    Obstacle("assist off") { $0.commands = [["assist", "off"]] },
    Obstacle("a bound channel") { $0.arguments = ["--interface", "wlan0"] },
    Obstacle("a marked channel") { $0.arguments = ["--mark", "7"] },
    Obstacle("a host route") {
      $0.setup = ["route add \(OtherWayBench.server) via 10.0.0.1 dev wlan0"]
    },
    Obstacle("half of the internet") { $0.setup = Self.halves },
    Obstacle("a table of its own") { $0.setup = Self.wgQuick },
    Obstacle("strict filter") { $0.filter = 1 },
    Obstacle("a modem") { $0.cable = "wwan0" },
    Obstacle("a modem, although the channel allows costs") {
      ($0.cable, $0.arguments) = ("wwan0", ["--assist", "allowed"])
    },
    Obstacle("a modem, although the user allows costs") {
      ($0.cable, $0.commands) = ("wwan0", [["assist", "on", "--for", "2h"]])
    },
    Obstacle("a metered cable") {
      ($0.cable, $0.configuration) = (
        "usb0", "  - {match: \"usb*\", medium: wired, expensive: true}\n"
      )
    },
    Obstacle("a cable that the user set to metered") { $0.commands = [["metered", "eth1", "on"]] },
    Obstacle("a constrained cable, although costs are allowed") {
      ($0.commands, $0.arguments) = (
        [["constrain", "eth1", "on"], ["assist", "on"]], ["--assist", "allowed"]
      )
    },
    Obstacle("no second default route") { $0.setup = ["route del default dev eth1"] },
    Obstacle("an IPv6-only cable") { ($0.setup, $0.hasIPv6) = (Self.ipv6Only, true) },
  ]

  private func bench(_ obstacle: Obstacle) throws -> OtherWayBench {
    let bench = try OtherWayBench(
      configuration: obstacle.configuration, cable: obstacle.cable
    ) { namespace in
      try namespace.set("net/ipv4/conf/all/rp_filter", "\(obstacle.filter)")
      if obstacle.hasIPv6 {
        try namespace.set("net/ipv6/conf/\(obstacle.cable)/disable_ipv6", "0")
      }
      for line in obstacle.setup { try namespace.ip(line) }
    }
    for command in obstacle.commands {
      let outcome = try Command.outcome(
        of: [Programs.connctl, "--socket", bench.lab.socket] + command)
      #expect(outcome.status == 0, "\(outcome)")
    }
    return bench
  }

  @Test("W5 W6 not one packet leaves by the other link", arguments: Self.obstacles)
  func never(_ obstacle: Obstacle) throws {
    let bench = try self.bench(obstacle)
    let client = try bench.client(obstacle.arguments)
    bench.wifi.lose(1)
    let call = try client.startQuick(0)
    try self.expectAttempts(on: bench)
    #expect(bench.cable.sentBytes == 0)
    #expect(client.count { $0.event == "ended" } == 0)
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: call, from: OtherWayBench.byWiFi, obstacle.testDescription, within: .seconds(30))
    try client.quit()
    try bench.server.end()
  }

  /// Waits until three SYNs are lost. The third leaves two seconds after the first, and the other
  /// way would have begun after one.
  private func expectAttempts(on bench: OtherWayBench) throws {
    let sent = bench.wifi.sentBytes
    try waitUntil("three attempts are lost") { bench.wifi.sentBytes >= sent + 3 * Self.packet }
  }

  @Test(
    "W6 the user and the channel allow costs → the modem answers, and not after the choice ends")
  func allowed() throws {
    let bench = try self.bench(
      Obstacle("a modem") { ($0.cable, $0.commands) = ("wwan0", [["assist", "on"]]) })
    let client = try bench.client(["--assist", "allowed"])
    bench.wifi.lose(1)
    try client.expectNextCall(
      0, from: OtherWayBench.byCable, "call by the modem", goal: .seconds(2))
    let outcome = try bench.lab.connctl("assist", "auto")
    #expect(outcome.status == 0, "\(outcome)")
    try client.quit()
    try waitUntil("the modem's connection is closed") {
      try bench.lab.namespace.run("ss", "-Htn", "src", OtherWayBench.byCable).isEmpty
    }
    let sent = bench.cable.sentBytes
    let later = try bench.client(["--assist", "allowed"])
    let call = try later.startQuick(0)
    try self.expectAttempts(on: bench)
    #expect(bench.cable.sentBytes == sent)
    bench.wifi.lose(0)
    try later.expectSuccess(of: call, from: OtherWayBench.byWiFi, "later", within: .seconds(30))
    try later.quit()
    try bench.server.end()
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Outages, after which a connection continues by itself (C11).
@Suite("Outages", .needsNamespaces, .blocking)
struct OutageScenario {
  /// How a program's connection is guarded.
  enum Client: String, CaseIterable {
    case handler, socket, channel, c, python
  }

  /// How long the path is gone, in seconds. `make outages` sets it.
  private static let seconds =
    getenv("CONND_OUTAGES").map { String(cString: $0).split(separator: " ").compactMap { Int($0) } }

  /// Whether the kernel has `TCP_RTO_MAX_MS` (6.15).
  private static let hasOption: Bool = {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var value: CInt = 0
    var size = socklen_t(MemoryLayout<CInt>.size)
    return getsockopt(descriptor, CInt(IPPROTO_TCP), 44, &value, &size) == 0
  }()

  /// A program with one guarded connection.
  private struct Program {
    /// Sends something.
    var send: () throws -> Void
    /// Returns when the answer came, on the clock of ``CallProbe/now``.
    var answered: (Duration) throws -> UInt64

    func expectAnswer() throws {
      try self.send()
      _ = try self.answered(.seconds(20))
    }
  }

  /// Starts a server outside, which runs as long as the returned object exists.
  private func startServer(for client: Client, _ lab: Laboratory) throws -> AnyObject {
    client == .channel ? try CallServer(lab, port: Self.port) : try lab.startEcho()
  }

  private static let port = GuardedProgram.port

  /// Starts a program, and returns when connd guards its connection.
  private func start(
    _ client: Client, _ lab: Laboratory, keepsTimeouts: Bool = false
  ) throws -> Program {
    let target = ["\(Uplinks.server):\(Self.port)"]
    let flags = keepsTimeouts ? ["--keep-timeouts"] : []
    switch client {
    case .handler, .socket:
      let probe = try CallProbe(
        lab, to: target, ["--by", client.rawValue] + flags, command: "connections")
      try probe.connect(1)
      try probe.next("path", of: "1")
      return Program {
        try probe.send("echo 1")
      } answered: {
        try probe.next("echoed", of: "1", within: $0).at
      }
    case .channel:
      let probe = try CallProbe(lab, to: target, flags)
      let flows = try lab.statistics().guardedFlows
      try probe.expectNextCall(0, "first call")
      try waitUntil("the channel is guarded") { try lab.statistics().guardedFlows > flows }
      return Program {
        _ = try probe.startQuick(0)
      } answered: {
        let end = try probe.next("ended", within: $0)
        #expect(end.code == "ok", "\(end)")
        return end.at
      }
    case .c, .python:
      let program = try GuardedProgram(
        client == .c ? .c : .python, lab, environment: keepsTimeouts ? ["KEEP_TIMEOUTS": "1"] : [:])
      try program.connect(1)
      return Program {
        try program.send("echo 1")
      } answered: {
        try program.next("echoed 1", within: $0)
        return CallProbe.now
      }
    }
  }

  /// The states of the connections to the server, as ss(8) prints them.
  private func sockets(_ lab: Laboratory) throws -> [Substring] {
    try lab.namespace.run(
      "ss", "--no-header", "--tcp", "--info", "--options", "--oneline", "state", "established",
      "dport", "=", ":\(Self.port)"
    ).split(separator: "\n")
  }

  /// The number of segments that the only connection has received.
  private func heard(_ lab: Laboratory) throws -> Int {
    let words = try self.sockets(lab).joined(separator: " ").split(separator: " ")
    return words.compactMap { word in
      word.hasPrefix("segs_in:") ? Int(word.dropFirst("segs_in:".count)) : nil
    }.reduce(0, +)
  }

  @Test(
    "C11 all packets are lost outside → with the options, a connection continues sooner than without",
    .enabled(if: hasOption), arguments: Client.allCases, seconds ?? [5])
  func outside(client: Client, seconds: Int) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let server = try self.startServer(for: client, lab)
    let programs = try [false, true].map { try self.start(client, lab, keepsTimeouts: $0) }
    for program in programs { try program.expectAnswer() }
    try lab.outside.nft(
      """
      table ip loss {
        chain pre { type filter hook prerouting priority raw; ip daddr \(Uplinks.server) drop; }
      }
      """)
    let end = ContinuousClock.now + .seconds(seconds)
    for program in programs { try program.send() }
    // After five retransmissions, the kernel waits more than six seconds for the next one.
    try waitUntil("the outage has lasted", within: .seconds(seconds + 60)) {
      let backoffs = try self.sockets(lab).map { socket in
        socket.split(separator: " ").first { $0.hasPrefix("backoff:") }
          .flatMap { Int($0.dropFirst(8)) } ?? 0
      }
      return ContinuousClock.now >= end && backoffs.count == 2 && backoffs.allSatisfy { $0 >= 5 }
    }
    try lab.outside.nft("delete table ip loss")
    let back = CallProbe.now
    let waits = try programs.map { program in
      Duration.nanoseconds(
        Int64(try program.answered(.seconds(2 * seconds + 60))) - Int64(back))
    }
    print("\(client), outage of \(seconds) s: with \(waits[0]), without \(waits[1])")
    #expect(waits[0] * 2 < waits[1])
    withExtendedLifetime(server) {}
  }

  @Test(
    "C11 this machine has no route for longer than 15 probes at 2 s, and data waits → it lives",
    .enabled(if: hasOption && seconds != nil), arguments: Client.allCases.filter { $0 != .channel })
  func inside(client: Client) throws {
    let lab = try Uplinks.laboratory(["eth0"], configuration: "grace: {route: 300s}\n")
    try lab.start()
    let server = try self.startServer(for: client, lab)
    let program = try self.start(client, lab)
    try lab.namespace.ip("route del default")
    #expect(try lab.event().to == "none")
    let end = ContinuousClock.now + .seconds(45)
    try program.send()
    try waitUntil("the outage has lasted", within: .seconds(100)) {
      let count = try self.sockets(lab).count
      #expect(count == 1)
      return count != 1 || ContinuousClock.now >= end
    }
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    // Only something new sends what has never left.
    try program.expectAnswer()
    withExtendedLifetime(server) {}
  }

  @Test(
    "C11 E4 a link is back within its grace period → the peer of an idle connection is asked",
    arguments: Client.allCases)
  func asked(client: Client) throws {
    let lab = try Uplinks.laboratory(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    try lab.start()
    let server = try self.startServer(for: client, lab)
    let program = try self.start(client, lab)
    let before = try self.heard(lab)
    try lab.unplug("wlan0")
    #expect(try lab.event().to == "none")
    try lab.outside.ip("link set wlan0 up")
    #expect(try lab.event().to == "wifi")
    let back = ContinuousClock.now
    // Both ends have been silent, so only the answer to a question can arrive.
    try waitUntil("the peer has answered") { try self.heard(lab) > before }
    print("\(client): answered \(back.duration(to: .now)) after the path was back")
    try waitUntil("the options are as before") {
      try !self.sockets(lab).contains { $0.contains("timer:(keepalive") }
    }
    try program.expectAnswer()
    withExtendedLifetime(server) {}
  }
}

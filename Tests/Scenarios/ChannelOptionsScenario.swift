import Glibc
import TestKit
import TestTraits
import Testing

/// Options of channels: networks they may use, links and marks, keepalive. TCP and connd are real.
@Suite("Channel options", .needsNamespaces, .blocking)
struct ChannelOptionsScenario {
  // MARK: Forbidden networks

  /// The number of TCP segments that the outside host has received.
  private func segments(_ bench: CallBench) throws -> Int {
    let lines = try bench.lab.outside.run("cat", "/proc/net/snmp").split(separator: "\n")
      .filter { $0.hasPrefix("Tcp:") }.map { $0.split(separator: " ") }
    guard lines.count == 2, let column = lines[0].firstIndex(of: "InSegs"),
      let count = Int(lines[1][column])
    else { throw CommandError("no counter of segments: \(lines)") }
    return count
  }

  @Test(
    "C8 a call that forbids expensive paths sends nothing over one, whether or not a server listens"
  )
  func nothingSent() throws {
    let bench = try CallBench(["wwan0", "eth0"], routes: ["wwan0"])
    let before = try self.segments(bench)
    let client = try bench.client(to: [CallBench.server])
    for _ in 0..<3 {
      let end = try client.spareCall(0)
      #expect(end.code == "ok")
      #expect(end.message == "expensive")
    }
    #expect(try self.segments(bench) == before)
    let server = try CallServer(bench.lab)
    #expect(try client.spareCall(0).message == "expensive")
    #expect(try self.segments(bench) == before)
    // Other calls may use the path, and so create a connection that this call must not use.
    try client.expectNextCall(0, from: "10.0.0.2", "expensive")
    #expect(try self.segments(bench) > before)
    #expect(try client.spareCall(0).message == "expensive")
    try bench.settled()
    try bench.lab.namespace.ip("route add default via 10.1.0.1 dev eth0 metric 50")
    // The connection drains, and new calls get another.
    try waitUntil("calls use the cable") {
      let call = try client.startQuick(0)
      // One that began before the report ends with its connection.
      guard try client.next("ended", of: call).code == "ok" else { return false }
      return try client.next("open", of: call).local?.hasPrefix("ipv4:10.1.0.2:") == true
    }
    let end = try client.spareCall(0)
    #expect(end.code == "ok")
    #expect(end.message == end.id)
    try client.quit()
    try server.end()
  }

  private static let webSocketPort = 8080

  /// A WebSocket to the outside host.
  private func webSocket(_ lab: Laboratory, _ arguments: [String] = []) throws -> RunningCommand {
    try lab.namespace.spawn(
      [try Programs.callprobe, "websocket", "--socket", lab.socket]
        + ["--target", "\(CallBench.server):\(Self.webSocketPort)"] + arguments)
  }

  private func next(_ command: RunningCommand) throws -> CallReport? {
    try command.nextLine().map { try decode($0) }
  }

  @Test(
    "C10 C8 a WebSocket that forbids expensive paths is refused on one, and ends when its network moves to one"
  )
  func webSockets() throws {
    let bench = try CallBench(["eth0", "wwan0"], routes: ["wwan0"])
    let server = try bench.lab.outside.spawn(
      [try Programs.callprobe, "serve-websocket", "--port", "\(Self.webSocketPort)"])
    try server.line { $0.contains("\"ready\"") }
    let before = try self.segments(bench)
    let refused = try self.webSocket(bench.lab, ["--forbid-expensive"])
    let refusal = try self.next(refused)
    #expect(refusal?.event == "refused")
    #expect(refusal?.reason == "expensive")
    #expect(try refused.wait() == 0)
    #expect(try self.segments(bench) == before)

    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 50")
    #expect(try bench.lab.event().to == "wired")
    for reason in ["interfaceLost", "betterPath"] {
      let open = try self.webSocket(
        bench.lab, reason == "interfaceLost" ? ["--forbid-expensive"] : [])
      let message = try self.next(open)
      #expect(message?.event == "message")
      #expect(message?.message == "hello")
      if reason == "interfaceLost" {
        try bench.lab.outside.ip("link set eth0 down")
      } else {
        try bench.lab.outside.ip("link set eth0 up")
        try bench.lab.namespace.ip("route replace default via 10.0.0.1 dev eth0 metric 50")
      }
      let end = try self.next(open)
      #expect(end?.event == "ended")
      #expect(end?.reason == reason)
      try open.wait()
      if reason == "interfaceLost" { try bench.lab.namespace.ip("route del default dev eth0") }
    }
    server.signal(SIGKILL)
    try server.wait()
  }

  /// Waits until connd knows the connection: what it finds at the registration is not news.
  private func awaitGuard(_ lab: Laboratory) throws {
    try waitUntil("the connection is guarded") { try lab.statistics().guardedFlows == 1 }
  }

  /// The next of these words that a WebSocket reports, including messages it receives.
  private func expect(
    _ words: String..., of command: RunningCommand,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    for word in words {
      let report = try self.next(command)
      #expect(report?.message ?? report?.event == word, sourceLocation: sourceLocation)
    }
  }

  @Test(
    "C10 I3 a rule keeps a connection on its link → it works before, during and after a better path, and learns of both changes"
  )
  func keptOnItsWay() throws {
    let bench = try CallBench(["eth0", "wwan0"], routes: ["wwan0"])
    let server = try bench.lab.outside.spawn(
      [try Programs.callprobe, "serve-websocket", "--port", "\(Self.webSocketPort)"])
    try server.line { $0.contains("\"ready\"") }
    // NetworkManager and dhcpcd add such rules to keep connections on their link.
    let machine = bench.lab.namespace
    try machine.ip("route add default via 10.1.0.1 dev wwan0 table 100")
    try machine.ip("rule add from 10.1.0.2 lookup 100")
    let open = try self.webSocket(bench.lab, ["--drain"])
    try self.expect("hello", of: open)
    try self.awaitGuard(bench.lab)
    for _ in 0..<2 {
      try machine.ip("route add default via 10.0.0.1 dev eth0 metric 50")
      // The client reports it, and says so over the connection, which answers.
      try self.expect("betterPath", "betterPath", of: open)
      try machine.ip("route del default via 10.0.0.1 dev eth0 metric 50")
      try self.expect("noBetterPath", "noBetterPath", of: open)
    }
    open.signal(SIGKILL)
    try open.wait()
    server.signal(SIGKILL)
    try server.wait()
  }

  @Test(
    "C10 I3 a connection drains without a rule → it stalls while there is a better path, and continues afterwards"
  )
  func standsStill() throws {
    let bench = try CallBench(["eth0", "wwan0"], routes: ["wwan0"])
    let server = try bench.lab.outside.spawn(
      [try Programs.callprobe, "serve-websocket", "--port", "\(Self.webSocketPort)"])
    try server.line { $0.contains("\"ready\"") }
    let open = try self.webSocket(bench.lab, ["--drain"])
    try self.expect("hello", of: open)
    try self.awaitGuard(bench.lab)
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 50")
    // The outside host drops packets from another link's address (RFC 3704), so that the answer
    // does not arrive.
    try self.expect("betterPath", of: open)
    try bench.lab.namespace.ip("route del default via 10.0.0.1 dev eth0 metric 50")
    // The answer may overtake the report that the better path is gone.
    let words = try (0..<3).map { _ in
      let report = try self.next(open)
      return report?.message ?? report?.event
    }
    #expect(words.count { $0 == "noBetterPath" } == 2 && words.contains("betterPath"), "\(words)")
    open.signal(SIGKILL)
    try open.wait()
    server.signal(SIGKILL)
    try server.wait()
  }

  @Test(
    "C10 I0 a rule moves one connection only → it is guarded on its link, and the end of the better path is not reported"
  )
  func movedAlone() throws {
    let bench = try CallBench(["eth0", "wwan0"], routes: ["eth0", "wwan0"])
    let server = try bench.lab.outside.spawn(
      [try Programs.callprobe, "serve-websocket", "--port", "\(Self.webSocketPort)"])
    try server.line { $0.contains("\"ready\"") }
    let open = try self.webSocket(bench.lab, ["--drain"])
    try self.expect("hello", of: open)
    try self.awaitGuard(bench.lab)
    // For the connection's own address another way is preferred; all others keep this one.
    let machine = bench.lab.namespace
    try machine.ip("route add default via 10.1.0.1 dev wwan0 table 100")
    try machine.ip("rule add from 10.0.0.2 lookup 100")
    try self.expect("betterPath", of: open)
    // The client has decided, and no longer follows the way of new connections.
    try self.awaitGuard(bench.lab)
    try machine.ip("link set eth0 down")
    try self.expect("ended", of: open)
    try open.wait()
    server.signal(SIGKILL)
    try server.wait()
  }

  // MARK: A channel's own way

  /// Checks a channel whose way is wlan0, while the default route uses eth0.
  private func expectOwnWay(
    _ bench: CallBench, _ arguments: [String], sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server], arguments: arguments)
    let calls = try client.open(0)
    #expect(calls.local.hasPrefix("ipv4:10.1.0.2:"), sourceLocation: sourceLocation)
    try bench.lab.outside.ip("link set eth0 down")
    #expect(try bench.lab.event().from == "wired", sourceLocation: sourceLocation)
    try client.expectOpen(calls, sourceLocation: sourceLocation)
    try client.expectUndisturbed(calls, sourceLocation: sourceLocation)
    let more = try client.open(0)
    #expect(more.local == calls.local, sourceLocation: sourceLocation)
    let moment = CallProbe.now
    try bench.lab.namespace.ip("link set wlan0 down")
    try client.expectEnded(
      more, ["interfaceLost"], since: moment, "its own way", sourceLocation: sourceLocation)
    try client.quit(sourceLocation: sourceLocation)
    try server.end(sourceLocation: sourceLocation)
  }

  @Test("C2 a channel bound to a link uses that link, and ends with it")
  func bound() throws {
    let bench = try CallBench(["eth0", "wlan0"])
    try self.expectOwnWay(bench, ["--interface", "wlan0"])
  }

  @Test("C2 a channel with a mark takes the mark's way, and ends with it")
  func marked() throws {
    let bench = try CallBench(["eth0", "wlan0"], routes: ["eth0"])
    try bench.lab.namespace.ip("route add default via 10.1.0.1 dev wlan0 table 100")
    try bench.lab.namespace.ip("rule add fwmark 7 lookup 100")
    try self.expectOwnWay(bench, ["--mark", "7"])
  }

  @Test("C5 a channel bound to a missing link fails with an error that says so")
  func boundToNothing() throws {
    let bench = try CallBench(["eth0"])
    let client = try bench.client(to: [CallBench.server], arguments: ["--interface", "wlan7"])
    let end = try client.next("ended", of: try client.startQuick(0))
    #expect(end.code == "unavailable")
    #expect(end.message?.contains("wlan7") == true, "\(end)")
    try client.quit()
  }

  // MARK: Keepalive

  @Test("C7 C9 without connd, keepalive ends the calls of a server that falls silent")
  func keepalive() throws {
    let bench = try CallBench(["eth0"], withConnd: false)
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server], arguments: ["--keepalive", "1"])
    let calls = try client.open(0)
    let moment = CallProbe.now
    // The server's answers are lost, although no link or route of the client's host changes.
    try bench.lab.outside.ip("route add blackhole 10.0.0.2/32")
    try client.expectEnded(calls, [nil], since: moment, "keepalive")
    try client.quit()
    try server.end()
  }
}

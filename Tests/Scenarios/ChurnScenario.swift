import Glibc
import TestKit
import TestTraits
import Testing

@Suite("Churn", .needsNamespaces, .blocking)
struct ChurnScenario {
  private func online(ipv6: Bool = false) throws -> Laboratory {
    let lab = try Laboratory(ipv6: ipv6)
    try lab.addLink("eth0", "192.0.2.2", ipv6: ipv6 ? "2001:db8::2" : nil)
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    if ipv6 { try lab.namespace.ip("-6 route add default via 2001:db8::1 metric 100") }
    #expect(try lab.start().category == "other")
    return lab
  }

  @Test("T3 hundreds of veth pairs are added and removed → nothing is reported")
  func containers() throws {
    let lab = try self.online(ipv6: true)
    try lab.step("a bridge comes") {
      try lab.namespace.ip("link add docker0 type bridge")
      try lab.namespace.ip("link set docker0 up")
      try lab.namespace.ip("address add 172.17.0.1/16 dev docker0")
    }
    // A bridge has a limited number of ports.
    let batch = 250
    for _ in 0..<Storm.size(1, full: 40) {
      let names = (1...batch).map { "veth\($0)" }
      try lab.step("pairs come") {
        try lab.namespace.ipBatch(
          names.flatMap {
            [
              "link add \($0) type veth peer name \($0)p", "link set \($0) master docker0",
              "link set \($0) up", "link set \($0)p up",
            ]
          })
      }
      try lab.step("pairs go") { try lab.namespace.ipBatch(names.map { "link del \($0)" }) }
    }
    try lab.namespace.ip("link del docker0")
    try lab.expectSilence(after: "pairs that came and went")
  }

  @Test("T3 unrelated routes and addresses, and a captured probe → nothing is reported")
  func elsewhere() throws {
    let lab = try self.online()
    try lab.addLink("eth1", "198.51.100.2")
    try lab.ip("route add 10.0.0.0/8 via 198.51.100.1")
    try lab.ip("route add default via 198.51.100.1 metric 500")
    // A host route that captures one of several probes.
    try lab.ip("route add 17.0.0.1/32 via 198.51.100.1")
    try lab.ip("address add 198.51.100.3/24 dev eth1")
    try lab.ip("address change 192.0.2.2/24 dev eth0")
    try lab.ip("link set eth1 down")
    try lab.ip("link set eth1 mtu 1400")
    try lab.ip("rule add priority 500 from 198.51.100.2 lookup 200")
    try lab.ip("link del eth1")
    try lab.expectSilence(after: "routes to elsewhere")
  }

  @Test("T2 a default route that is back before connd reads → a bounce")
  func routeBounce() throws {
    let lab = try self.online()
    let before = try lab.status().generation
    // One batch: connd reads both messages together.
    try lab.whileStopped {
      try lab.namespace.ipBatch([
        "route del default via 192.0.2.1 metric 100",
        "route add default via 192.0.2.1 metric 100",
      ])
    }
    let bounce = try lab.event()
    #expect(bounce.event == "transition")
    #expect(bounce.bounced == true)
    #expect(bounce.from == "other")
    #expect(bounce.to == "other")
    #expect(bounce.generation == before + 1)
    #expect(bounce.cause?.change == "routeRemoved")
    #expect(bounce.cause?.message == "RTM_DELROUTE")
    try lab.expectSilence(after: "the bounce")
  }

  @Test("T2 a source address that is back before connd reads → a bounce")
  func addressBounce() throws {
    let lab = try self.online()
    try lab.whileStopped {
      try lab.namespace.ipBatch([
        "address del 192.0.2.2/24 dev eth0", "address add 192.0.2.2/24 dev eth0",
        "route add default via 192.0.2.1 metric 100",
      ])
    }
    let bounce = try lab.event()
    #expect(bounce.bounced == true)
    #expect(bounce.cause?.message == "RTM_DELADDR")
    try lab.expectSilence(after: "the bounce")
  }

  @Test("T2 a link that is up again before connd reads → a bounce")
  func linkBounce() throws {
    let lab = try self.online()
    try lab.whileStopped {
      try lab.namespace.ipBatch([
        "link set eth0 down", "link set eth0 up", "route add default via 192.0.2.1 metric 100",
      ])
    }
    let bounce = try lab.events { $0.bounced == true }
    #expect(bounce.first?.cause?.trigger == "link")
    #expect(bounce.last?.to == "other")
  }

  @Test("T2 T3 unrelated losses before connd reads → no bounce")
  func noBounce() throws {
    let lab = try self.online()
    try lab.addLink("eth1", "198.51.100.2")
    try lab.whileStopped {
      try lab.namespace.ipBatch([
        "route add default via 198.51.100.1 metric 500",
        "route del default via 198.51.100.1 metric 500",
        "address del 198.51.100.2/24 dev eth1", "link del eth1",
      ])
    }
    try lab.expectSilence(after: "changes elsewhere")
  }

  @Test("T1 the carrier is lost four times → each gain is published for its own message")
  func flapping() throws {
    let lab = try self.online()
    for _ in 1...4 {
      try lab.outside.ip("link set eth0 down")
      #expect(try lab.event().to == "none")
      try lab.outside.ip("link set eth0 up")
      let gain = try lab.event()
      #expect(gain.to == "other")
      #expect(gain.cause?.change == "linkUp")
    }
    try lab.step("a link that flaps") {}
  }

  @Test(
    "D4 a stopped subscriber delays no other, and learns that it missed changes",
    .needsAll("half a minute"))
  func stoppedSubscriber() throws {
    let lab = try self.online()
    let stopped = try Watcher(socket: lab.socket)
    let snapshot = try stopped.next()
    stopped.command.signal(SIGSTOP)
    try stopped.command.waitUntilStopped()
    // More changes than sockets, windows and the history hold together.
    var last = snapshot
    for number in 0..<1500 {
      try lab.namespace.ip("route replace default via 192.0.2.\(10 + number % 200) metric 100")
      last = try lab.event()
    }
    stopped.command.signal(SIGCONT)
    var events: [EventReport] = []
    repeat { events.append(try stopped.next()) } while events.last?.generation != last.generation
    #expect(events.contains { $0.event == "gap" })
    #expect(events.last?.status == last.status)
  }

  @Test("T5 the history contains every transition and its cause")
  func history() throws {
    let lab = try self.online()
    try lab.ip("route del default")
    let loss = try lab.event()
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    let lines = try lab.connctl("history", "--json").output.split(separator: "\n").map(String.init)
    let history: [EventReport] = try lines.filter { !$0.contains("\"invalidation\"") }
      .map { try decode($0) }
    let invalidations: [InvalidationReport] = try lines.filter { $0.contains("\"invalidation\"") }
      .map { try decode($0) }
    #expect(invalidations.contains { $0.generation == loss.generation + 1 })
    #expect(invalidations.allSatisfy { !$0.cause.change.isEmpty })
    #expect(history.suffix(2) == [loss, gain])
    #expect(history.first?.from == "unknown")
    #expect(history.first?.cause?.trigger == "start")
  }

  @Test("T5 the history contains path changes: when did the VPN come up?")
  func paths() throws {
    let lab = try self.online()
    try lab.addLink("vpn0", "10.8.0.2")
    try lab.ip("route add 0.0.0.0/1 via 10.8.0.1 dev vpn0")
    _ = try lab.events { $0.status.interface == "vpn0" }
    let line = try #require(
      try lab.connctl("history").output.split(separator: "\n").last { $0.contains("vpn0") })
    #expect(line.contains("route added on vpn0"), "\(line)")
    #expect(line.contains("connections on eth0") || line.contains("connections by a gateway"))
  }
}

extension Laboratory {
  /// Does something while connd is stopped, so that it reads all the messages in one go.
  func whileStopped(_ body: () throws -> Void) throws {
    guard let connd = self.connd else { throw CommandError("connd was not started") }
    connd.signal(SIGSTOP)
    defer { connd.signal(SIGCONT) }
    try connd.waitUntilStopped()
    try body()
  }
}

extension RunningCommand {
  /// Returns when all threads of the process have stopped.
  func waitUntilStopped() throws {
    let threads = "/proc/\(self.processIdentifier)/task"
    try waitUntil("\(self.arguments) has stopped") {
      // A thread may end in between.
      let states = try Command.run(["sh", "-c", "cat \(threads)/*/stat 2>/dev/null || true"])
      return states.contains(") T ")
        && states.split(separator: "\n").allSatisfy { $0.contains(") T ") }
    }
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// The clients in `clients/`, which end a program's dead connections without gRPC, and a program
/// that does so itself by `connctl guard --stdin`.
@Suite("Clients", .needsNamespaces, .blocking)
struct ClientsScenario {
  /// A host with a preferred cable and Wi-Fi, connd, and a server outside.
  func laboratory(
    _ links: [String] = ["eth0", "wlan0"], configuration: String = ""
  ) throws -> (Laboratory, server: RunningCommand) {
    let lab = try Uplinks.laboratory(links, configuration: configuration)
    try lab.startConnd()
    return (lab, try lab.startEcho())
  }

  private func kill(_ connd: RunningCommand?) throws {
    let connd = try #require(connd)
    connd.signal(SIGKILL)
    try connd.wait()
  }

  @Test(
    "I2 the cable is pulled → a program's connection ends, and the next one uses another link",
    arguments: PlainClient.allCases)
  func pulled(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    if client.hasStatus {
      try program.send("status")
      #expect(try program.next("status") == "status wired eth0")
    }
    try program.connect(1)
    try program.expectEcho(1)
    let start = ContinuousClock.now
    try lab.unplug("eth0")
    try program.expectReset(1)
    Timings.expect(start.duration(to: .now), below: .seconds(1), "\(client): pulled")
    #expect(try program.next("destroy 1") == "destroy 1 interfaceLost")
    try lab.namespace.ip("route del default dev eth0")
    try program.connect(2)
    try program.expectEcho(2)
    withExtendedLifetime(server) {}
  }

  @Test(
    "I10 Wi-Fi loses its carrier within its grace period → no connection of a program ends",
    arguments: PlainClient.allCases)
  func flap(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    let program = try GuardedProgram(client, lab)
    try program.connect(1)
    try lab.unplug("wlan0")
    try program.next("advise 1")
    try lab.outside.ip("link set wlan0 up")
    try program.next("path 1")
    try program.expectEcho(1)
    withExtendedLifetime(server) {}
  }

  @Test(
    "I9 connd is configured to drain → a program's connection goes on",
    arguments: PlainClient.allCases)
  func drained(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory(
      configuration: "invalidations: {betterPath: drain}\n")
    let program = try GuardedProgram(client, lab)
    try program.connect(1)
    try lab.namespace.ip("route add default via 10.1.0.1 dev wlan0 metric 50")
    try program.next("drain 1")
    // The outside world accepts the connection's packets on either link.
    for link in ["all", "wlan0"] { try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0") }
    try program.expectEcho(1)
    withExtendedLifetime(server) {}
  }

  @Test(
    "C7 a program runs in another network namespace than connd → its connections do not end",
    arguments: PlainClient.allCases)
  func elsewhere(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let container = try NetworkNamespace()
    try container.ip("link add eth0 type veth peer name cont0 netns \(lab.outside.name)")
    // connd knows this subnet, but not this address.
    try container.ip("address add 10.0.0.3/24 dev eth0")
    try container.ip("link set eth0 up")
    try container.ip("route add default via 10.0.0.1")
    try lab.outside.ip("link set cont0 up")
    try lab.outside.ip("address add 10.0.0.1/32 dev cont0")
    try lab.outside.ip("route add 10.0.0.3/32 dev cont0")
    let program = try GuardedProgram(client, lab, in: container)
    try program.send("connect 1 \(Uplinks.server) \(GuardedProgram.port)")
    try program.next("open 1")
    try program.expectEcho(1)
    // By the time that connd has ended this connection, it has also answered the other.
    let own = try GuardedProgram(client, lab)
    try own.connect(1)
    try lab.unplug("eth0")
    try own.expectReset(1)
    try program.expectEcho(1)
    for word in ["path", "advise", "destroy"] { program.expectNothing(word) }
    withExtendedLifetime(server) {}
  }

  @Test(
    "C7 connd is not running → nothing ends; connd starts → connections are guarded",
    arguments: PlainClient.allCases)
  func absent(_ client: PlainClient) throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    let server = try lab.startEcho()
    let program = try GuardedProgram(client, lab)
    if client.hasStatus {
      try program.send("status")
      try program.next("absent")
    }
    try program.send("connect 1 \(Uplinks.server) \(GuardedProgram.port)")
    try program.next("open 1")
    try program.expectEcho(1)
    try lab.startConnd()
    try program.next("path 1", within: .seconds(60))
    try lab.unplug("eth0")
    try program.expectReset(1)
    withExtendedLifetime(server) {}
  }

  @Test(
    "I7 connd restarts → a connection with the same path goes on, and one with another path ends",
    arguments: PlainClient.allCases)
  func restarted(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    try program.connect(1)
    try program.connect(2, to: "10.1.0.1")
    try self.kill(lab.connd)
    try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.1.0.1 dev wlan0")
    try lab.startConnd()
    // connd knows by the last path (`known_path`) that the kernel used another link.
    try program.expectReset(1)
    try program.next("path 2", within: .seconds(60))
    try program.expectEcho(2)
    withExtendedLifetime(server) {}
  }

  @Test(
    "I2 a program has a thousand connections by a pulled cable → all end",
    arguments: PlainClient.allCases)
  func many(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    for number in 1...1000 {
      try program.send("connect \(number) \(Uplinks.server) \(GuardedProgram.port)")
    }
    for number in 1...1000 { try program.next("path \(number)", within: .seconds(60)) }
    #expect(try lab.statistics().guardedFlows == 1000)
    try lab.unplug("eth0")
    for number in 1...1000 { try program.expectReset(number) }
    #expect(try lab.statistics().guardedFlows == 0)
    withExtendedLifetime(server) {}
  }

  @Test(
    "A guarded program forks → parent and child each have a connection to connd",
    arguments: PlainClient.withDescriptors)
  func forked(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    try program.connect(1)
    try program.send("fork 2 \(Uplinks.server) \(GuardedProgram.port)")
    try program.next("path 2")
    try lab.unplug("eth0")
    for number in 1...2 {
      try program.next("destroy \(number)")
      try program.expectReset(number)
    }
    // Each reports its own connection, once.
    try program.send("status")
    try program.next("status")
    #expect(!program.lines.contains { $0.hasPrefix("destroy") }, "\(program.lines)")
    withExtendedLifetime(server) {}
  }

  @Test(
    "A program uses the descriptor of a guarded connection for another one → the other one is not touched",
    arguments: PlainClient.withDescriptors)
  func reused(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    try program.send("connect 1 \(Uplinks.server) \(GuardedProgram.port)")
    let first = try program.next("open 1")
    try program.next("path 1")
    try program.send("reuse 1 10.1.0.1 \(GuardedProgram.port)")
    // The same number and descriptor.
    #expect(try program.next("open 1") == first)
    try lab.unplug("eth0")
    try waitUntil("connd has destroyed the flow") { try lab.statistics().guardedFlows == 0 }
    try program.connect(2, to: "10.1.0.1")
    try program.expectEcho(1)
    withExtendedLifetime(server) {}
  }

  @Test(
    "A program closes a connection, or has one on loopback → it is not guarded",
    arguments: PlainClient.allCases)
  func unguarded(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let own = try lab.startEcho(in: lab.namespace)
    let program = try GuardedProgram(client, lab)
    for (number, address) in [(1, "127.0.0.1"), (2, "10.0.0.2")] {
      try program.send("connect \(number) \(address) \(GuardedProgram.port)")
      try program.next("open \(number)")
      try program.expectEcho(number)
    }
    try program.connect(3)
    #expect(try lab.statistics().guardedFlows == 1)
    try program.send("close 3")
    try program.next("closed 3")
    // Python does not see that a descriptor is closed, until another connection has its number.
    try program.connect(4)
    try waitUntil("only one is guarded") { try lab.statistics().guardedFlows == 1 }
    withExtendedLifetime((server, own)) {}
  }

  @Test(
    "E4 connd asks about an idle connection → the program asks the peer, and sets the options back",
    arguments: PlainClient.inProcess)
  func asked(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory(["eth0"])
    let program = try GuardedProgram(client, lab)
    try program.connect(1)
    // Whether keepalive is on.
    func isAsking() throws -> Bool {
      try lab.namespace.run(
        "ss", "--no-header", "--options", "state", "established", "dport", "=",
        ":\(GuardedProgram.port)"
      ).contains("timer:(keepalive")
    }
    // connd asks about an idle connection that a change touches (E2).
    try lab.namespace.ip("route change default via 10.0.0.1 dev eth0 metric 100 mtu 1400")
    try waitUntil("keepalive is on") { try isAsking() }
    try waitUntil("keepalive is off again") { try !isAsking() }
    try program.expectEcho(1)
    withExtendedLifetime(server) {}
  }
}

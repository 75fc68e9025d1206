import Glibc
import TestKit
import TestTraits
import Testing

/// connd-multipath keeps the endpoints of Multipath TCP, and connections move with them.
@Suite("Endpoints of Multipath TCP", .needsNamespaces, .blocking, .serialized)
struct EndpointsScenario {
  private static let wifi = EndpointsBench.wifi
  private static let modem = EndpointsBench.modem

  @Test("M2 links come and go → the endpoints do, and those of others stay")
  func endpoints() throws {
    let bench = try EndpointsBench()
    try bench.lab.namespace.ip("mptcp endpoint add 192.0.2.77 subflow")
    let foreign = "192.0.2.77 subflow"
    let planned = try bench.run("--dry-run")
    #expect(
      planned.output == "add 10.0.0.2 dev wlan0\nadd 10.1.0.2 dev wwan0 backup\n", "\(planned)")
    #expect(try bench.endpoints() == [foreign])

    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem, foreign)
    try bench.wifi.setCarrier(false)
    try bench.expectEndpoints(Self.modem, foreign)
    try bench.wifi.setCarrier(true)
    try bench.expectEndpoints(Self.wifi, Self.modem, foreign)
    try bench.lab.namespace.ip("address del 10.0.0.2/24 dev wlan0")
    try bench.expectEndpoints(Self.modem, foreign)
    try bench.lab.namespace.ip("address add 10.0.0.9/24 dev wlan0")
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 metric 600")
    try bench.expectEndpoints("10.0.0.9 subflow dev wlan0", Self.modem, foreign)

    // Nothing is done while it is stopped, and afterwards it knows its own.
    try bench.stop()
    try bench.lab.namespace.ip("link set wlan0 down")
    try bench.start()
    try bench.expectEndpoints(Self.modem, foreign)
    // The last way is left to connections.
    try bench.modem.setCarrier(false)
    try bench.lab.namespace.ip("link set wlan0 up")
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 metric 600")
    try bench.expectEndpoints("10.0.0.9 subflow dev wlan0", foreign)
    try bench.stop()
    #expect(try bench.run("--remove").status == 0)
    #expect(try bench.endpoints() == [foreign])
  }

  @Test("M2 M4 a user changes the cost of a link that is not used → its flag changes")
  func cost() throws {
    let bench = try EndpointsBench(modem: "eth1")
    try bench.start()
    try bench.expectEndpoints(Self.wifi, "10.1.0.2 subflow backup dev eth1")
    #expect(try bench.lab.connctl("metered", "wlan0", "on").status == 0)
    try bench.expectEndpoints("10.0.0.2 subflow backup dev wlan0", "10.1.0.2 subflow dev eth1")
    #expect(try bench.lab.connctl("metered", "eth1", "on").status == 0)
    try bench.expectEndpoints(
      "10.0.0.2 subflow backup dev wlan0", "10.1.0.2 subflow backup dev eth1")
    try bench.stop()
  }

  @Test("M2 traffic leaves by a table of its own, as into a tunnel → the endpoints are deleted")
  func tunnel() throws {
    let bench = try EndpointsBench()
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 table 51820")
    try bench.lab.namespace.ip("rule add not fwmark 0xca6c table 51820")
    try bench.expectEndpoints()
    try bench.lab.namespace.ip("rule del not fwmark 0xca6c table 51820")
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.stop()
  }

  @Test("M2 NetworkManager's endpoints are adopted → they get the flag, and are never deleted")
  func adopted() throws {
    let bench = try EndpointsBench()
    for line in ["10.0.0.2 dev wlan0", "10.1.0.2 dev wwan0"] {
      try bench.lab.namespace.ip("mptcp endpoint add \(line) subflow")
    }
    try bench.lab.directory.write("adopt: true\n", to: "multipath.yaml")
    try bench.start("--config", "\(bench.lab.directory.path)/multipath.yaml")
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.wifi.setCarrier(false)
    // The modem is the only way now, but still costs money.
    try bench.lab.namespace.ip("mptcp endpoint change 10.1.0.2 dev wwan0 nobackup")
    try bench.wifi.setCarrier(true)
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.stop()
  }

  /// A program that has the name of the Multipath TCP daemon.
  private func startDaemon(_ prefix: String..., in bench: EndpointsBench) throws -> RunningCommand {
    let daemon = "\(bench.lab.directory.path)/mptcpd"
    try Command.run(["cp", "/bin/sleep", daemon])
    let running = try bench.lab.namespace.spawn(prefix + [daemon, "60"])
    try waitUntil("it has its name") {
      try bench.lab.namespace.run("cat", "/proc/\(running.processIdentifier)/comm") == "mptcpd\n"
    }
    return running
  }

  @Test("M2 mptcpd is running → the program waits, and begins when mptcpd has ended")
  func otherManager() throws {
    let bench = try EndpointsBench()
    let running = try self.startDaemon(in: bench)
    let outcome = try bench.run("--remove")
    #expect(outcome.status == 69 && outcome.standardError.contains("mptcpd is running"))
    try bench.start()
    let program = try #require(bench.program)
    try waitUntil("it waits") { program.standardError.contains("waiting for its end") }
    #expect(try bench.endpoints().isEmpty)
    running.signal(SIGKILL)
    try running.wait()
    try waitUntil("it has begun", within: .seconds(30)) { try !bench.endpoints().isEmpty }
    try bench.stop()
  }

  @Test("M2 a process without CAP_NET_ADMIN is called mptcpd → the program begins")
  func onlyTheName() throws {
    let bench = try EndpointsBench()
    let running = try self.startDaemon("setpriv", "--bounding-set=-net_admin", in: bench)
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.stop()
    running.signal(SIGKILL)
    try running.wait()
  }

  // MARK: - Connections

  private enum Trouble: String, CaseIterable, CustomTestStringConvertible {
    case carrier, address, link
    var testDescription: String { self.rawValue }
  }

  @Test("M3 M4 the Wi-Fi is lost and comes back → answers go on", arguments: Trouble.allCases)
  private func connection(trouble: Trouble) throws {
    let bench = try EndpointsBench()
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
    // The kernel delays a carrier change if the last one was less than a second ago
    // (net/core/link_watch.c). An answer arrives every 10 ms.
    try pulses.expectAnswers(150)
    #expect(pulses.isMultipath)
    let joined = bench.modem.sentBytes
    print("bytes by the modem while the Wi-Fi is well: \(joined)")
    #expect(joined <= 500)

    let lost = ContinuousClock.now
    switch trouble {
    case .carrier: try bench.wifi.setCarrier(false)
    case .address: try bench.lab.namespace.ip("address del 10.0.0.2/24 dev wlan0")
    case .link: try bench.lab.namespace.ip("link set wlan0 down")
    }
    try pulses.expectAnswers(30)
    let longest = pulses.longestWait(since: lost)
    print("\(trouble) lost: then \(pulses.median(ofLast: 20))")
    Timings.expect(
      longest, below: .milliseconds(trouble == .address ? 120 : 90),
      "longest wait, \(trouble) lost")

    let back = ContinuousClock.now
    switch trouble {
    case .carrier: try bench.wifi.setCarrier(true)
    case .address: try bench.lab.namespace.ip("address add 10.0.0.2/24 dev wlan0")
    case .link: try bench.lab.namespace.ip("link set wlan0 up")
    }
    if trouble != .carrier {
      try bench.lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 metric 600")
    }
    try waitUntil("answers arrive by the Wi-Fi") { pulses.median(ofLast: 5) < .milliseconds(45) }
    let time = ContinuousClock.now - back
    let wait = pulses.longestWait(since: back)
    Timings.expect(time, below: .seconds(1), "by the Wi-Fi, \(trouble) back")
    Timings.expect(wait, below: .milliseconds(90), "longest wait, \(trouble) back")
    #expect(!pulses.isOver)
    try bench.stop()
  }

  @Test("M5 the Wi-Fi limps → the flags are swapped, answers go by the cable, and later return")
  func limp() throws {
    let bench = try EndpointsBench(modem: "eth1")
    let hosts = [EndpointsBench.server, OtherWayBench.secondServer, OtherWayBench.thirdServer]
    for host in hosts[1...] { try bench.lab.outside.ip("address add \(host)/32 dev lo") }
    let server = try CallServer(bench.lab)
    try bench.start()
    try bench.expectEndpoints(Self.wifi, "10.1.0.2 subflow backup dev eth1")
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
    try pulses.expectAnswers(20)
    let client = try CallProbe(
      bench.lab, to: (0..<4).map { "\(hosts[$0 % 3]):\(CallServer.port)" }, ["--quiet"])

    // Three races are lost, which makes the link limp (Q2).
    bench.wifi.lose(1)
    for channel in 0..<3 { try client.expectNextCall(channel, "call \(channel)") }
    try bench.expectEndpoints("10.0.0.2 subflow backup dev wlan0", "10.1.0.2 subflow dev eth1")
    bench.wifi.lose(0.6)
    try pulses.expectAnswers(100)
    #expect(pulses.median(ofLast: 50) > .milliseconds(45), "by the cable")
    Timings.expect(
      pulses.quantile(0.9, ofLast: 50), below: .milliseconds(90), "nine of ten answers in a limp")

    bench.wifi.lose(0)
    try waitUntil("the limp ends, by calls") {
      try client.expectNextCall(3, "call after the limp")
      return try bench.endpoints() == [Self.wifi, "10.1.0.2 subflow backup dev eth1"]
    }
    try waitUntil("answers arrive by the Wi-Fi") { pulses.median(ofLast: 5) < .milliseconds(45) }
    #expect(!pulses.isOver)
    try client.quit()
    try server.end()
    try bench.stop()
  }

  @Test(
    "M1 the server has no Multipath TCP, or a box removes it → the connection is one of TCP",
    arguments: [false, true])
  func fallback(isRemoved: Bool) throws {
    let bench = try EndpointsBench()
    if isRemoved { bench.wifi.removeMultipath() }
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server, isServed: isRemoved)
    try pulses.expectAnswers(10)
    #expect(!pulses.isMultipath)
    #expect(bench.modem.sentBytes == 0)
    try bench.stop()
  }
}

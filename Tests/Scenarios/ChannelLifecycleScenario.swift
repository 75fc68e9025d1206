import Glibc
import TestKit
import TestTraits
import Testing

/// Calls of a program while the program, the server, connd or the resolver stops and starts.
@Suite("Channel lifecycle", .needsNamespaces, .blocking)
struct ChannelLifecycleScenario {
  /// Takes Wi-Fi down, so that cellular is left.
  ///
  /// - Returns: The time of the change.
  @discardableResult
  private func cellular(_ bench: CallBench) throws -> UInt64 {
    try bench.settled()
    let moment = CallProbe.now
    try bench.lab.namespace.ip("link set wlan0 down")
    return moment
  }

  // MARK: The program

  @Test(
    "the network changes while the program is stopped → its calls end when it continues",
    arguments: ["cellular", "hotspot"])
  func stopped(change: String) throws {
    let bench =
      try change == "cellular"
      ? CallBench(["wlan0", "wwan0"])
      : CallBench(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    client.command.signal(SIGSTOP)
    try client.command.waitUntilStopped()
    if change == "cellular" {
      try self.cellular(bench)
      #expect(try bench.lab.event().to == "cellular")
    } else {
      try bench.lab.outside.ip("link set wlan0 down")
      #expect(try bench.lab.event().to == "none")
      try bench.lab.outside.ip("link set wlan0 address 02:00:00:00:00:99")
      try bench.lab.outside.ip("link set wlan0 up")
      #expect(try bench.lab.event().to == "wifi")
      try bench.lab.namespace.ip(
        "neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev wlan0 nud reachable")
      let watcher = try #require(bench.lab.watcher)
      while try watcher.nextInvalidation().reason != "networkChanged" {}
    }
    let moment = CallProbe.now
    client.command.signal(SIGCONT)
    let reason = change == "cellular" ? "interfaceLost" : "networkChanged"
    try client.expectEnded(far, [reason], since: moment, "\(change) in the background")
    try client.expectNextCall(
      CallBench.far, from: change == "cellular" ? "10.1.0.2" : "10.0.0.2", change)
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test("a program exits with calls in flight → it exits immediately", arguments: [true, false])
  func leaving(isReachable: Bool) throws {
    let bench = try CallBench(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    _ = try client.open(CallBench.far)
    _ = try client.open(CallBench.near)
    if !isReachable {
      try bench.lab.outside.ip("link set wlan0 down")
      #expect(try bench.lab.event().to == "none")
    }
    try client.quit()
    try server.end()
  }

  @Test(
    "C2 with draining preferred, calls may finish, and new ones use the new path",
    arguments: [true, false])
  func drained(byConnd: Bool) throws {
    let bench = try CallBench(
      ["eth0", "eth1"], routes: ["eth0"],
      configuration: byConnd ? "invalidations: {betterPath: drain}\n" : "")
    // Packets that leave by the new link with the old address arrive here.
    for link in ["all", "eth0", "eth1"] {
      try bench.lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    let server = try CallServer(bench.lab)
    let client = try bench.client(
      to: [CallBench.server], arguments: byConnd ? [] : ["--on-invalidation", "drain"])
    let old = try client.open(0)
    try client.next("state") { $0.state == "ready" }
    try bench.lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    try client.next("state") { $0.state == "idle" }
    try client.expectNextCall(0, from: "10.1.0.2", "draining")
    let new = try client.open(0)
    #expect(new.local != old.local)
    try client.expectUndisturbed(old)
    try client.expectUndisturbed(new)
    try client.quit()
    try server.end()
  }

  // MARK: The transport

  @Test("C2 C3 over TLS, calls end as fast, without waiting for the other side's close_notify")
  func tls() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let directory = bench.lab.directory.path
    try Command.run([
      "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
      "-nodes", "-days", "2", "-subj", "/CN=server.test", "-addext",
      "subjectAltName=DNS:server.test", "-keyout", "\(directory)/key.pem", "-out",
      "\(directory)/certificate.pem",
    ])
    let server = try CallServer(
      bench.lab, ["--certificate", "\(directory)/certificate.pem", "--key", "\(directory)/key.pem"])
    let client = try bench.client(arguments: ["--tls-ca", "\(directory)/certificate.pem"])
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    let moment = try self.cellular(bench)
    try client.expectEnded(
      far, ["interfaceLost"], since: moment, "wifi to cellular, TLS", within: .seconds(2))
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "wifi to cellular, TLS")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test("control run: with gRPC's own transport the calls hang, and so does the next")
  func plain() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server, "10.1.0.1"])
    let plain = try bench.client(to: [CallBench.server], arguments: ["--plain"])
    // Packets still sent with the old address must not be the first to ask for the new gateway.
    try client.expectNextCall(1, from: "10.1.0.2", "the cellular gateway")
    let (calls, hanging) = (try client.open(0), try plain.open(0))
    let moment = try self.cellular(bench)
    let next = try plain.startQuick(0)
    try client.expectEnded(calls, ["interfaceLost"], since: moment, "network-aware")
    try client.expectNextCall(0, from: "10.1.0.2", "network-aware")
    var open = hanging
    open.ids["next"] = next
    try plain.expectOpen(open)
    let duration = Duration.nanoseconds(Int64(CallProbe.now) - Int64(moment))
    print("plain: still hanging after \(duration)")
    try plain.quit()
    try client.quit()
    try server.end()
  }

  // MARK: Names and servers

  @Test("C5 a name cannot be resolved → the call fails immediately, with the resolver's error")
  func resolution() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let file = try bench.lab.directory.write("", to: "names")
    let names = "server.test \(CallBench.server):\(CallServer.port)\n"
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: ["server.test"], arguments: ["--resolve-file", file])
    func expectUnresolved() throws {
      let id = try client.startQuick(0)
      let start = try client.next("started", of: id)
      let end = try client.next("ended", of: id)
      #expect(end.code == "unavailable")
      #expect(end.message?.contains("server.test is not in \(file)") == true, "\(end)")
      let duration = Duration.nanoseconds(Int64(end.at) - Int64(start.at))
      Timings.expect(duration, below: .seconds(5), "UNAVAILABLE without an address")
    }
    for _ in 0..<3 { try expectUnresolved() }
    // The failure leaves no backoff behind.
    try bench.lab.directory.write(names, to: "names")
    try client.expectNextCall(0, from: "10.0.0.2", "resolved")

    let calls = try client.open(0)
    try bench.lab.directory.write("", to: "names")
    let moment = try self.cellular(bench)
    try client.expectEnded(calls, ["interfaceLost"], since: moment, "while names are lost")
    try expectUnresolved()
    try bench.lab.directory.write(names, to: "names")
    try client.expectNextCall(0, from: "10.1.0.2", "resolved again")
    try client.quit()
    try server.end()
  }

  @Test(
    "C4 C6 the server restarts → its calls end, later ones fail until it is back, and none is repeated",
    arguments: [false, true])
  func server(isQuiet: Bool) throws {
    let bench = try CallBench(["eth0"])
    let first = try CallServer(bench.lab)
    let client = try bench.client(
      to: [CallBench.server], arguments: ["--backoff", "1"] + (isQuiet ? ["--quiet"] : []))
    let calls = try client.open(0)
    let moment = CallProbe.now
    try first.end()
    try client.expectEnded(calls, [nil], since: moment, "server killed")
    try client.next("state") { $0.state == "transientFailure" && $0.at > moment }
    let refused = try client.next("ended", of: client.startQuick(0))
    #expect(refused.code == "unavailable")
    #expect(refused.reason == nil)
    let second = try CallServer(bench.lab)
    try client.expectNextCall(0, from: "10.0.0.2", "server is back")
    try client.expectUndisturbed(client.open(0))
    try client.quit()
    try second.end()
    // Without a logger, a channel prints nothing.
    let log = client.command.standardError.split(separator: "\n")
    #expect(log.isEmpty == isQuiet)
    for line in log where line.contains("state=ready") || line.contains("attempt failed") {
      #expect(line.contains("grpc_connection_id="))
    }
    #expect(log.contains { $0.contains("the connection broke") } == !isQuiet)
  }

  // MARK: connd

  @Test("C7 connd starts while calls are in flight → it guards them from then on")
  func late() throws {
    let bench = try CallBench(["wlan0", "wwan0"], withConnd: false)
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    try client.expectNextCall(CallBench.far, from: "10.0.0.2", "without connd")
    #expect(!client.command.standardError.contains("network_interface"))
    try bench.lab.start()
    // A call's log names the link as soon as connd guards the connection.
    try waitUntil("connd guards the connection") {
      try client.expectNextCall(CallBench.far, from: "10.0.0.2", "connd is there")
      return client.command.standardError.contains("network_interface=wlan0")
    }
    let moment = try self.cellular(bench)
    try client.expectEnded(far, ["interfaceLost"], since: moment, "connd came late")
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "connd came late")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test(
    "C7 without connd, calls work as with gRPC's own transport, and a dead network shows the same way"
  )
  func absent() throws {
    let bench = try CallBench(["wlan0", "wwan0"], withConnd: false)
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server, "10.1.0.1"])
    let far = try client.open(0)
    let near = try client.open(1)
    try self.cellular(bench)
    try client.expectNextCall(1, from: "10.1.0.2", "without connd")
    try client.expectOpen(far)
    try client.expectUndisturbed(near)
    // A connection made later uses the network that is available.
    let another = try bench.client(to: [CallBench.server])
    try another.expectNextCall(0, from: "10.1.0.2", "without connd")
    try another.quit()
    try client.quit()
    try server.end()
  }

  @Test(
    "C7 I7 connd is stopped or killed and restarted, as by an upgrade → no call ends",
    arguments: [SIGTERM, SIGKILL])
  func restarted(signal: CInt) throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    for _ in 0..<3 {
      let connd = try #require(bench.lab.connd)
      connd.signal(signal)
      try connd.wait()
      try client.expectNextCall(CallBench.far, from: "10.0.0.2", "connd is away")
      try bench.lab.startConnd()
      try client.expectNextCall(CallBench.far, from: "10.0.0.2", "connd is back")
      try client.expectOpen(far)
    }
    let another = try client.open(CallBench.far)
    #expect(another.local == far.local)
    // The client may still be reconnecting; it receives the change either way.
    let moment = try self.cellular(bench)
    for calls in [far, another] {
      try client.expectEnded(
        calls, ["interfaceLost", "categoryChanged", "betterPath"], since: moment, "after restarts")
    }
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "after restarts")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test(
    "C7 I7 the network changes while connd is away → calls end when it is back",
    arguments: [SIGTERM, SIGKILL])
  func changedMeanwhile(signal: CInt) throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    let connd = try #require(bench.lab.connd)
    connd.signal(signal)
    try connd.wait()
    try self.cellular(bench)
    try client.expectOpen(far)
    let moment = CallProbe.now
    try bench.lab.startConnd()
    try client.expectEnded(
      far, ["interfaceLost", "categoryChanged", "betterPath"], since: moment, "connd learnt late")
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "connd learnt late")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }
}

import Glibc
import TestKit
import TestTraits
import Testing

/// Connections with several addresses, or with one that is not this machine's.
@Suite("Multipath connections, and foreign addresses", .needsNamespaces, .blocking)
struct MultipathScenario {
  private static var hasMultipath: Bool {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 262)  // IPPROTO_MPTCP
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
  }

  /// A host with Wi-Fi and a cable. If both sides support Multipath TCP, there are two subflows,
  /// one over each.
  private func laboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["wlan0", "eth0"])
    try lab.namespace.ip("rule add from 10.1.0.2 lookup 101")
    try lab.namespace.ip("route add default via 10.1.0.1 dev eth0 table 101")
    for namespace in [lab.namespace, lab.outside] {
      try namespace.set("net/mptcp/enabled", "1")
      try namespace.ip("mptcp limits set subflow 2 add_addr_accepted 2")
    }
    try lab.namespace.ip("mptcp endpoint add 10.1.0.2 dev eth0 subflow")
    try lab.start()
    return lab
  }

  /// Removes the Wi-Fi's address, and returns when connd has reported it to the flows on it.
  private func loseWiFi(_ lab: Laboratory) throws {
    let other = try GuardedFlow(lab, to: Uplinks.server)
    #expect(other.path.interface == "wlan0")
    try lab.ip("address del 10.0.0.2/24 dev wlan0")
    try other.expectDestroyed("sourceAddressLost")
  }

  /// A guarded connection of Multipath TCP, which uses the Wi-Fi and has the number 1.
  private func connection(
    _ lab: Laboratory, guarding: String
  ) throws -> (server: EchoServer, client: CallProbe) {
    let server = try EchoServer(lab, ["--mptcp"])
    let client = try server.client(to: Uplinks.server, ["--by", guarding, "--mptcp"])
    try client.connect(1)
    #expect(try client.next("path", of: "1").message == "wlan0")
    try client.expectEcho(1)
    return (server, client)
  }

  /// Checks that connection 1 ends, and stops both programs.
  private func expectEnd(
    _ client: CallProbe, _ server: EchoServer, _ reason: String = "sourceAddressLost"
  ) throws {
    #expect(try client.next("destroy", of: "1").reason == reason)
    try client.next("ended", of: "1")
    try client.quit()
    try server.end()
  }

  private func awaitSecondSubflow(_ lab: Laboratory, to port: Int) throws {
    try waitUntil("there is a second subflow") {
      try lab.namespace.run("ss", "-Htn", "state", "established", "src", "10.1.0.2")
        .contains(":\(port)")
    }
  }

  /// A prefix that makes a program's sockets use Multipath TCP, as mptcpize(8) does, because gRPC
  /// has no option for it.
  private func makingMultipath(_ lab: Laboratory) throws -> [String] {
    let library = "\(lab.directory.path)/multipath.so"
    let source = Checkout.path("Tests/Programs/multipath/multipath.c")
    try Command.run(["clang", "-shared", "-fPIC", "-Wall", "-o", library, source])
    return ["env", "LD_PRELOAD=\(library)"]
  }

  @Test(
    "M6 a channel over Multipath TCP loses one subflow → its calls go on over the other",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"))
  func channel() throws {
    let lab = try self.laboratory()
    let prefix = try self.makingMultipath(lab)
    let server = try CallServer(lab, prefix: prefix)
    let probe = try CallProbe(
      lab, to: ["\(Uplinks.server):\(CallServer.port)"], prefix: prefix)
    let calls = try probe.open(0)
    #expect(calls.local.contains("10.0.0.2"))
    try self.awaitSecondSubflow(lab, to: CallServer.port)
    try self.loseWiFi(lab)
    try probe.expectUndisturbed(calls)
    try probe.quit()
    #expect(!probe.command.standardError.contains("is not guarded"))
    try server.end()
  }

  @Test(
    "M1 a channel may use several networks, and one is lost → its calls go on over the other",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"))
  func severalNetworks() throws {
    let lab = try self.laboratory()
    let server = try CallServer(lab, prefix: try self.makingMultipath(lab))
    let probe = try CallProbe(
      lab, to: ["\(Uplinks.server):\(CallServer.port)"], ["--multipath"])
    let calls = try probe.open(0)
    #expect(calls.local.contains("10.0.0.2"))
    try self.awaitSecondSubflow(lab, to: CallServer.port)
    try self.loseWiFi(lab)
    try probe.expectUndisturbed(calls)
    let further = try probe.open(0)
    let moment = CallProbe.now
    try lab.ip("address del 10.1.0.2/24 dev eth0")
    try probe.expectEnded(further, ["sourceAddressLost"], since: moment, "no network is left")
    try probe.quit()
    try server.end()
  }

  @Test(
    "M1 the kernel or the server has no Multipath TCP → the channel uses TCP and is guarded",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["server", "kernel"])
  func plainChannel(lacking: String) throws {
    let lab = try self.laboratory()
    let prefix = try self.makingMultipath(lab)
    if lacking == "kernel" { try lab.namespace.set("net/mptcp/enabled", "0") }
    let server = try CallServer(lab, prefix: lacking == "server" ? [] : prefix)
    let probe = try CallProbe(
      lab, to: ["\(Uplinks.server):\(CallServer.port)"], ["--multipath"])
    let calls = try probe.open(0)
    let moment = CallProbe.now
    try lab.ip("address del 10.0.0.2/24 dev wlan0")
    try probe.expectEnded(calls, ["sourceAddressLost"], since: moment, "the address is gone")
    try probe.quit()
    try server.end()
  }

  @Test(
    "M1 a handler makes a connection of Multipath TCP → it goes on over its second subflow",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"))
  func handler() throws {
    let lab = try self.laboratory()
    let server = try EchoServer(lab, ["--mptcp"])
    let client = try server.client(to: Uplinks.server, ["--by", "handler", "--multipath"])
    try client.connect(1)
    try client.expectEcho(1)
    try self.awaitSecondSubflow(lab, to: EchoServer.port)
    try self.loseWiFi(lab)
    try client.expectEcho(1)
    try client.quit()
    #expect(client.count { ["destroy", "ended"].contains($0.event) } == 0)
    try server.end()
  }

  @Test(
    "C2 a channel asks for Multipath TCP, but the server only speaks TCP → it is guarded",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"))
  func channelFallback() throws {
    let lab = try self.laboratory()
    let server = try CallServer(lab)
    let probe = try CallProbe(
      lab, to: ["\(Uplinks.server):\(CallServer.port)"], prefix: try self.makingMultipath(lab))
    let calls = try probe.open(0)
    let moment = CallProbe.now
    try lab.ip("address del 10.0.0.2/24 dev wlan0")
    try probe.expectEnded(calls, ["sourceAddressLost"], since: moment, "the address is gone")
    try probe.quit()
    try server.end()
  }

  @Test(
    "M6 C10 a Multipath TCP connection loses its networks one by one → it ends with the last",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func multipath(guarding: String) throws {
    let lab = try self.laboratory()
    let (server, client) = try self.connection(lab, guarding: guarding)
    try self.awaitSecondSubflow(lab, to: EchoServer.port)
    try self.loseWiFi(lab)
    #expect(try client.next("path", of: "1", where: { $0.message != nil }).message == "eth0")
    try client.expectEcho(1)
    #expect(client.count { ["unguarded", "destroy", "ended"].contains($0.event) } == 0)
    try lab.ip("address del 10.1.0.2/24 dev eth0")
    try self.expectEnd(client, server)
  }

  @Test(
    "M6 C10 the kernel has no endpoint for another subflow → the connection ends with its network",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func onlySubflow(guarding: String) throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("mptcp endpoint flush")
    let (server, client) = try self.connection(lab, guarding: guarding)
    // The path of new connections goes on by the cable.
    try self.loseWiFi(lab)
    try self.expectEnd(client, server)
  }

  @Test(
    "M6 I2 C10 the only subflow's link goes down and keeps its address → the connection ends",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func onlyLink(guarding: String) throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("mptcp endpoint flush")
    let (server, client) = try self.connection(lab, guarding: guarding)
    try lab.ip("link set wlan0 down")
    try self.expectEnd(client, server, "interfaceLost")
  }

  @Test(
    "M6 C10 the kernel closes the first subflow → the connection ends with the second",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func closedSubflow(guarding: String) throws {
    let lab = try self.laboratory()
    let (server, client) = try self.connection(lab, guarding: guarding)
    try self.awaitSecondSubflow(lab, to: EchoServer.port)
    // 0 is the number of every first subflow.
    try lab.namespace.ip("mptcp endpoint delete id 0 10.0.0.2")
    try client.expectEcho(1)
    #expect(client.count { ["unguarded", "destroy", "ended"].contains($0.event) } == 0)
    try lab.ip("address del 10.1.0.2/24 dev eth0")
    try self.expectEnd(client, server)
  }

  @Test(
    "M6 C10 an endpoint is added after the loss → the connection goes on over it",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func lateEndpoint(guarding: String) throws {
    let lab = try self.laboratory()
    try lab.namespace.ip("mptcp endpoint flush")
    let (server, client) = try self.connection(lab, guarding: guarding)
    // At once, because connd's report may come late on a busy machine.
    let commands = [
      "address del 10.0.0.2/24 dev wlan0", "mptcp endpoint add 10.1.0.2 dev eth0 subflow",
    ]
    try lab.namespace.run("sh", "-c", commands.map { "ip \($0)" }.joined(separator: "; "))
    #expect(try client.next("path", of: "1", where: { $0.message != nil }).message == "eth0")
    try client.expectEcho(1)
    try client.quit()
    #expect(client.count { ["unguarded", "destroy", "ended"].contains($0.event) } == 0)
    try server.end()
  }

  @Test(
    "C10 a connection that fell back to TCP is guarded as TCP is",
    .enabled(if: Self.hasMultipath, "the kernel has no Multipath TCP, or it is switched off"),
    arguments: ["handler", "socket"])
  func fallback(guarding: String) throws {
    let lab = try self.laboratory()
    let server = try EchoServer(lab)
    let client = try server.client(to: Uplinks.server, ["--by", guarding, "--mptcp"])
    try client.connect(1)
    #expect(try client.next("path", of: "1").message == "wlan0")
    try client.expectEcho(1)
    try lab.ip("address del 10.0.0.2/24 dev wlan0")
    try self.expectEnd(client, server)
  }

  @Test(
    "I0 C10 a transparent proxy's connection from a foreign address is left alone",
    arguments: ["handler", "socket"])
  func transparent(guarding: String) throws {
    let foreign = "203.0.113.50"
    let lab = try Uplinks.laboratory(["eth0"])
    // Incoming packets for that address are accepted. connd, which looks up outgoing ones, does not
    // see that.
    try lab.namespace.ip("route add local \(foreign)/32 dev lo table 100")
    try lab.namespace.ip("rule add iif eth0 lookup 100 priority 10")
    try lab.outside.ip("route add \(foreign)/32 via 10.0.0.2")
    try lab.start()
    let server = try EchoServer(lab)
    let client = try server.client(
      to: Uplinks.server, ["--by", guarding, "--source", foreign])
    try client.connect(1)
    if guarding == "socket" {
      let told = try client.next("unguarded", of: "1")
      #expect(told.message?.contains("does not belong to this machine") == true)
    }
    try client.expectEcho(1)
    // An own address, set with the same option, is like any other.
    let own = try server.client(to: Uplinks.server, ["--by", guarding, "--source", "10.0.0.2"])
    try own.connect(1)
    try own.next("path", of: "1")
    try lab.ip("address del 10.0.0.2/24 dev eth0")
    #expect(try own.next("destroy", of: "1").reason == "sourceAddressLost")
    for client in [client, own] { try client.quit() }
    // With the last report, all earlier ones have been read.
    #expect(client.count { ["destroy", "ended"].contains($0.event) } == 0)
    try server.end()
  }
}

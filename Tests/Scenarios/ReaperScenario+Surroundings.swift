import TestKit
import TestTraits
import Testing

/// Connections that other parts of the machine move or hide.
extension ReaperScenario {
  /// Waits until bytes have come back for longer than a lost connection is held.
  private func expectEchoes(_ program: RunningCommand) throws {
    // Lines from before the loss may wait to be read.
    let end = ContinuousClock.now + .seconds(4)
    repeat { try self.expect("echoed", program, within: .seconds(60)) } while .now < end
  }

  private func reap(_ lab: Laboratory) throws -> RunningCommand {
    try lab.namespace.spawn([
      Programs.connctl, "--socket", lab.socket, "reap", "--patience", "3s",
    ])
  }

  @Test(
    "E0 R1 a mark and NAT use another link, and the lookup's link fails → connections go on")
  func diverted() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    let beside = "203.0.113.2"
    try lab.outside.ip("address add \(beside)/32 dev lo")
    try Uplinks.mark(in: lab)
    try lab.start()
    let server = try lab.startEcho()
    let service = try self.reap(lab)
    let diverted = try [self.run(lab), self.run(lab, "idle")]
    for program in diverted { try self.expect("open", program) }
    let other = try self.run(lab, "idle", to: beside, options: ["--patience", "3s"])
    try self.expect("open", other)
    // The route stays: without one, nothing is sent that the mark could move.
    try lab.unplug("eth0")
    try self.expect("ended", other)
    try self.expectEchoes(diverted[0])
    let remarks = (diverted + [service]).map(\.standardError).joined()
    #expect(!remarks.contains("\(Uplinks.server):"), "\(remarks)")
    withExtendedLifetime(server) {}
  }

  @Test(
    "I5 R1 a VPN moves to another link → connections in it go on; the VPN ends → they end",
    .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"))
  func tunnelled() throws {
    let lab = try Uplinks.laboratory(["eth0", "wwan0"])
    for link in ["all", "default"] { try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0") }
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.start()
    let server = try lab.startEcho()
    let service = try self.reap(lab)
    let program = try self.run(lab, to: "10.8.0.1")
    try self.expect("echoed", program)
    try lab.namespace.ip("link set eth0 down")
    try self.expectEchoes(program)
    #expect(program.standardError == "" && service.standardError == "")
    try lab.namespace.ip("link del \(wireGuard.link)")
    try self.expect("ended", program)
    withExtendedLifetime(server) {}
  }

  @Test(
    "E0 R5 NAT for a container, the link is lost → idle connections and the container's go on")
  func contained() throws {
    let (lab, server) = try self.laboratory()
    let container = try NetworkNamespace()
    try lab.namespace.ip("link add pod0 type veth peer name eth0 netns \(container.name)")
    try lab.namespace.ip("address add 10.244.0.1/24 dev pod0")
    try container.ip("address add 10.244.0.2/24 dev eth0")
    try lab.namespace.ip("link set pod0 up")
    try container.ip("link set eth0 up")
    try container.ip("route add default via 10.244.0.1")
    try lab.namespace.set("net/ipv4/ip_forward", "1")
    try lab.namespace.nft(
      "table ip t { chain p { type nat hook postrouting priority srcnat; ip saddr 10.244.0.2 masquerade; }; }"
    )
    let inside = try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "run", "--guard", "--"]
        + container.wrapped(Self.program(["idle"])))
    try self.expect("open", inside)
    let service = try self.reap(lab)
    let outside = try ["idle", "busy"].map { try lab.namespace.spawn(Self.program([$0])) }
    for program in outside { try self.expect("open", program) }
    try self.loseCable(lab)
    // Beside NAT, silence proves nothing about an idle connection (E0), and `reap` cannot ask (R3).
    try self.expect("ended", outside[1])

    let socket = "\(lab.directory.path)/container.sock"
    let connd = try container.spawn([Programs.connd, "--socket", socket])
    let connctl = [Programs.connctl, "--socket", socket]
    try waitUntil("the container's connd is ready") {
      try Command.outcome(of: container.wrapped(connctl + ["is", "online"])).status == 0
    }
    #expect(inside.standardError == "")
    #expect(service.standardError.split(separator: "\n").count == 1, "\(service.standardError)")
    let own = try container.spawn(connctl + ["reap", "--patience", "3s"])
    try waitUntil("it follows connd") {
      try Command.outcome(of: container.wrapped(connctl + ["stats"])).output
        .contains(/subscribers +1\n/)
    }
    try lab.namespace.ip("link set pod0 down")
    try self.expect("ended Software caused connection abort", inside)
    try waitUntil("it reports the end") {
      own.standardError.contains("interface lost on eth0; no other path")
    }
    withExtendedLifetime((server, connd)) {}
  }
}

import TestKit
import Testing

/// Real tunnels whose other end the kernel does not tell whom is not privileged: what connd says of what is below, and of connections
/// inside, held against whether these carry bytes.
@Suite(
  "Tunnels", .needsNamespaces, .laboratory,
  .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"))
struct TunnelsScenario {
  /// A host with a cable, preferred, and a modem.
  private func laboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "wwan0"])
    // What comes by a tunnel is answered by it.
    try lab.outside.set("net/ipv4/conf/all/rp_filter", "0")
    try lab.outside.set("net/ipv4/conf/default/rp_filter", "0")
    return lab
  }

  @Test("K6 I5 I0 WireGuard's wg-quick: the uplink is guessed by the mark, and a connection roams")
  func wireGuard() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    let status = try lab.start()
    #expect(status.category == "wired" && status.interface == wireGuard.link)
    #expect(status.ipv4.chain == [wireGuard.link, "eth0"])
    let flow = try GuardedFlow(lab, to: "10.8.0.1")
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    let explanation = try lab.connctl("explain")
    #expect(explanation.output.contains("eth0, the default route with fwmark 0xca6c"))

    try lab.namespace.ip("link set eth0 down")
    let moved = try lab.event()
    #expect(moved.from == "wired" && moved.to == "cellular")
    #expect(moved.status.ipv4.chain == [wireGuard.link, "wwan0"])
    #expect(moved.status.expensive)
    #expect(try #require(lab.watcher).nextInvalidation().severity == "advise")
    // The kernel's WireGuard roams at once. wireguard-go goes on sending from the address that is gone, for routes go with a link
    // without a message, until it clears that with the second handshake that is not answered: after 20 s.
    #expect(flow.connection?.carries(within: .seconds(60)) == true)
    try flow.expectAlive(in: lab, on: wireGuard.link, advised: nil)
  }

  @Test("K6 without any uplink the tunnel is one with nothing known below, and nobody is offline")
  func withoutUplink() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.start()
    try lab.namespace.ip("link set eth0 down")
    #expect(try lab.event().to == "cellular")
    try lab.step("the modem's carrier goes") { try lab.outside.ip("link set wwan0 down") }
    let lost = try lab.event()
    #expect(lost.to == "other" && lost.status.ipv4.chain == [wireGuard.link])
    #expect(lost.cause?.change == "carrierLost" && lost.cause?.interface == "wwan0")
    try lab.step("it is back") { try lab.outside.ip("link set wwan0 up") }
    let back = try lab.event()
    #expect(back.to == "cellular" && back.status.interface == wireGuard.link)
  }

  @Test(
    "I8 K6 a VPN's modem loses its network for a moment → work that waits for a free path waits on")
  func heldCost() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.namespace.ip("link set eth0 down")
    #expect(try lab.start().expensive)
    let run = try RunningCommand([
      Programs.connctl, "--socket", lab.socket, "run", "--when", "online,not-expensive", "--",
      "echo",
      "runs",
    ])
    try waitUntil("it follows") { try lab.connctl("stats").output.contains(/subscribers +2\n/) }
    try lab.outside.ip("link set wwan0 down")
    let lost = try lab.event()
    #expect(lost.to == "other" && lost.status.ipv4.chain == [wireGuard.link])
    #expect(lost.status.expensive)
    #expect(try lab.connctl("is", "not-expensive").status == 1)
    try lab.outside.ip("link set wwan0 up")
    #expect(try lab.event().to == "cellular")
    // Without a word on what it costs there is neither.
    try lab.outside.ip("link set wwan0 down")
    #expect(try lab.event().to == "other")
    #expect(try lab.connd?.terminate() == 0)
    try lab.startConnd()
    for condition in ["expensive", "not-expensive"] {
      #expect(try lab.connctl("is", condition).status == 1)
    }
    // The cable is free. Had it run before, its line would be there, and so would be its end.
    try lab.namespace.ip("link set eth0 up")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    #expect(try run.nextLine() == "runs")
    #expect(try run.wait() == 0)
    #expect(try lab.status().ipv4.chain == [wireGuard.link, "eth0"])
  }

  @Test("I8 K6 a connection that forbids what is expensive drains when its tunnel moves to a modem")
  func forbidden() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.start()
    let connection = try TCPConnection(
      from: lab.namespace, to: lab.outside, at: "10.8.0.1")
    let flow = try GuardedFlow(
      lab, connection.remoteEndpoint, connection,
      arguments: ["--local", connection.localEndpoint, "--forbid-expensive"])
    // As the uplink's manager does it: of its route that is told.
    try lab.namespace.ip("route del default via 10.0.0.1 dev eth0 metric 100")
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain policy")
    #expect(connection.carries(within: .seconds(60)))
    withExtendedLifetime(wireGuard) {}
  }

  @Test(
    "I8 I4 K6 a cable's network that a user marks is spared below a VPN, and where the VPN moves to it again",
    arguments: ["WireGuard", "OpenVPN"])
  func marked(client: String) throws {
    let lab = try self.laboratory()
    try lab.namespace.run("ping", "-c", "1", "-W", "5", "10.0.0.1")
    let vpn: AnyObject =
      if client == "WireGuard" {
        try WireGuard(lab, to: Uplinks.server)
      } else {
        try OpenVPN(lab, to: Uplinks.server, "udp")
      }
    let status = try lab.start()
    #expect(status.ipv4.chain.last == "eth0" && !status.constrained)
    let flow = try GuardedFlow(
      lab, client == "WireGuard" ? "10.8.0.1" : "10.9.0.1", arguments: ["--forbid-constrained"])
    #expect(try lab.connctl("constrain", "--network", "10.0.0.1").status == 0)
    let marked = try lab.event()
    #expect(marked.event == "path" && marked.status.constrained && !marked.status.expensive)
    #expect(marked.cause?.change == "constrainedSet")
    // What is below is a guess, and ends nothing.
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain policy")

    try lab.namespace.ip("route del default via 10.0.0.1 dev eth0 metric 100")
    let moved = try lab.events { $0.status.ipv4.chain.last == "wwan0" }.last
    #expect(moved?.status.constrained == false && moved?.status.expensive == true)
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    let back = try lab.events { $0.status.ipv4.chain.last == "eth0" }.last
    #expect(back?.status.constrained == true && back?.status.expensive == false)
    withExtendedLifetime(vpn) {}
  }

  @Test("K6 Tailscale's rules with an exit node: the uplink is guessed by the mark")
  func tailscale() throws {
    let lab = try self.laboratory()
    let tun = try TunDevice("tailscale0", in: lab.namespace)
    try lab.namespace.ip("address add 100.64.0.2/32 dev tailscale0")
    try lab.namespace.ip("link set tailscale0 up")
    try lab.start()
    // As tailscaled makes them, the routes of its table last.
    for rule in [
      "5210 fwmark 0x80000/0xff0000 lookup main", "5230 fwmark 0x80000/0xff0000 lookup default",
      "5250 fwmark 0x80000/0xff0000 unreachable", "5270 lookup 52",
    ] { try lab.namespace.ip("rule add priority \(rule)") }
    try lab.namespace.ip("route add default dev tailscale0 table 52")
    let taken = try lab.events { $0.status.interface == "tailscale0" }.last
    #expect(taken?.status.ipv4.chain == ["tailscale0", "eth0"])
    #expect(taken?.status.category == "wired")
    #expect(try lab.connctl("explain").output.contains("with fwmark 0x80000"))

    // The default route moves in another table than the path's.
    try lab.namespace.ip("route add default via 10.1.0.1 dev wwan0 metric 50")
    let moved = try lab.event()
    #expect(moved.to == "cellular" && moved.status.ipv4.chain == ["tailscale0", "wwan0"])
    // And a rule does it.
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 table 100")
    try lab.namespace.ip("rule add priority 5200 fwmark 0x80000/0xff0000 lookup 100")
    #expect(try lab.event().to == "wired")
    withExtendedLifetime(tun) {}
  }

  @Test(
    "K6 I5 I0 OpenVPN is moved to another uplink: connd advises at most, whether bytes come at once (UDP) or late (TCP)",
    arguments: ["udp", "tcp"])
  func openVPN(transport: String) throws {
    let lab = try self.laboratory()
    let vpn = try OpenVPN(lab, to: Uplinks.server, transport)
    let status = try lab.start()
    #expect(status.category == "wired" && status.interface == OpenVPN.link)
    #expect(status.ipv4.chain == [OpenVPN.link, "eth0"])
    let flow = try GuardedFlow(lab, to: "10.9.0.1")
    let connection = try #require(flow.connection)
    #expect(connection.carries(within: .seconds(10)))
    #expect(
      try lab.connctl("explain").output.contains("eth0, the default route without the tunnel"))

    // The route to the server goes with the link, and is made anew, as NetworkManager does.
    try lab.namespace.ip("link set eth0 down")
    try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.1.0.1 dev wwan0")
    let moved = try lab.event()
    #expect(moved.from == "wired" && moved.to == "cellular" && moved.status.expensive)
    #expect(moved.status.ipv4.chain == [OpenVPN.link, "wwan0"])
    #expect(try #require(lab.watcher).nextInvalidation().severity == "advise")
    // Over TCP the outer connection is bound to an address that is gone: OpenVPN notices when its pings are not answered.
    if transport == "tcp" {
      #expect(!connection.carries(within: .milliseconds(700)))
      try vpn.awaitConnection()
    }
    #expect(connection.carries(within: .seconds(20)))
    try flow.expectAlive(in: lab, on: OpenVPN.link, advised: nil)
  }

  @Test(
    "K6 I5 I0 OpenConnect is moved to another uplink: connd advises at most, and bytes come when it has connected anew",
    .enabled(if: OpenConnect.isAvailable, "ocserv is not installed"))
  func openConnect() throws {
    let lab = try self.laboratory()
    let vpn = try OpenConnect(lab, to: Uplinks.server)
    let status = try lab.start()
    #expect(status.category == "wired" && status.interface == OpenConnect.link)
    #expect(status.ipv4.chain == [OpenConnect.link, "eth0"])
    let flow = try GuardedFlow(lab, to: "10.10.0.1")
    let connection = try #require(flow.connection)
    #expect(connection.carries(within: .seconds(10)))

    // Its script has given the server a route by each uplink, with the metrics of the default routes.
    try lab.namespace.ip("link set eth0 down")
    let moved = try lab.event()
    #expect(moved.from == "wired" && moved.to == "cellular" && moved.status.expensive)
    #expect(moved.status.ipv4.chain == [OpenConnect.link, "wwan0"])
    #expect(try #require(lab.watcher).nextInvalidation().severity == "advise")
    // The outer connections are bound to an address that is gone, until the pings are not answered.
    try vpn.awaitConnection()
    #expect(connection.carries(within: .seconds(20)))

    // The script keeps to the modem's route to the server: what connd guesses below is wrong, and still ends nothing.
    try lab.namespace.ip("link set eth0 up")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    let back = try lab.events { $0.status.ipv4.chain.last == "eth0" }.last
    #expect(back?.to == "wired")
    try GuardedFlow.expectSpared([flow]) {
      try lab.namespace.ip("address del \(connection.local)/32 dev \(OpenConnect.link)")
    }
  }
}

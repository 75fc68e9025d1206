import TestKit
import TestTraits
import Testing

/// Real tunnels whose remote end the kernel does not show to unprivileged processes. connd's
/// guesses below, and its verdicts for connections inside, are compared with real traffic.
@Suite(
  "Tunnels", .needsNamespaces, .blocking,
  .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"))
struct TunnelsScenario {
  /// A host with a cable, preferred, and a modem.
  private func laboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "wwan0"])
    // Packets from a tunnel are answered through it.
    try lab.outside.set("net/ipv4/conf/all/rp_filter", "0")
    try lab.outside.set("net/ipv4/conf/default/rp_filter", "0")
    return lab
  }

  @Test(
    "K6 I5 I0 WireGuard with wg-quick: the uplink is guessed by the mark, and a connection survives roaming"
  )
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
    // The kernel's WireGuard roams immediately. wireguard-go keeps sending from the lost address,
    // because the kernel removes a link's routes without a message. It stops at the second
    // unanswered handshake, after 20 s.
    #expect(flow.connection?.carries(within: .seconds(60)) == true)
    try flow.expectAlive(in: lab, on: wireGuard.link, advised: nil)
  }

  @Test("K6 no uplink → nothing is known below the tunnel, and the machine still counts as online")
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
    "I8 K6 a VPN's modem loses its network briefly → work that waits for a free path keeps waiting")
  func heldCost() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.namespace.ip("link set eth0 down")
    #expect(try lab.start().expensive)
    let run = try lab.namespace.spawn([
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
    // Without information on its cost there is neither.
    try lab.outside.ip("link set wwan0 down")
    #expect(try lab.event().to == "other")
    #expect(try lab.connd?.terminate() == 0)
    try lab.startConnd()
    for condition in ["expensive", "not-expensive"] {
      #expect(try lab.connctl("is", condition).status == 1)
    }
    // The cable is free. If the work had run before, its line and its end would be there.
    try lab.namespace.ip("link set eth0 up")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    #expect(try run.nextLine() == "runs")
    #expect(try run.wait() == 0)
    #expect(try lab.status().ipv4.chain == [wireGuard.link, "eth0"])
  }

  @Test("I8 K6 a connection that forbids expensive paths drains when its tunnel moves to a modem")
  func forbidden() throws {
    let lab = try self.laboratory()
    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try lab.start()
    let connection = try TCPConnection(
      from: lab.namespace, to: lab.outside, at: "10.8.0.1")
    let flow = try GuardedFlow(
      lab, connection.remoteEndpoint, connection,
      arguments: ["--local", connection.localEndpoint, "--forbid-expensive"])
    // As the uplink's manager does, because a route's removal is reported.
    try lab.namespace.ip("route del default via 10.0.0.1 dev eth0 metric 100")
    let told = try flow.invalidation()
    #expect("\(told.severity) \(told.reason)" == "drain policy")
    #expect(connection.carries(within: .seconds(60)))
    withExtendedLifetime(wireGuard) {}
  }

  @Test(
    "I8 I4 K6 a user marks a cable's network → data is saved there below a VPN, also when the VPN moves to it again",
    arguments: ["WireGuard", "OpenVPN"])
  func marked(client: String) throws {
    let lab = try self.laboratory()
    try lab.namespace.exchange(with: "10.0.0.1")
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
    #expect(try lab.connctl("constrain", "--network", "10.0.0.1", "on").status == 0)
    let marked = try lab.event()
    #expect(marked.event == "path" && marked.status.constrained && !marked.status.expensive)
    #expect(marked.cause?.change == "constrainedSet")
    // The link below is a guess, and ends nothing.
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
    // As tailscaled makes them, its table's routes last.
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
    // A rule does the same.
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 table 100")
    try lab.namespace.ip("rule add priority 5200 fwmark 0x80000/0xff0000 lookup 100")
    #expect(try lab.event().to == "wired")
    withExtendedLifetime(tun) {}
  }

  @Test(
    "K6 I5 I0 OpenVPN moves to another uplink → at most advised, whether traffic returns fast (UDP) or late (TCP)",
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

    // The route to the server is lost with the link, and added again, as NetworkManager does.
    try lab.namespace.ip("link set eth0 down")
    try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.1.0.1 dev wwan0")
    let moved = try lab.event()
    #expect(moved.from == "wired" && moved.to == "cellular" && moved.status.expensive)
    #expect(moved.status.ipv4.chain == [OpenVPN.link, "wwan0"])
    #expect(try #require(lab.watcher).nextInvalidation().severity == "advise")
    // Over TCP the outer connection is bound to the lost address: OpenVPN notices when its pings
    // stay unanswered.
    if transport == "tcp" {
      #expect(!connection.carries(within: .milliseconds(700)))
      try vpn.awaitConnection()
    }
    #expect(connection.carries(within: .seconds(20)))
    try flow.expectAlive(in: lab, on: OpenVPN.link, advised: nil)
  }

  @Test(
    "K6 I5 I0 OpenConnect moves to another uplink → at most advised, and traffic returns once it has reconnected",
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

    // Its script has added a route to the server over each uplink, with the metrics of the default
    // routes.
    try lab.namespace.ip("link set eth0 down")
    let moved = try lab.event()
    #expect(moved.from == "wired" && moved.to == "cellular" && moved.status.expensive)
    #expect(moved.status.ipv4.chain == [OpenConnect.link, "wwan0"])
    #expect(try #require(lab.watcher).nextInvalidation().severity == "advise")
    // The outer connections are bound to the lost address, until the pings stay unanswered.
    try vpn.awaitConnection()
    #expect(connection.carries(within: .seconds(20)))

    // The script keeps the modem's route to the server: connd's guess below is wrong, and still
    // ends nothing.
    try lab.namespace.ip("link set eth0 up")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    let back = try lab.events { $0.status.ipv4.chain.last == "eth0" }.last
    #expect(back?.to == "wired")
    try GuardedFlow.expectSpared([flow]) {
      try lab.namespace.ip("address del \(connection.local)/32 dev \(OpenConnect.link)")
    }
  }
}

import TestKit
import TestTraits
import Testing

/// `connctl connections`: what it says about real connections, compared with what they carry.
@Suite("Connections", .needsNamespaces, .blocking)
struct ConnectionsScenario {
  /// A line of `connctl connections --json`.
  private struct Listed: Decodable {
    var local: String
    var localPort: Int
    var remotePort: Int
    var state: String
    var reason: String?
    var interface: String?
    var user: Int
    var program: String?

    var localEndpoint: String { "\(self.local):\(self.localPort)" }
    /// The state and its reason.
    var words: String { self.state + (self.reason.map { " \($0)" } ?? "") }
  }

  private func list(_ lab: Laboratory, _ arguments: String...) throws -> [Listed] {
    let command =
      [Programs.connctl, "--socket", lab.socket, "connections", "--json"] + arguments
    let outcome = try Command.outcome(of: lab.namespace.wrapped(command))
    #expect(outcome.standardError == "" || outcome.standardError.hasPrefix("connctl: no "))
    return try outcome.output.split(separator: "\n").map { try decode(String($0)) }
  }

  private func words(_ lab: Laboratory, of connection: TCPConnection) throws -> String? {
    try self.list(lab).first { $0.localEndpoint == connection.localEndpoint }?.words
  }

  private func twoConnections(_ lab: Laboratory) throws -> (TCPConnection, TCPConnection) {
    (
      try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server),
      try TCPConnection(
        from: lab.namespace, to: lab.outside, at: Uplinks.server,
        .init(source: "10.1.0.2", link: "wlan0"))
    )
  }

  @Test(
    "I2 the cable is pulled → its connection is dead and carries nothing, that on Wi-Fi is alive and carries"
  )
  func cablePulled() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    let (cable, wifi) = try self.twoConnections(lab)
    #expect(cable.carries(within: .seconds(10)) && wifi.carries(within: .seconds(10)))
    #expect(try self.words(lab, of: cable) == "alive")
    #expect(try self.words(lab, of: wifi) == "alive")
    let watch = try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "connections", "--watch", "--json"])
    var seen: [String: String] = [:]
    while seen.count < 2 {
      let line: Listed = try decode(try #require(try watch.nextLine(within: .seconds(10))))
      seen[line.localEndpoint] = line.words
    }
    #expect(Set(seen.values) == ["alive"])

    try lab.outside.ip("link set eth0 down")
    _ = try lab.events { $0.status.ipv4.reason == "noCarrier" }
    while true {
      let line: Listed = try decode(try #require(try watch.nextLine(within: .seconds(10))))
      #expect(line.localEndpoint == cable.localEndpoint)
      if line.state == "dead" { break }
    }
    let dead = try self.list(lab, "--dead")
    #expect(dead.map(\.localEndpoint) == [cable.localEndpoint])
    #expect(dead.first?.words == "dead interfaceLost" && dead.first?.interface == "eth0")
    #expect(dead.first?.program != nil)
    #expect(!cable.carries(within: .milliseconds(700)))
    #expect(try self.words(lab, of: wifi) == "alive")
    #expect(wifi.carries(within: .seconds(10)))
    // A network manager removes the dead route, and Wi-Fi takes over.
    try lab.ip("route del default dev eth0")
    #expect(try self.words(lab, of: cable) == "dead interfaceLost")
    #expect(try self.words(lab, of: wifi) == "alive")
    watch.signal(15)
  }

  @Test("I1 the address is removed → dead; it is back → alive again, and it carries")
  func addressMoved() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.start()
    let (cable, wifi) = try self.twoConnections(lab)
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    try waitUntil("the socket has been silent for two round trips") {
      try self.words(lab, of: cable) == "dead sourceAddressLost"
    }
    #expect(try self.words(lab, of: wifi) == "alive")
    #expect(!cable.carries(within: .milliseconds(300)))
    try lab.namespace.ip("address add 10.0.0.2/24 dev eth0")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    #expect(cable.carries(within: .seconds(10)))
    #expect(try self.words(lab, of: cable) == "alive")
  }

  @Test("I10 Wi-Fi loses its carrier → in grace, and alive once it is back")
  func grace() throws {
    let lab = try Uplinks.laboratory(["wlan0"], configuration: "grace: {wifi: 20s}\n")
    try lab.start()
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    try lab.outside.ip("link set wlan0 down")
    _ = try lab.events { $0.status.ipv4.reason == "noCarrier" }
    #expect(try self.words(lab, of: connection) == "inGrace interfaceLost")
    #expect(try self.list(lab, "--dead").isEmpty)
    try lab.outside.ip("link set wlan0 up")
    _ = try lab.events { $0.status.category == "wifi" }
    #expect(try self.words(lab, of: connection) == "alive")
    #expect(connection.carries(within: .seconds(10)))
  }

  @Test("I10 Wi-Fi is away for longer than the grace period → dead")
  func graceOver() throws {
    let lab = try Uplinks.laboratory(["wlan0"], configuration: "grace: {wifi: 100ms}\n")
    try lab.start()
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    try lab.outside.ip("link set wlan0 down")
    try waitUntil("the grace period ends") {
      try self.words(lab, of: connection) == "dead interfaceLost"
    }
    #expect(!connection.carries(within: .milliseconds(700)))
  }

  @Test("I3 traffic moves to a better path → the old connection will not survive, a new one lives")
  func betterPath() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], routes: ["wlan0"])
    try lab.start()
    let old = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(old.local == "10.1.0.2")
    try lab.ip("route add default via 10.0.0.1 dev eth0 metric 50")
    _ = try lab.events { $0.status.interface == "eth0" }
    let new = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    try waitUntil("the change is published") {
      try self.words(lab, of: old) == "willNotSurvive betterPath"
    }
    #expect(!old.carries(within: .milliseconds(700)))
    #expect(try self.words(lab, of: new) == "alive")
    #expect(new.carries(within: .seconds(10)))
  }

  @Test("I3 I2 a better path came and all routes went → dead for the present reason, as Guard said")
  func withoutRoutes() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], routes: ["eth0"])
    try lab.start()
    let unguarded = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try lab.ip("route add default via 10.1.0.1 dev wlan0 metric 50")
    _ = try lab.events { $0.status.interface == "wlan0" }
    try flow.expectDestroyed("betterPath")
    try lab.ip("route del default dev eth0")
    try lab.ip("route del default dev wlan0")
    _ = try lab.events { $0.status.category == "none" }
    for connection in [unguarded, try #require(flow.connection)] {
      try waitUntil("the grace period is over") {
        try self.words(lab, of: connection) == "dead interfaceLost"
      }
    }
    #expect(try self.list(lab, "--dead").count == 2)
  }

  @Test(
    "I10 a route of its own goes, which no default path uses → in grace, and dead, as Guard said")
  func ownRoute() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: [])
    try lab.namespace.ip("route add \(Uplinks.server)/32 via 10.1.0.1 dev eth1")
    try lab.start()
    let unguarded = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let guarded = try #require(flow.connection)
    for connection in [unguarded, guarded] {
      #expect(try self.words(lab, of: connection) == "alive")
    }
    try lab.namespace.ip("route del \(Uplinks.server)/32")
    try flow.expectAdvice("interfaceLost")
    #expect(try self.words(lab, of: guarded) == "inGrace interfaceLost")
    try flow.expectDestroyed("interfaceLost")
    for connection in [unguarded, guarded] {
      #expect(try self.words(lab, of: connection) == "dead interfaceLost")
    }
  }

  @Test("I0 a connection that was heard since the change works on its present path → alive")
  func heardSince() throws {
    let lab = try Uplinks.laboratory(["eth0", "eth1"])
    // The other end answers by any link, as hosts do (the weak host model).
    for link in ["all", "eth0", "eth1"] {
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    try lab.outside.ip("route replace 10.0.0.2/32 via 10.1.0.2 dev eth1")
    try lab.start()
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(connection.local == "10.0.0.2")
    try lab.namespace.ip("route del default dev eth0")
    _ = try lab.events { $0.status.interface == "eth1" }
    #expect(connection.carries(within: .seconds(10)))
    #expect(try self.words(lab, of: connection) == "alive")
  }

  @Test("users see their own connections only, root sees all")
  func users() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let connection = try TCPConnection(from: lab.namespace, to: lab.outside, at: Uplinks.server)
    #expect(try self.list(lab).map(\.localEndpoint) == [connection.localEndpoint])
    let nobody = try Command.outcome(
      of: lab.namespace.wrapped(
        Programs.asNobody([Programs.connctl, "--socket", lab.socket, "connections"])))
    #expect(nobody.output == "" && nobody.standardError == "connctl: no connection\n")
  }
}

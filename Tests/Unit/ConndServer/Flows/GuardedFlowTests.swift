import Connectivity
import ConnectivityRules
import ModelRoutes
import Testing

@testable import ConndServer

@Suite("Guarded flows")
struct GuardedFlowTests {
  @Test("D6 K8 messages wait when flows are due → they are read before the flows are evaluated")
  func wait() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let kernel = loop.kernel
    kernel.untold.append { [.rule(.ipv4)] }
    for work in [.messages, .read] as [Work] {
      loop.loop.perform(work, on: .init(hasMessages: true))
    }
    let readings = loop.count("readings")
    kernel.untold.append { [.rule(.ipv4)] }
    loop.loop.turn()
    #expect(loop.count("readings") == readings + 1 && !loop.loop.isBusy)
  }

  @Test("K8 the third message explains a loss → the flow is not destroyed")
  func lateExplanation() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let routes = kernel.routes
    kernel.setState(of: 2, .down)
    kernel.routes = []
    var lookups = 0
    kernel.refuses = { question in
      guard question == "route 203.0.113.9" else { return false }
      lookups += 1
      guard lookups <= 3 else { return false }
      let isLast = lookups == 3
      kernel.untold.append {
        if isLast {
          kernel.setState(of: 2, .up)
          kernel.routes = routes
        }
        return [.rule(.ipv4)]
      }
      return false
    }
    #expect(!loop.tell().contains { $0.contains("destroy") })
    #expect(lookups > 3)
  }

  @Test("D6 K8 messages never stop → a flow whose link is down is destroyed all the same")
  func endlessMessages() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    kernel.setState(of: 2, .down)
    kernel.routes = []
    kernel.isNeverSilent = true
    #expect(loop.tell() == ["1 destroy interfaceLost"])
  }

  // MARK: - Connections that are not on the known path

  /// wlan0 has 198.51.100.7.
  private func loopWithWiFi() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      kernel.addTunnel(5, "gre1", to: "198.18.0.1")
      try kernel.give("198.51.100.7", to: 3)
    }
  }

  private func knownPath() throws -> KernelPath {
    var path = KernelPath(status: .satisfied, chain: [KernelPath.Link(index: 2, name: "eth0")])
    path.source = try IPAddress(spelt: "192.0.2.7")
    path.sourcePrefixLength = 24
    return path
  }

  @Test("I0 I3 a rule keeps the flow on its link → it stays there, whatever path it knew")
  func keptByRule() throws {
    var loop = try self.loopWithWiFi()
    try loop.kernel.lead("0.0.0.0", 0, .over(3, from: "198.51.100.7"), metric: 600)
    try loop.kernel.pin(.over(3, from: "198.51.100.7", table: 100))
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: try self.knownPath())
        == ["1 path wlan0"])
    #expect(loop.tell() == ["1 advise betterPath"])
    #expect(loop.tell() == [])
    loop.kernel.rules = []
    #expect(loop.tell() == ["1 drain betterPath"])
    #expect(loop.turn(after: .seconds(1)) == ["1 destroy betterPath"])
  }

  @Test("I3 a better path is there for less than a second → the flow drains, and lives")
  func strayDefault() throws {
    var loop = try self.loopWithWiFi()
    #expect(try loop.guardFlow(1, local: "192.0.2.7", port: 40_000) == ["1 path eth0"])
    let usual = loop.kernel.routes
    try loop.kernel.lead(
      "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 1)
    #expect(loop.tell() == ["1 drain betterPath"])
    #expect(loop.turn(after: .milliseconds(400)) == [])
    loop.kernel.routes = usual
    #expect(loop.tell().count == 1)
    #expect(loop.turn(after: .seconds(5)) == [])
    #expect(!loop.loop.engine.flows.isEmpty)
  }

  @Test("I3 better paths follow each other → the flow is destroyed a second after the first")
  func strayDefaults() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.addLink(4, "eth1")
    #expect(try loop.guardFlow(1, local: "192.0.2.7", port: 40_000) == ["1 path eth0"])
    try loop.kernel.lead(
      "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 2)
    #expect(loop.tell() == ["1 drain betterPath"])
    loop.clock.instant = loop.clock.instant.advanced(by: .milliseconds(600))
    try loop.kernel.lead("0.0.0.0", 0, .over(4, via: "10.9.0.1", from: "10.9.0.2"), metric: 1)
    _ = loop.tell()
    #expect(loop.turn(after: .milliseconds(400)) == ["1 destroy betterPath"])
  }

  @Test(
    "I3 the route moves between connecting and registering → the registration reports the better path"
  )
  func movedMeanwhile() throws {
    var loop = try self.loopWithWiFi()
    var made = try self.knownPath()
    made.chain = [KernelPath.Link(index: 3, name: "wlan0")]
    made.source = try IPAddress(spelt: "198.51.100.7")
    try loop.kernel.lead(
      "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 600)
    let told = try loop.guardFlow(1, local: "198.51.100.7", port: 40_000, known: made)
    #expect(told == ["1 destroy betterPath late wlan0"])
    // Without a known path, the flow is on the current one.
    #expect(try loop.guardFlow(2, local: "198.51.100.7", port: 40_000) == ["2 path eth0"])
    #expect(loop.tell() == [])
  }

  @Test(
    "I0 only its address leads a new connection elsewhere → no change",
    arguments: [nil, 40_000 as UInt16])
  func ledByAddress(port: UInt16?) throws {
    var loop = try self.loopWithWiFi()
    let eth0 = try self.knownPath()
    // ip rule add from 192.0.2.7 lookup 100
    try loop.kernel.pin(.over(3, via: "198.51.100.1", from: "192.0.2.7", table: 100))
    let told = try loop.guardFlow(1, local: "192.0.2.7", port: port, known: eth0)
    #expect(told == ["1 path wlan0"])
    #expect(!loop.tell().contains { $0.contains("destroy") })
  }

  @Test("I0 only its port leads a new connection elsewhere → no change")
  func ledByPort() throws {
    var loop = try self.loopWithWiFi()
    let eth0 = try self.knownPath()
    try loop.kernel.direct(
      .localPorts(40_000...40_001), .over(3, via: "198.51.100.1", from: "192.0.2.7", table: 100))
    #expect(
      try loop.guardFlow(1, local: "192.0.2.7", port: 40_000, known: eth0) == ["1 path wlan0"])
    #expect(loop.tell() == [])
  }

  @Test("I0 a connection from another link's address may work → it is kept")
  func foreignAddress() throws {
    var loop = try self.loopWithWiFi()
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: try self.knownPath())
        == ["1 path eth0"])
    #expect(loop.tell() == [])
  }

  @Test("I5 the category changes → a flow whose own way remains is kept")
  func categoryChanged() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.device.type = "wlan"
    try loop.kernel.pin(.over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    #expect(try loop.guardFlow(1, local: "192.0.2.7") == ["1 path eth0"])
    try loop.kernel.lead("0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"))
    #expect(loop.tell() == ["1 advise betterPath"])
    #expect(loop.loop.engine.snapshot.status.category == .wifi)
    #expect(loop.invalidations.contains("destroy categoryChanged"))
  }

  /// Flow 1 belongs to wlan0, and was registered without a path.
  private func guardWithoutPath(in loop: inout TestLoop) throws {
    loop.kernel.routes = []
    _ = loop.tell()
    #expect(
      try loop.guardFlow(1, local: "198.51.100.7", known: .unsatisfied(.noRoute))
        == ["1 advise interfaceLost late none"])
  }

  @Test("I0 a connection registered without a path takes the first path there is")
  func knownWithoutPath() throws {
    var loop = try self.loopWithWiFi()
    try self.guardWithoutPath(in: &loop)
    try loop.kernel.lead("198.18.0.1", 32, .over(3, from: "198.51.100.7"))
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 path gre1"])
  }

  @Test("I10 a connection registered without a path gets its own link's grace period")
  func knownWithoutPathOnWiFi() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.device.type = "wlan"
    try self.guardWithoutPath(in: &loop)
    loop.kernel.setState(of: 3, .noCarrier)
    try loop.kernel.lead("203.0.113.0", 24, .over(3, from: "198.51.100.7"))
    #expect(loop.tell() == ["1 path wlan0 requiresConnection"])
  }

  @Test("I3 an address on a dummy belongs to the machine, whichever way the traffic goes")
  func addressOfDummy() throws {
    var loop = try self.loopWithWiFi()
    loop.kernel.linkTable[3]?.link.kind = "dummy"
    #expect(try loop.guardFlow(1, local: "198.51.100.7") == ["1 path eth0"])
    #expect(loop.tell() == [])
    loop.kernel.take("198.51.100.7")
    #expect(loop.tell() == ["1 advise sourceAddressLost"])
    #expect(loop.turn(after: .seconds(1)) == ["1 destroy sourceAddressLost"])
  }

  @Test(
    "I2 a failed link below the one that the flow was made on counts, whichever way the traffic goes now"
  )
  func linkBelow() throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(6, "vlan5")
      kernel.addTunnel(5, "gre1", to: "198.18.0.1")
    }
    var known = try self.knownPath()
    known.chain = [
      KernelPath.Link(index: 6, name: "vlan5"), KernelPath.Link(index: 2, name: "eth0"),
    ]
    // When the lower link is set down, the vlan goes down, too.
    for link: UInt32 in [2, 6] { loop.kernel.setState(of: link, .down) }
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(try loop.guardFlow(1, known: known) == ["1 destroy interfaceLost late vlan5"])
  }

  // MARK: - IgnoredLinks

  @Test("T3 I3 a link that a flow is bound to is watched, even if no route leads there")
  func boundToNewLink() throws {
    var loop = try TestLoop.started()
    // Routes to the server already pass the filter.
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    _ = loop.tell()
    var new = Link(index: 7, name: "b0")
    new.isNew = true
    #expect(loop.tell([.link(new)]) == [])
    let readings = loop.count("readings")
    loop.kernel.addLink(7, "b0")
    #expect(loop.tell([.link(Link(index: 7, name: "b0"))]) == [])
    #expect(loop.count("readings") == readings)

    #expect(try loop.guardFlow(2, boundTo: 7) == ["2 path none unsatisfied"])
    loop.kernel.bound[7] = .over(7, from: "192.0.2.9")
    #expect(loop.tell([.link(Link(index: 7, name: "b0"))]) == ["2 path b0"])
  }

  @Test("D4 links that a client invents are not stored")
  func inventedLinks() throws {
    var loop = try TestLoop.started()
    var known = try self.knownPath()
    known.chain += [KernelPath.Link(index: 4711, name: "none")]
    _ = try loop.guardFlow(1, known: known)
    _ = loop.tell()
    var new = Link(index: 4711, name: "veth0")
    new.isNew = true
    // The link is ignored: no flow uses it.
    let matters = loop.loop.engine.context.subscriptions.ignoredLinks.mayMatter([.link(new)])
    #expect(!matters)
  }
}

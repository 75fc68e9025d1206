import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink
import Testing

@testable import ConndServer

/// Tunnels live as long as their remote ends can be reached.
extension EngineTests {
  @Test(
    "K6 I0 a tunnel whose remote end has several next hops lives as long as one of them carries traffic"
  )
  func tunnelOverLegs() throws {
    self.kernel.linkTable[2] = self.eth0
    self.kernel.addLink(3, "eth1")
    self.kernel.addTunnel(5, "gre1", to: "198.51.100.1")
    try self.kernel.lead("0.0.0.0", 0, .over(5, via: "10.0.0.1", from: "10.0.0.7"))
    try self.kernel.spread(
      "198.51.100.1", 32,
      over: [self.route("192.0.2.1"), .over(3, via: "192.0.3.1", from: "192.0.3.7")])
    var engine = Engine(Configuration(), restored: nil)
    func path(_ second: Int) throws -> KernelPath? {
      _ = try self.step(&engine, .events([]), second)
      return engine.snapshot.status.path
    }
    #expect(try path(0)?.chain.map(\.name) == ["gre1", "eth0"])
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try path(1)?.chain.map(\.name) == ["gre1", "eth1"])
    #expect(engine.snapshot.status.path.status == .satisfied)
    self.kernel.setState(of: 3, .noCarrier)
    #expect(try path(2)?.chain.map(\.name) == ["gre1", "eth0"])
    #expect(engine.snapshot.status.path.reason == .noCarrier)
  }

  @Test(
    "K6 I0 a UDP tunnel whose remote end is reached by a source-port rule lives, although a lookup without a port fails"
  )
  func tunnelBySourcePort() throws {
    self.kernel.linkTable[2] = self.eth0
    self.kernel.addTunnel(5, "vx0", to: "198.51.100.1")
    self.kernel.linkTable[5]?.link.kind = "vxlan"
    self.kernel.linkTable[5]?.link.outer?.transport = Transport(17, remotePort: 4789)
    try self.kernel.lead("0.0.0.0", 0, .over(5, via: "10.0.0.1", from: "10.0.0.7"))
    var engine = Engine(Configuration(), restored: nil)
    func path(_ second: Int) throws -> KernelPath {
      _ = try self.step(&engine, .events([]), second)
      return engine.snapshot.status.path
    }
    try self.kernel.lead("198.51.100.1", 32, .noRoute(.unreachable))
    #expect(try path(0).reason == .unreachable)
    try self.kernel.direct(
      .localPorts(32768...46000), .over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    #expect(try path(1).chain.map(\.name) == ["vx0", "eth0"])
    #expect(engine.snapshot.status.path.status == .satisfied)
    self.kernel.setState(of: 2, .noCarrier)
    #expect(try path(2).status == .requiresConnection)
  }

  @Test(
    "K6 D6 routes to a tunnel's remote end pass the filter and cause the path to be read again"
  )
  func tunnelEnd() throws {
    let remote = try #require(IPAddress("198.51.100.1"))
    self.kernel.linkTable = [
      2: self.eth0,
      5: LinkFacts(
        Link(
          index: 5, name: "gre1", kind: "gre", hardwareType: 778, flags: [.up, .lowerUp],
          outer: Destination(remote))),
    ]
    try self.kernel.lead("0.0.0.0", 0, .over(5, via: "10.0.0.1", from: "10.0.0.7"))
    try self.kernel.lead("198.51.100.1", 32, self.route("192.0.2.1"))
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    #expect(engine.context.subscriptions.isWider)
    #expect(engine.filterSpec.destinations.contains(remote))
    let missed = try engine.acceptFilter(self.kernel)
    #expect(missed == [])
    _ = try self.step(&engine, .events([]), 1)
    #expect(!engine.context.subscriptions.isWider)
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Flows, and tunnels that lead nowhere")
struct TunnelledFlowTests {
  /// The link below gre1 has no carrier. Nothing leads into gre1 yet.
  private func loopWithDeadTunnel() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(3, "eth1", hasCarrier: false)
      kernel.addTunnel(5, "gre1", to: "198.51.100.1")
      try kernel.lead("198.51.100.1", 32, .over(3, from: "198.51.100.7"))
    }
  }

  @Test(
    "I3 I10 a tunnel that leads nowhere takes over no flow; when it works, it is the better path")
  func deadTunnel() throws {
    var loop = try self.loopWithDeadTunnel()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 advise interfaceLost"])
    // A new connection is evidence itself (I0): it is not refuted, and gets the route's grace
    // period like the others.
    #expect(
      try loop.guardFlow(2, local: "192.0.2.7") == ["2 advise interfaceLost late gre1"])
    loop.kernel.addLink(3, "eth1")
    #expect(loop.tell().sorted() == ["1 drain betterPath", "2 path gre1"])
  }

  @Test(
    "I10 a tunnel leads nowhere for longer than the route's grace period → the flows it captures are destroyed"
  )
  func deadTunnelForLong() throws {
    var loop = try self.loopWithDeadTunnel()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: .milliseconds(999)) == [])
    #expect(loop.turn(after: .milliseconds(1)) == ["1 destroy interfaceLost"])
  }

  /// Flow 1 is inside gre1, which is above eth1.
  private func loopWithFlowInTunnel() throws -> TestLoop {
    var loop = try self.loopWithDeadTunnel()
    loop.kernel.addLink(3, "eth1")
    try loop.kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    #expect(try loop.guardFlow(1) == ["1 path gre1"])
    return loop
  }

  @Test("I5 the path below a tunnel moves → a flow inside survives")
  func insideTunnel() throws {
    var loop = try self.loopWithFlowInTunnel()
    // In one step, without a gap.
    try loop.kernel.lead("198.51.100.1", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    #expect(loop.tell() == ["1 path gre1"])
    loop.kernel.addLink(3, "eth1", hasCarrier: false)
    #expect(loop.tell() == [])
  }

  @Test(
    "I5 I10 a failure below a tunnel is a missing route to flows inside: back or rerouted in time, it ends nothing",
    arguments: ["back", "round", "gone"])
  func belowTunnel(outcome: String) throws {
    var loop = try self.loopWithFlowInTunnel()
    loop.kernel.addLink(3, "eth1", hasCarrier: false)
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: .milliseconds(999)) == [])
    switch outcome {
    case "back": loop.kernel.addLink(3, "eth1")
    case "round":
      try loop.kernel.lead("198.51.100.1", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    default:
      #expect(loop.turn(after: .milliseconds(1)) == ["1 destroy interfaceLost"])
      return
    }
    #expect(loop.tell() == ["1 path gre1"])
    #expect(loop.turn(after: .seconds(2)) == [])
  }

  @Test("I3 I10 a tunnel that leads nowhere does not take over the default path")
  func deadDefaultTunnel() throws {
    var loop = try self.loopWithDeadTunnel()
    try loop.kernel.lead("0.0.0.0", 0, .over(5, from: "10.0.0.2"))
    #expect(loop.tell() == [])
    #expect(loop.loop.engine.snapshot.status.category == NetworkCategory.offline)
    #expect(loop.invalidations == ["advise interfaceLost", "advise categoryChanged"])
    loop.kernel.addLink(3, "eth1")
    #expect(loop.tell() == [])
    #expect(
      loop.invalidations.dropFirst(2) == ["destroy betterPath", "destroy categoryChanged"])
  }
}

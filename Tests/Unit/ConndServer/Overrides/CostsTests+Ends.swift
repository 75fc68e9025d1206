import Connectivity
import ConnectivityRules
import Logging
import Netlink
import TestKit
import Testing

@testable import ConndServer

/// How overrides end.
extension CostsTests {
  @Test("an override ends by the clock, or on leaving the network")
  mutating func ends() throws {
    try self.set(.link("eth0"), constrained: .on, end: .after(.seconds(60)))
    try self.set(.network("192.0.2.1"), expensive: .on, end: .left)
    #expect(self.last == "constrained, expensive: expensiveSet uid 1000")
    let due = try #require(self.loop.loop.due)
    #expect(self.loop.clock.now.duration(to: due) == .seconds(60))
    self.loop.clock.wall = self.loop.clock.wall.advanced(by: .seconds(60))
    _ = self.loop.turn(after: .seconds(60))
    #expect(self.last == "expensive: choiceEnded")
    #expect(self.loop.loop.due == nil)
    // Being offline for a while is not leaving.
    self.loop.kernel.setState(of: 2, .down)
    _ = self.loop.tell()
    self.loop.kernel.setState(of: 2, .up)
    _ = self.loop.tell()
    #expect(self.loop.loop.feed.store.snapshot.status.isMetered)
    self.loop.kernel.addLink(3, "eth1")
    try self.loop.kernel.lead(
      "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 50)
    try Self.setRouter("198.51.100.1", on: 3, to: 3, self.loop)
    _ = self.loop.tell()
    #expect(try self.list() == ["198.51.100.1 here"])
  }

  @Test("an override until leaving, and another family's router answers first → the override stays")
  mutating func otherFamilyFirst() throws {
    let kernel = self.loop.kernel
    try self.set(.network("192.0.2.1"), expensive: .on, end: .left)
    kernel.neighbours = [:]
    try kernel.lead("::", 0, .over(2, via: "fe80::1", from: "2001:db8::7"), metric: 100)
    try Self.setRouter("fe80::1", on: 2, to: 7, self.loop)
    self.loop.kernel.setState(of: 2, .down)
    _ = self.loop.tell()
    self.loop.kernel.setState(of: 2, .up)
    _ = self.loop.tell()
    try Self.setRouter("192.0.2.1", on: 2, to: 1, self.loop)
    _ = self.loop.tell(kernel.neighbours.values.map { .neighbour($0) })
    #expect(self.loop.loop.feed.store.snapshot.status.isMetered)
  }

  @Test("an override until leaving → a turn without news does not query the kernel")
  mutating func idleTurns() throws {
    try self.set(.network("192.0.2.1"), expensive: .on, end: .left)
    _ = self.loop.turn()
    let readings = self.loop.kernel.questions
    _ = self.loop.turn()
    #expect(self.loop.kernel.questions == readings)
  }

  @Test("an override for a minute lasts a minute, whatever the clock is set to")
  mutating func clockStep() throws {
    try self.set(.link("eth0"), constrained: .on, end: .after(.seconds(60)))
    for step in [63_072_000, -126_144_000] {
      self.loop.clock.wall = self.loop.clock.wall.advanced(by: .seconds(step))
      _ = self.loop.turn()
      #expect(self.loop.loop.feed.store.snapshot.status.isConstrained)
      let due = try #require(self.loop.loop.due)
      #expect(self.loop.clock.now.duration(to: due) == .seconds(60))
    }
    self.loop.clock.wall = self.loop.clock.wall.advanced(by: .seconds(60))
    _ = self.loop.turn(after: .seconds(60))
    #expect(self.last.hasSuffix("choiceEnded"))
  }

  @Test("each property of an entry has its own end")
  mutating func endsApart() throws {
    try self.set(.link("eth0"), constrained: .on, end: .after(.seconds(60)))
    try self.set(.link("eth0"), expensive: .off)
    try self.set(.network("192.0.2.1"), constrained: .on)
    try self.set(.network("192.0.2.1"), expensive: .on, end: .after(.seconds(60)))
    self.loop.clock.wall = self.loop.clock.wall.advanced(by: .seconds(60))
    _ = self.loop.turn(after: .seconds(60))
    #expect(try self.list() == ["192.0.2.1 here constrained", "eth0 not-expensive"])
    #expect(self.loop.loop.due == nil)
    // To remove an end, a user sets that property again.
    try self.set(.link("eth0"), expensive: .off, end: .after(.seconds(60)))
    try self.set(.link("eth0"), expensive: .off)
    #expect(self.loop.loop.due == nil)
  }

  @Test("an override until leaving a network that the machine is not on → refused")
  mutating func notThere() throws {
    #expect(throws: CostRequest.Refusal.self) {
      try self.set(.network("Elsewhere"), expensive: .on, end: .left)
    }
    // A gateway's address identifies only a network that it is the gateway of now. It is not an
    // SSID.
    #expect(throws: CostRequest.Refusal.self) {
      try self.set(.network("198.51.100.1"), expensive: .on)
    }
    #expect(try self.list() == ["192.0.2.1 here"])
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// Flows share the answers about their ways.
extension FlowReaderTests {
  @Test("D6 flows with the same answer share their way and its queries")
  func shared() throws {
    let reader = self.reader
    let flowPath = try reader.flowPath(to: self.flow)
    let before = self.kernel.questions
    for last in 1...100 {
      var other = self.flow
      other.address = try IPAddress(spelt: "198.18.0.\(last)")
      #expect(try reader.flowPath(to: other) === flowPath)
      var same = flowPath
      _ = try reader.reading(of: other, madeOn: self.made, &same)
    }
    // One query for each flow, for the owner of its address, and one for what new connections get.
    #expect(self.kernel.questions - before <= 100 + 4)
  }

  @Test("K6 neighbours behind a bridge may be behind different ports, so their flows share no way")
  func neighbours() throws {
    self.kernel.addStack(4, "br0", kind: "bridge", over: [2, 3])
    try self.kernel.lead("10.0.0.0", 24, .over(4, from: "10.0.0.7"))
    for (last, port) in [(1, 2), (2, 3)] as [(UInt8, UInt32)] {
      let address = try IPAddress(spelt: "10.0.0.\(last)")
      self.kernel.neighbours[address] = Neighbour(address, link: 4, hardwareAddress: [last])
      self.kernel.learnt[[last]] = port
    }
    let reader = self.reader
    let flowPaths = try ["10.0.0.1", "10.0.0.2", "10.0.0.1"].map {
      try reader.flowPath(to: Destination(try IPAddress(spelt: $0)))
    }
    #expect(flowPaths[0] !== flowPaths[1] && flowPaths[0] === flowPaths[2])
    #expect(flowPaths.map { $0.shown.chain.last?.name } == ["eth0", "eth1", "eth0"])
  }
}

import Connectivity
import Testing

@testable import ConndServer

@Suite("Gateways and tunnels' ends")
struct GatewaysTests {
  private let kernel = ModelKernel()
  private let gateways = Gateways()

  private func path(over tunnel: UInt32, to end: UInt32) throws -> PathFacts {
    self.kernel.addTunnel(tunnel, "gre\(tunnel)", to: "10.0.\(end / 256).\(end % 256)")
    return PathFacts(
      destination: try IPAddress(spelt: "203.0.113.9"), answer: .noRoute(.noRoute),
      links: [try #require(self.kernel.linkTable[tunnel])])
  }

  @Test(
    "K6 D7 with many tunnels in use nothing is new when they are used again",
    arguments: [(65, 65), (1100, 1024)] as [(UInt32, Int)])
  func manyTunnels(tunnels: UInt32, followed: Int) throws {
    let paths = try (1...tunnels).map { try self.path(over: $0, to: $0) }
    for path in paths { self.gateways.use(path) }
    #expect(self.gateways.isNew)
    #expect(try self.gateways.filterIsSet(self.kernel) == [])
    for path in paths { self.gateways.use(path) }
    #expect(!self.gateways.isNew)
    #expect(self.gateways.tunnelEnds.count == followed)
  }

  @Test("D6 a tunnel's end is forgotten with the last link that leads there")
  func tunnelRemoved() throws {
    let (first, second) = (try self.path(over: 5, to: 1), try self.path(over: 6, to: 1))
    self.gateways.use(first)
    self.gateways.use(second)
    self.gateways.note([.linkRemoved(first.links[0].link)])
    #expect(self.gateways.tunnelEnds == [try IPAddress(spelt: "10.0.0.1")])
    self.gateways.note([.linkRemoved(second.links[0].link)])
    #expect(self.gateways.tunnelEnds.isEmpty)
  }

  @Test("I4 after its link's message a gateway is asked for again, and the filter keeps the old")
  func askedAgain() throws {
    let address = try IPAddress(spelt: "192.0.2.1")
    func known() throws -> UInt8? {
      try self.gateways.hardwareAddress(
        of: Gateway(link: 2, address: address), from: self.kernel)?.last
    }
    func neighbour(_ last: UInt8) -> Neighbour {
      Neighbour(address, link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
    }
    self.kernel.neighbours[address] = neighbour(7)
    #expect(try known() == 7)
    _ = try self.gateways.filterIsSet(self.kernel)

    self.kernel.neighbours = [:]
    #expect(try known() == 7)
    self.gateways.note([.link(Link(index: 3, name: "eth1"))])
    #expect(try known() == 7)
    self.gateways.note([.link(Link(index: 2, name: "eth0"))])
    #expect(try known() == nil)
    #expect(self.gateways.all == [neighbour(7)] && !self.gateways.isNew)

    self.kernel.neighbours[address] = neighbour(8)
    #expect(try known() == 8)
    #expect(self.gateways.all == [neighbour(8)] && self.gateways.isNew)
    // It is sure now.
    self.kernel.neighbours = [:]
    #expect(try known() == 8)
  }
}

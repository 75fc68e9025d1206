import Connectivity
import Testing

@testable import ConndServer
@testable import ConnectivityRules
@testable import Connectivity

@Suite("Kernel subscriptions")
final class KernelSubscriptionsTests {
  private let kernel = ModelKernel()
  private var subscriptions = KernelSubscriptions()

  private func acceptFilter() throws -> [KernelEvent]? {
    let view = KernelView(self.kernel, ReadingContext(subscriptions: self.subscriptions))
    defer { self.subscriptions = view.subscriptions }
    return try view.acceptFilter()
  }

  private func path(over tunnel: UInt32, to end: UInt32) throws -> PathFacts {
    let address = "10.0.\(end / 256).\(end % 256)"
    self.kernel.addTunnel(tunnel, "gre\(tunnel)", to: address)
    var facts = PathFacts(
      destination: try IPAddress(spelt: "203.0.113.9"), answer: .noRoute(.noRoute),
      links: [try #require(self.kernel.linkTable[tunnel])])
    facts.tunnelEnds = [.init(link: tunnel, address: try IPAddress(spelt: address))]
    return facts
  }

  @Test(
    "K6 D7 many tunnels are in use → using them again adds nothing to the filter",
    arguments: [(65, 65), (1100, 1024)] as [(UInt32, Int)])
  func manyTunnels(tunnels: UInt32, followed: Int) throws {
    let paths = try (1...tunnels).map { try self.path(over: $0, to: $0) }
    for path in paths { self.subscriptions.use(path) }
    #expect(self.subscriptions.isWider)
    #expect(try self.acceptFilter() == [])
    for path in paths { self.subscriptions.use(path) }
    #expect(!self.subscriptions.isWider)
    #expect(self.subscriptions.tunnelEnds.count == followed)
  }

  @Test("D6 a tunnel's remote end is forgotten with the last link that leads there")
  func tunnelRemoved() throws {
    let (first, second) = (try self.path(over: 5, to: 1), try self.path(over: 6, to: 1))
    self.subscriptions.use(first)
    self.subscriptions.use(second)
    self.subscriptions.note([.linkRemoved(first.links[0].link)])
    #expect(self.subscriptions.tunnelEnds == [try IPAddress(spelt: "10.0.0.1")])
    self.subscriptions.note([.linkRemoved(second.links[0].link)])
    #expect(self.subscriptions.tunnelEnds.isEmpty)
  }
}

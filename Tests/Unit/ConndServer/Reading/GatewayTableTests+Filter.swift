import Connectivity
import Testing

@testable import ConndServer
@testable import ConnectivityRules
@testable import Connectivity

/// The filter passes what tells networks apart, and nothing else.
extension GatewayTableTests {
  @Test(
    "I4 D7 the filter uses the last reported router; verdicts use only what is certain")
  func heard() throws {
    func heard() -> UInt8? { self.networks.gateways.first?.hardwareAddress?.last }
    #expect(try self.identity().gatewayHardwareAddress?.last == 7)
    #expect(self.networks.isNew && heard() == 7)
    #expect(try self.acceptFilter() == [])
    #expect(!self.networks.isNew)

    // Wi-Fi forgets its neighbours when it roams.
    try self.replug()
    self.have(nil)
    #expect(try self.identity().gatewayHardwareAddress == nil)
    #expect(!self.networks.isNew && heard() == 7, "it would be told of another")
    // It finds the same router again.
    self.have(7)
    #expect(try self.identity().gatewayHardwareAddress?.last == 7)
    #expect(!self.networks.isNew)

    self.tell(8)
    #expect(self.networks.isNew && heard() == 8)
    #expect(try self.identity().gatewayHardwareAddress?.last == 8)
  }

  @Test("I4 a change that the filter dropped before it knew the gateway is made up for")
  func heldBack() throws {
    _ = try self.identity()
    self.have(8)
    #expect(
      try self.acceptFilter() == [.neighbour(self.router(8))])
    self.kernel.neighbours[self.gateway] = Neighbour(self.gateway, link: 2, isFailed: true)
    #expect(try self.acceptFilter().count == 1)
  }

  @Test("I4 without a carrier the gateway is not queried; once the carrier is back, it is")
  func withoutCarrier() throws {
    let before = try self.identity()
    self.kernel.setState(of: 2, .noCarrier)
    let asked = self.kernel.asked.count
    _ = try self.identity()
    #expect(!self.kernel.asked[asked...].contains { $0.hasPrefix("neighbour") })
    self.have(8)
    self.kernel.setState(of: 2, .up)
    #expect(try self.fate(since: before) == "other")
  }

  @Test("I4 a known gateway is not queried again while no message arrives")
  func askedOnce() throws {
    _ = try self.identity()
    _ = try self.identity()
    #expect(self.kernel.asked.count { $0.hasPrefix("neighbour") } == 1)
  }
}

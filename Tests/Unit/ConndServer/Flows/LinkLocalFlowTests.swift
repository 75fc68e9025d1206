import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// Every link has its own link-local network (RFC 4007): the address alone does not say which host
/// is meant.
@Suite("Connections to link-local addresses")
struct LinkLocalFlowTests {
  /// Both eth0 and wlan0 lead to fe80::/64, and the kernel names eth0.
  private func loop() throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      try kernel.give("fe80::2", to: 2)
      try kernel.give("fe80::3", to: 3)
      try kernel.lead("fe80::", 64, .over(2, from: "fe80::2"), metric: 256)
      kernel.bound[2] = .over(2, from: "fe80::2")
      kernel.bound[3] = .over(3, from: "fe80::3")
    }
  }

  private func guardFlow(
    _ loop: inout TestLoop, from local: String? = nil, boundTo link: UInt32? = nil
  ) throws -> [String] {
    let remote = Destination(try IPAddress(spelt: "fe80::77"), outLink: link)
    let flow = Flow(remote, local: try local.map { try IPAddress(spelt: $0) })
    loop.loop.guards.enqueue(.add(.init(key: .init(mailbox: 1, id: 1), flow: flow)))
    loop.loop.turn()
    return loop.mailbox.take()
  }

  private let refusal = [
    "1 refused add.interface: fe80::77 is link-local: set its interface"
  ]

  @Test(
    "I0 the link is the one the client names, or the only one with the connection's own address")
  func placed() throws {
    var loop = try self.loop()
    #expect(try self.guardFlow(&loop, boundTo: 3) == ["1 path wlan0"])
    loop = try self.loop()
    #expect(try self.guardFlow(&loop, from: "fe80::3") == ["1 path wlan0"])
    loop.kernel.bound[2] = nil
    loop.kernel.setState(of: 2, .down)
    #expect(loop.tell() == [])
    loop.kernel.setState(of: 3, .down)
    #expect(loop.tell() == ["1 destroy interfaceLost"])
  }

  @Test("I0 the link cannot be determined → the flow is refused")
  func refused() throws {
    var loop = try self.loop()
    #expect(try self.guardFlow(&loop) == self.refusal)
    #expect(try self.guardFlow(&loop, from: "2001:db8::2") == self.refusal)
    try loop.kernel.give("fe80::3", to: 2)
    #expect(try self.guardFlow(&loop, from: "fe80::3") == self.refusal)
    #expect(loop.loop.engine.flows.isEmpty)
  }

  @Test("I1 no link has the connection's own address → the flow is destroyed")
  func addressGone() throws {
    var loop = try self.loop()
    loop.kernel.take("fe80::3")
    let told = try self.guardFlow(&loop, from: "fe80::3")
    #expect(told.first?.hasPrefix("1 destroy sourceAddressLost") == true, "\(told)")
  }

  @Test("K8 I0 the kernel cannot be asked → the link is determined when it can be")
  func blind() throws {
    var loop = try self.loop()
    loop.kernel.isGone = true
    #expect(try self.guardFlow(&loop) == ["1 path none unknown"])
    loop.kernel.isGone = false
    #expect(loop.turn(after: .seconds(1)) == self.refusal)
    #expect(loop.loop.engine.flows.isEmpty)
  }
}

import Connectivity
import ModelRoutes
import Testing

@testable import ConndServer

@Suite("Kernel view")
struct KernelViewTests {
  private let kernel = ModelKernel()
  private let local: IPAddress
  private let remote: Destination

  init() throws {
    self.local = try IPAddress(spelt: "192.0.2.7")
    self.remote = Destination(try IPAddress(spelt: "203.0.113.9"))
    self.kernel.addLink(2, "eth0")
    try self.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
  }

  private var view: KernelView { KernelView(self.kernel) }

  @Test("D6 each thing is asked once a turn, even if it does not exist")
  func once() throws {
    let view = self.view
    for _ in 0..<3 {
      _ = try view.route(to: self.remote)
      _ = try view.entry(for: self.remote)
      _ = try view.entry(for: Destination(try IPAddress(spelt: "2001:db8::9")))
      _ = try (view.link(2), view.link(99), view.links(), view.addresses())
      _ = try (view.address(self.local, on: 2), view.address(self.local, on: 99))
      _ = try (view.neighbour(self.local, on: 2), view.owner(of: self.local))
      _ = try view.owner(of: self.remote.address)
    }
    #expect(Set(self.kernel.asked).count == self.kernel.asked.count)
    _ = try view.routeAnew(to: self.remote)
    #expect(self.kernel.asked.last == "route 203.0.113.9")
    let before = self.kernel.questions
    _ = try self.view.link(2)
    #expect(self.kernel.questions == before + 1, "another turn asks anew")
  }

  // MARK: - Owners of addresses

  @Test("I0 an address belongs to the link that the local table names")
  func owner() throws {
    #expect(try self.view.owner(of: self.local) == 2)
    #expect(try self.view.owner(of: self.remote.address) == nil)
  }

  @Test("I0 all addresses of a block that is local as a whole are this machine's")
  func anyIP() throws {
    self.kernel.localBlocks = [try IPPrefix(spelt: "203.0.113.0", 24)]
    #expect(try self.view.owner(of: self.remote.address) == 1)
  }

  @Test(
    "I0 I1 an address that its link no longer has is gone, even if the local table still has it")
  func leaving() throws {
    self.kernel.take("192.0.2.7")
    self.kernel.leaving[self.local] = 2
    #expect(try self.view.owner(of: self.local) == nil)
    // Another link has it, too.
    self.kernel.give(self.local, to: 3)
    #expect(try self.view.owner(of: self.local) == 3)
  }

  @Test("I0 K2 in a VRF, whose local table differs, an address is found among all")
  func vrf() throws {
    self.kernel.inVRF = [self.local]
    #expect(try self.view.owner(of: self.local) == 2)
    self.kernel.take("192.0.2.7")
    #expect(try self.view.owner(of: self.local) == nil)
  }

  // MARK: - Source-specific routes

  private func leadFrom(_ prefix: String) throws {
    try self.kernel.lead(
      "::", 0, .over(2, via: "fe80::1", from: "2001:db8:1::7"), from: IPPrefix(spelt: prefix, 48))
  }

  @Test("K2 an IPv6 lookup without a source fails → it is repeated with a global address")
  func sourceSpecific() throws {
    let remote = Destination(try IPAddress(spelt: "2001:db8:ffff::9"))
    try self.kernel.give("fe80::7", to: 2)
    self.kernel.give(try IPAddress(spelt: "2001:db8:3::7"), to: 2, flags: .deprecated)
    try self.kernel.give("2001:db8:2::7", to: 2)
    try self.leadFrom("2001:db8:1::")
    let view = self.view
    let answer = RouteAnswer.over(2, via: "fe80::1", from: "2001:db8:1::7")
    #expect(try view.route(to: remote) == answer)
    #expect(try view.route(to: remote) == answer)
    // Three lookups: without a source, and with an address of each subnet.
    #expect(self.kernel.asked.count { $0.hasPrefix("route") } == 3)
    // A lookup that names a source is not repeated.
    var bound = remote
    bound.source = try IPAddress(spelt: "2001:db8:2::7")
    #expect(try view.route(to: bound) == .noRoute(.noRoute))
  }

  @Test("K2 D6 one address of each subnet is tried, and at most eight")
  func manySources() throws {
    for number in 1...100 {
      try self.kernel.give("2001:db8:2::\(number)", to: 2)
      try self.kernel.give("2001:db8:\(number + 16)::7", to: 2)
    }
    let remote = Destination(try IPAddress(spelt: "2001:db8:ffff::9"))
    #expect(try self.view.route(to: remote) == .noRoute(.noRoute))
    #expect(self.kernel.asked.count { $0.hasPrefix("route") } == 1 + 8)
  }

  @Test("K2 link-local destinations are looked up without a source only")
  func linkLocal() throws {
    try self.leadFrom("2001:db8:1::")
    self.kernel.routes.removeAll { $0.prefix.address.family == .ipv6 }
    for address in ["fe80::9", "::1"] {
      _ = try self.view.route(to: Destination(try IPAddress(spelt: address)))
    }
    #expect(self.kernel.asked == ["route fe80::9", "route ::1"])
  }
}

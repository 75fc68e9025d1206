import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink
import Testing

@testable import ConndServer

/// Translated IPv4 (K9) in a simulated kernel: by a tun link, or by the Wi-Fi link itself.
@Suite("Translated IPv4, in the loop")
struct TranslationTests {
  enum Form: CaseIterable {
    /// The tun link `clat` has the IPv4 address and the default route.
    case link
    /// The Wi-Fi link has both.
    case address
  }

  private static let port: UInt16 = 40_000
  private static let router = [UInt8]([2, 0, 0, 0, 0, 0xFE])
  private static let byWifi = RouteAnswer.over(4, via: "fe80::1", from: "2001:db8:a::5")

  private func started(
    _ form: Form, _ prepare: (ModelKernel) throws -> Void = { _ in }
  ) throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.linkTable = [:]
      kernel.addressTable = []
      kernel.routes = []
      kernel.addLink(4, "wlan0")
      kernel.linkTable[4]?.device.hasPhy80211 = true
      try kernel.lead("::", 0, Self.byWifi)
      kernel.neighbours[try IPAddress(spelt: "fe80::1")] = Neighbour(
        try IPAddress(spelt: "fe80::1"), link: 4, hardwareAddress: Self.router)
      switch form {
      case .link:
        kernel.linkTable[5] = LinkFacts(
          Link(
            index: 5, name: "clat", kind: "tun", hardwareType: 65534,
            flags: [.up, .lowerUp, .pointToPoint]))
        try kernel.lead("0.0.0.0", 0, .over(5, from: "192.0.0.1"))
      case .address:
        try kernel.lead("0.0.0.0", 0, .over(4, via: "fe80::1", from: "192.0.0.1"))
      }
      kernel.sockets[Self.port] = SocketReport(
        silence: .seconds(60), roundTrip: .milliseconds(1))
      try prepare(kernel)
    }
  }

  private func path(_ loop: TestLoop) -> KernelPath { loop.loop.engine.snapshot.status.ipv4 }

  /// The published invalidations of IPv4.
  private func invalidations(_ loop: TestLoop) -> [String] {
    loop.loop.feed.store.past.compactMap { published in
      guard case .invalidation(let told) = published.change, told.scope.family == .ipv4 else {
        return nil
      }
      return "\(told.severity.rawValue) \(told.reason.rawValue) \(told.cause.change)"
    }
  }

  /// Moves the Wi-Fi link to this prefix, or to none.
  private func renumber(_ loop: inout TestLoop, to address: String?) throws -> [String] {
    let old = try IPAddress(spelt: "2001:db8:a::5")
    loop.kernel.take("2001:db8:a::5")
    if let address {
      try loop.kernel.lead("::", 0, .over(4, via: "fe80::1", from: address))
    } else {
      try loop.kernel.lead("::", 0, .over(4, via: "fe80::1", from: "fe80::5"))
    }
    return loop.tell([.addressRemoved(Address(old, prefixLength: 64, link: 4))])
  }

  @Test(
    "K9 medium, cost and network are those of the link below, and are not guessed",
    arguments: Form.allCases)
  func classified(form: Form) throws {
    let loop = try self.started(form)
    let path = self.path(loop)
    #expect(path.chain.map(\.name) == (form == .link ? ["clat", "wlan0"] : ["wlan0"]))
    #expect(path.status == .satisfied && path.medium == .wifi && path.guessedLinks == 0)
    #expect(path.isExpensive == false)
    #expect(loop.loop.engine.snapshot.status.category == .wifi)
    let listed = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.listLinks()
    }.get()
    let lower = listed.first { $0.facts.link.name == "clat" }?.lower
    #expect(lower?.name == (form == .link ? "wlan0" : nil) && lower?.isGuess != true)
  }

  @Test("K9 translated IPv4 over a cable → the network is that of IPv6", arguments: Form.allCases)
  func network(form: Form) throws {
    let loop = try self.started(form) { $0.linkTable[4]?.device.hasPhy80211 = false }
    let networks = try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.presentNetworks()
    }.get()
    #expect(networks.map(\.name) == ["fe80::1"])
  }

  @Test(
    "K9 the IPv6 path below is lost → no path; it comes back in time → nothing is destroyed",
    arguments: Form.allCases)
  func withoutIPv6(form: Form) throws {
    var loop = try self.started(form)
    #expect(try loop.guardFlow(1, local: "192.0.0.1", port: Self.port).count == 1)
    try loop.kernel.cut("::", 0)
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(self.path(loop).status == .requiresConnection && self.path(loop).reason == .noRoute)
    #expect(loop.loop.engine.snapshot.status.category == NetworkCategory.offline)
    #expect(loop.turn(after: .milliseconds(900)) == [])
    try loop.kernel.lead("::", 0, Self.byWifi)
    #expect(loop.tell().first?.hasPrefix("1 path") == true)
    #expect(loop.turn(after: .seconds(2)) == [])
    #expect(loop.loop.engine.snapshot.status.category == .wifi)
  }

  @Test(
    "K9 I1 the prefix below is lost → an idle flow is advised, and destroyed after the grace period",
    arguments: Form.allCases)
  func prefixLost(form: Form) throws {
    var loop = try self.started(form)
    #expect(try loop.guardFlow(1, local: "192.0.0.1", port: Self.port).count == 1)
    #expect(try self.renumber(&loop, to: nil) == ["1 advise sourceAddressLost"])
    #expect(loop.turn(after: .milliseconds(999)) == [])
    #expect(loop.turn(after: .milliseconds(1)) == ["1 destroy sourceAddressLost"])
    #expect(self.invalidations(loop).last == "destroy sourceAddressLost graceEnded")
  }

  @Test(
    "K9 I1 the prefix below is replaced → destroyed immediately; new flows and the path go on",
    arguments: Form.allCases)
  func prefixReplaced(form: Form) throws {
    var loop = try self.started(form)
    #expect(try loop.guardFlow(1, local: "192.0.0.1", port: Self.port).count == 1)
    let lost = try self.renumber(&loop, to: "2001:db8:b::5")
    #expect(lost == ["1 destroy sourceAddressLost"])
    let told = ["destroy sourceAddressLost addressRemoved"]
    #expect(self.invalidations(loop) == told)
    #expect(self.path(loop).status == .satisfied)
    #expect(try loop.guardFlow(2, local: "192.0.0.1", port: Self.port).count == 1)
    #expect(loop.tell() == [] && loop.turn(after: .seconds(2)) == [])
    #expect(self.invalidations(loop) == told)
  }

  @Test(
    "K9 E2 the router below changes, and the prefix stays → the owner of an idle flow asks",
    arguments: Form.allCases)
  func asked(form: Form) throws {
    var loop = try self.started(form)
    #expect(
      try loop.guardFlow(1, local: "192.0.0.1", port: Self.port, question: .keepalive).count == 1)
    try loop.kernel.lead("::", 0, .over(4, via: "fe80::2", from: "2001:db8:a::5"))
    let prefix = try IPPrefix(spelt: "::", 0)
    let change = RouteChange(
      MatchedRoute(prefix: prefix, table: 254, priority: 0), outLink: 4,
      gateway: try IPAddress(spelt: "fe80::2"))
    #expect(loop.tell([.route(change, replaced: true)]) == [])
    let name = form == .link ? "clat" : "wlan0"
    #expect(loop.turn(after: .seconds(1)) == ["1 path \(name), ask"])
  }

  @Test(
    "K9 W5 M2 one of two links translates IPv4 → each link is the other way of the other one",
    arguments: Form.allCases)
  func otherWay(form: Form) throws {
    for isDefault in [true, false] {
      let loop = try self.started(form) { kernel in
        kernel.addLink(6, "eth1")
        for index in kernel.routes.indices where !isDefault { kernel.routes[index].metric = 900 }
        try kernel.lead(
          "0.0.0.0", 0, .over(6, via: "192.0.2.1", from: "192.0.2.7"), metric: isDefault ? 900 : 0)
      }
      let destination = Destination(try IPAddress(spelt: "93.184.215.14"))
      let way = try loop.loop.ask { queries throws(KernelUnavailable) in
        try queries.otherWay(to: destination)
      }.get()
      #expect(way.isAllowed, "\(way)")
      #expect(way.path?.interface == (isDefault ? "eth1" : form == .link ? "clat" : "wlan0"))
      for link: UInt32 in [form == .link ? 5 : 4, 6] {
        var bound = destination
        bound.outLink = link
        let objection = try loop.loop.ask { queries throws(KernelUnavailable) in
          try queries.reader.objection(toUsing: bound, queries.view)
        }.get()
        #expect(objection == nil)
      }
    }
  }
}

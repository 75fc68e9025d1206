import TestKit
import TestTraits
import Testing

/// Routes and carriers that return soon: nothing ends, and connd never reports "no network" while
/// there is one.
@Suite("Grace", .needsNamespaces, .blocking)
struct GraceScenario {
  private static let cableRoute = "default via 10.0.0.1 dev eth0 metric 100"

  /// A laptop with a cable and Wi-Fi, the cable preferred.
  private func laptop(configuration: String = "") throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], configuration: configuration)
    #expect(try lab.start().category == "wired")
    return lab
  }

  private func end(_ lab: Laboratory) throws {
    try lab.namespace.ipBatch(["address del 10.0.0.2/24 dev eth0", "link set eth0 down"])
  }

  // MARK: A DHCP client renews a lease

  @Test(
    "I10 T2 cable and Wi-Fi: the cable's route is removed and added in one batch → nothing ends",
    arguments: [true, false])
  func renewal(isReadAtOnce: Bool) throws {
    let lab = try self.laptop(configuration: "grace: {route: 20s}\n")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let watcher = try #require(lab.watcher)
    let batch = ["route del \(Self.cableRoute)", "route add \(Self.cableRoute)"]
    if isReadAtOnce {
      try lab.whileStopped { try lab.namespace.ipBatch(batch) }
    } else {
      try lab.namespace.ipBatch(batch)
    }
    // A bounce, or there and back, depending on what connd reads together.
    let events = try lab.events { $0.status.category == "wired" }
    #expect(events.last?.event == "transition")
    #expect(events.count == 1 ? events[0].bounced == true : events.map(\.to) == ["wifi", "wired"])
    for _ in events { try watcher.wideIs("advise") }
    try flow.expectSpared(atMost: .drain) { try self.end(lab) }
  }

  @Test(
    "I10 T2 cable and Wi-Fi: the cable's route is removed, Wi-Fi takes over, the route returns in time → nothing ends"
  )
  func renewalInTwoSteps() throws {
    let lab = try self.laptop(configuration: "grace: {route: 20s}\n")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let watcher = try #require(lab.watcher)
    try lab.ip("route del \(Self.cableRoute)")
    #expect(try lab.event().to == "wifi")
    try watcher.wideIs("advise")
    #expect(try flow.invalidation().severity == "drain")
    // New calls use the new path in the meantime.
    let meanwhile = try GuardedFlow(lab, to: Uplinks.server)
    #expect(meanwhile.path.interface == "wlan0")
    try lab.ip("route add \(Self.cableRoute)")
    #expect(try lab.event().to == "wired")
    try watcher.wideIs("advise")
    try flow.expectSpared(atMost: .drain) { try self.end(lab) }
  }

  @Test(
    "I10 cable and Wi-Fi: the cable's route does not come back → destroyed at the end of the grace period"
  )
  func noRenewal() throws {
    let lab = try self.laptop()
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let watcher = try #require(lab.watcher)
    try lab.namespace.ip("route del \(Self.cableRoute)")
    let event = try lab.event()
    #expect(event.from == "wired" && event.to == "wifi")
    try watcher.wideIs("advise")
    let told = try flow.invalidation()
    #expect(told.severity == "drain")
    try flow.expectDestroyed(told.reason, after: [], cause: "graceEnded")
    try watcher.wideIs("destroy")
  }

  @Test("T1 I10 cable and Wi-Fi: the cable's route is removed and added three times → nothing ends")
  func renewals() throws {
    let lab = try self.laptop(configuration: "grace: {route: 20s}\n")
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    let watcher = try #require(lab.watcher)
    for _ in 1...4 {
      for (word, category) in [("del", "wifi"), ("add", "wired")] {
        try lab.namespace.ip("route \(word) \(Self.cableRoute)")
        #expect(try lab.connctl("is", "online").status == 0)
        let event = try lab.event()
        #expect(event.to == category)
        #expect(try lab.connctl("is", "online").status == 0)
        try self.expectAgreement(lab)
        try watcher.wideIs("advise")
      }
    }
    try flow.expectSpared(atMost: .drain) { try self.end(lab) }
  }

  /// Checks that all commands agree, if nothing is published in between.
  private func expectAgreement(
    _ lab: Laboratory, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    while true {
      let status = try lab.status()
      let path: PathReport = try decode(try lab.connctl("path", "203.0.113.9", "--json").output)
      let explained: ExplanationReport = try decode(try lab.connctl("explain", "--json").output)
      guard try lab.status() == status else { continue }
      #expect(status.category != "none", sourceLocation: sourceLocation)
      #expect(
        [path.interface, explained.path.interface] == [status.interface, status.interface],
        sourceLocation: sourceLocation)
      #expect(
        [path.status, explained.path.status] == [status.ipv4.status, status.ipv4.status],
        sourceLocation: sourceLocation)
      #expect(explained.category == status.category, sourceLocation: sourceLocation)
      return
    }
  }

  // MARK: Flapping

  @Test("T1 a cable flaps beside Wi-Fi → connd follows each change immediately")
  func carrierFlaps() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.namespace.set("net/ipv4/conf/eth0/ignore_routes_with_linkdown", "1")
    #expect(try lab.start().category == "wired")
    for _ in 1...4 {
      try lab.outside.ip("link set eth0 down")
      #expect(try lab.event().to == "wifi")
      try lab.outside.ip("link set eth0 up")
      let gain = try lab.event()
      #expect(gain.from == "wifi" && gain.to == "wired")
      #expect(gain.cause?.trigger == "link", "\(gain)")
      try self.expectAgreement(lab)
    }
    try lab.step("a link that flaps") {}
  }

  @Test(
    "T1 a route or an address comes back four times → connd is online immediately",
    arguments: ["route", "address"])
  func noFlaps(what: String) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.start()
    let route = "route add \(Self.cableRoute)"
    for _ in 1...4 {
      try lab.namespace.ip(
        what == "route" ? "route del \(Self.cableRoute)" : "address del 10.0.0.2/24 dev eth0")
      #expect(try lab.event().to == "none")
      #expect(try lab.connctl("is", "online").status == 1)
      if what == "address" { try lab.namespace.ip("address add 10.0.0.2/24 dev eth0") }
      try lab.namespace.ip(route)
      let gain = try lab.event()
      #expect(gain.to == "wired")
      // connd may read both together.
      #expect(["route", what].contains(gain.cause?.trigger))
      #expect(try lab.connctl("is", "online").status == 0)
    }
  }

  enum Carrier: CaseIterable { case veth, tun }

  @Test(
    "T1 T2 fast losses of a carrier are read together → connd reports that it was gone",
    .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"),
    arguments: Carrier.allCases, [2, 3])
  func fastLosses(carrier: Carrier, losses: Int) throws {
    let lab = try Uplinks.laboratory([])
    let tun = carrier == .tun ? try TunDevice("eth0", in: lab.namespace) : nil
    if tun == nil { try lab.addLink("eth0") }
    try lab.namespace.ip("link set eth0 up")
    try lab.namespace.ip("address add 10.0.0.2/24 dev eth0")
    try lab.namespace.ip("route add default dev eth0")
    #expect(try lab.start().category == "wired")
    try lab.whileStopped {
      for _ in 0..<losses {
        try tun?.setCarrier(false)
        try tun?.setCarrier(true)
      }
      if tun == nil {
        try lab.outside.ipBatch(
          Array(repeating: ["link set eth0 down", "link set eth0 up"], count: losses).flatMap { $0 }
        )
      }
      try waitUntil("the carrier is back") {
        let link = try lab.namespace.ip("link show eth0")
        return link.contains("LOWER_UP") && !link.contains("DOWN ")
      }
    }
    let events = try lab.events { $0.to == "wired" }
    #expect(events.contains { $0.bounced == true || $0.to == "none" }, "\(events)")
    #expect(events.first?.cause?.trigger == "link")
  }
}

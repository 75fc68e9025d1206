import Testing

@testable import Connectivity

@Suite("Flows")
struct FlowTrackerTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let cellular = FlowReading.by(.cellular)
  private static let wired = FlowReading.by(.wired)
  private static let rotated = FlowReading.by(TestLink.wifi.with { $0.host[.ipv4] = 8 })
  /// The same link, and a source address of another subnet.
  private static let otherSubnet = FlowReading.by(TestLink.wifi.with { $0.metric += 1 })
  private static let soft = InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)

  // MARK: - I1 and I2

  @Test("I1 a flow whose source address is gone is destroyed, whatever its path is")
  func sourceAddressLost() {
    for reading in [Self.wifi, Self.cellular, .noRoute, .by(TestLink.wifi.withoutCarrier)] {
      var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
      #expect(flow.see(reading.with { $0.isSourceGone = true }) == "destroy sourceAddressLost")
    }
  }

  @Test("I2 a flow of which a link is gone or down is destroyed at once, whatever its path is")
  func interfaceLost() {
    for reading in [Self.wifi, Self.cellular, .noRoute] {
      var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
      #expect(flow.see(reading.with { $0.isLinkLost = true }) == "destroy interfaceLost")
    }
    var flow = FollowedFlow(on: Self.wifi)
    let down = Self.wifi.with {
      $0.path.status = .requiresConnection
      $0.path.reason = .linkDown
    }
    #expect(flow.see(down, .inDoubt) == "destroy interfaceLost")
  }

  // MARK: - I3 and T3

  @Test("I3 another link, or an address of another subnet, is a better path")
  func betterPath() {
    for reading in [Self.wired, Self.otherSubnet] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(Self.wifi) == nil)
      #expect(flow.see(reading) == "destroy betterPath")
    }
  }

  @Test("I3 softened it drains, and each better path is told once")
  func betterPathDrains() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(flow.see(Self.wired) == "drain betterPath")
    #expect(flow.see(Self.wired) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(Self.wired) == "drain betterPath")
    #expect(flow.see(Self.cellular) == "drain betterPath")
    #expect(flow.tracker.path == Self.wifi.path)
  }

  @Test("I3 a flow that a rule keeps on its old link is advised, until the rule goes")
  func pinned() {
    var flow = FollowedFlow(on: Self.wifi)
    let pinned = Self.wired.with { $0.isPinned = true }
    #expect(flow.see(pinned) == "advise betterPath")
    #expect(flow.see(pinned) == nil)
    #expect(flow.see(Self.wired) == "destroy betterPath")
  }

  @Test("I3 a flow to this machine itself has no better path")
  func local() {
    var flow = FollowedFlow(on: FlowReading(.loopback, isLocal: true))
    #expect(flow.see(Self.wifi.with { $0.isLocal = true }) == nil)
  }

  @Test("T3 an address of the same subnet for new connections is no matter to a flow")
  func rotation() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.rotated) == nil)
    #expect(flow.tracker.source == Self.wifi.path.source)
    #expect(flow.see(Self.rotated.with { $0.isSourceGone = true }) == "destroy sourceAddressLost")
  }

  @Test("T3 a flow that does not say its address is taken to have the one that the kernel chose")
  func unnamedSource() {
    #expect(FollowedFlow(on: Self.wifi).tracker.source == Self.wifi.path.source)
    let named = Flow(Destination("203.0.113.5"), local: "192.0.2.9")
    #expect(FollowedFlow(named, on: Self.wifi).tracker.source == "192.0.2.9")
  }

  @Test("I3 another gateway on the same subnet, or another table, is the same way")
  func otherGateway() {
    var flow = FollowedFlow(on: Self.wifi)
    let other = TestLink.wifi.with { $0.gateway[.ipv4] = 2 }
    #expect(flow.see(.by(other).with { $0.path.table = 100 }) == nil)
    #expect(flow.tracker.path.gateway == other.gatewayAddress(.ipv4))
  }

  // MARK: - I4

  @Test("I4 another router behind the same link is another network")
  func otherRouter() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(flow.see(.by(.wifi, router: 2)) == "destroy networkChanged")
  }

  @Test("I4 a router that is not known yet is told from the earlier one as soon as it is known")
  func unknownRouter() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wifi, router: nil)) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(.by(.wifi, router: nil)) == nil)
    #expect(flow.see(.by(.wifi, router: 2)) == "destroy networkChanged")

    var learning = FollowedFlow(on: .by(.wifi, router: nil))
    #expect(learning.see(.by(.wifi, router: 2)) == nil)
    #expect(learning.see(Self.wifi) == "destroy networkChanged")
  }

  @Test("I4 of a router that was replaced before it was looked at, counts what was told first")
  func firstRouter() {
    func by(_ router: UInt8, first: UInt8) -> FlowReading {
      .by(.wifi, router: router).with { $0.firstHardwareAddress = [2, 0, 0, 0, 0, first] }
    }
    var late = FollowedFlow(on: .by(.wifi, router: nil))
    #expect(late.see(by(2, first: 1)) == "destroy networkChanged")
    var learning = FollowedFlow(on: .by(.wifi, router: nil))
    #expect(learning.see(by(2, first: 2)) == nil)
    // Who knew it goes by that.
    var knowing = FollowedFlow(on: .by(.wifi, router: 2))
    #expect(knowing.see(by(2, first: 1)) == nil)
    // What was told is of another gateway than its own.
    let other = FlowReading.by(.wifi, router: nil).with { $0.network.gateway = nil }
    var elsewhere = FollowedFlow(on: other)
    #expect(elsewhere.see(by(2, first: 1)) == nil)
  }

  @Test("I4 another router on another link is not another network of the flow's own")
  func routerOfAnotherLink() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(flow.see(.by(.wired, router: 2)) == "drain betterPath")
  }

  @Test("I4 a router is only believed of a path that carries traffic")
  func deadRouter() {
    var flow = FollowedFlow(on: Self.wifi)
    let dead = FlowReading.by(TestLink.wifi.withoutCarrier, router: 2)
    #expect(flow.see(dead) == "advise interfaceLost")
  }

  @Test(
    "I4 what tells networks apart",
    arguments: [
      // MAC, name and gateway, of both times.
      ([1], nil, "10.0.0.1", [1], nil, "10.0.0.1", false),
      ([1], nil, "10.0.0.1", [2], nil, "10.0.0.1", true),
      ([1], nil, "10.0.0.1", [1], nil, "10.0.0.2", false),
      ([1], [65], "10.0.0.1", [1], [66], "10.0.0.1", true),
      ([1], [65], "10.0.0.1", [1], [65], "10.0.0.1", false),
      ([1], [65], "10.0.0.1", [1], nil, "10.0.0.1", false),
      ([1], nil, "10.0.0.1", nil, nil, "10.0.0.2", false),
      (nil, nil, "10.0.0.1", [1], nil, "10.0.0.1", false),
    ] as [([UInt8]?, [UInt8]?, IPAddress, [UInt8]?, [UInt8]?, IPAddress, Bool)])
  func identities(
    mac: [UInt8]?, name: [UInt8]?, gateway: IPAddress, laterMAC: [UInt8]?, laterName: [UInt8]?,
    laterGateway: IPAddress, isOther: Bool
  ) {
    let earlier = NetworkIdentity(gateway: gateway, gatewayHardwareAddress: mac, name: name)
    let later = NetworkIdentity(
      gateway: laterGateway, gatewayHardwareAddress: laterMAC,
      prefix: IPPrefix("10.0.1.0", length: 24), name: laterName)
    #expect(later.isOther(than: earlier) == isOther)
  }

  @Test("I4 where neighbours have no hardware addresses, gateway and subnet tell the network")
  func modem() {
    let before = NetworkIdentity(
      gateway: "10.0.0.1", hasHardwareAddresses: false, prefix: IPPrefix("10.0.0.0", length: 24))
    #expect(!before.isOther(than: before))
    var after = before
    after.gateway = "10.0.0.2"
    #expect(after.isOther(than: before))
    after = before
    after.prefix = IPPrefix("10.0.1.0", length: 24)
    #expect(after.isOther(than: before))
    // Of which nothing is known, that is not another.
    #expect(!before.isOther(than: NetworkIdentity()))
  }

  @Test("I4 a flow on a link is destroyed with the network, too")
  func onLinkNetwork() {
    var flow = FollowedFlow(on: .onLink(.wifi))
    let other = FlowReading.onLink(.wifi).with {
      $0.network.gatewayHardwareAddress = [2, 0, 0, 0, 0, 2]
    }
    #expect(flow.see(other) == "destroy networkChanged")
  }

  // MARK: - I5

  @Test("I5 a changed category destroys as configured, also where the flow's own path is the same")
  func categoryChanged() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.wifi, .changed(.drain)) == "drain categoryChanged")
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(Self.wifi, .changed(.destroy)) == "destroy categoryChanged")
  }

  @Test("I5 a changed category destroys also what has no path of its own")
  func categoryChangedWithoutPath() {
    for reading in [.noRoute, FlowReading.by(TestLink.wifi.withoutCarrier)] {
      var flow = FollowedFlow(on: Self.wifi)
      let verdict = flow.see(reading, .changed(.destroy))
      #expect(verdict == "destroy categoryChanged")
    }
    var soft = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(soft.see(.noRoute, .changed(.drain)) == "drain categoryChanged")
    #expect(soft.see(.noRoute, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I5 what connd knows better of is spared",
    arguments: [
      FlowReading(.loopback, isLocal: true), .onLink(.wifi),
      FlowReading.by(.wifi).with { $0.isInTunnel = true },
    ])
  func spared(reading: FlowReading) {
    var flow = FollowedFlow(on: reading)
    for change in [.changed(.destroy), .inDoubt, .overdue(.destroy), .returned]
      as [FlowTracker.CategoryChange]
    {
      #expect(flow.see(reading, change) == nil)
    }
  }

  @Test("I5 a flow to this machine itself is spared, also where its address is on another link now")
  func localIsSpared() {
    var flow = FollowedFlow(on: Self.wifi.with { $0.isLocal = true })
    #expect(flow.see(Self.wired.with { $0.isLocal = true }, .changed(.destroy)) == nil)
  }

  @Test("I5 what is on a link, or in a tunnel, is not spared if its own path changed")
  func notSpared() {
    let elsewhere: [(FlowReading, FlowReading)] = [
      (.onLink(.wifi), .onLink(.wired)), (.onLink(.wifi), Self.wifi), (Self.wifi, .onLink(.wifi)),
      (Self.wifi.with { $0.isInTunnel = true }, Self.wired.with { $0.isInTunnel = true }),
      (
        .onLink(.wifi),
        FlowReading.by(TestLink.wifi.withoutCarrier).with { $0.path.gateway = nil }
      ),
    ]
    for (before, after) in elsewhere {
      var flow = FollowedFlow(on: before, policy: Self.soft)
      #expect(flow.see(after, .changed(.destroy)) == "destroy categoryChanged")
    }
  }

  @Test("I5 a grace of the category that ends destroys what was there when it began, once")
  func overdue() {
    var flow = FollowedFlow(on: Self.wired)
    #expect(flow.see(Self.wired, .inDoubt) == "advise categoryChanged")
    #expect(flow.see(Self.wired) == nil)
    var drained = flow
    #expect(flow.see(Self.wired, .overdue(.destroy)) == "destroy categoryChanged")
    #expect(drained.see(Self.wired, .overdue(.drain)) == "drain categoryChanged")
    #expect(drained.see(Self.wired, .overdue(.destroy)) == nil)

    var new = FollowedFlow(on: Self.wired)
    #expect(new.see(Self.wired, .overdue(.destroy)) == nil)
    var returned = FollowedFlow(on: Self.wired)
    #expect(returned.see(Self.wired, .inDoubt) == "advise categoryChanged")
    #expect(returned.see(Self.wired, .returned) == "advise categoryChanged")
    #expect(returned.see(Self.wired, .overdue(.destroy)) == nil)
  }

  @Test("I5 I10 a category that another path has brought back concerns whom its loss did")
  func replaced() {
    var flow = FollowedFlow(on: Self.wired)
    #expect(flow.see(Self.wired, .inDoubt) == "advise categoryChanged")
    #expect(flow.see(Self.wired, .replaced) == "advise categoryChanged")
    #expect(flow.see(Self.wired, .replaced) == nil)
    var gone = FollowedFlow(on: Self.wired)
    #expect(gone.see(.noRoute, .inDoubt) == "advise categoryChanged")
    #expect(gone.see(.noRoute, .replaced, at: 500) == "destroy categoryChanged")
    var new = FollowedFlow(on: Self.wired)
    #expect(new.see(Self.wired, .replaced) == nil)
  }

  @Test("I5 a grace of the category that ends destroys also what lost its path meanwhile")
  func overdueWithoutPath() {
    var flow = FollowedFlow(on: Self.wired)
    #expect(flow.see(Self.wired, .inDoubt, at: 0) == "advise categoryChanged")
    #expect(flow.see(.noRoute, at: 500) == "advise interfaceLost")
    #expect(flow.see(.noRoute, .overdue(.destroy), at: 1000) == "destroy categoryChanged")
  }

  // MARK: - I6 and I8

  @Test(
    "I6 after a sleep a flow is suspect, after a long one invalid",
    arguments: [(1, "advise resumed"), (299, "advise resumed"), (300, "destroy resumed")])
  func slept(seconds: Int, expected: String) {
    for reading in [Self.wifi, .unknown] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(reading, slept: .seconds(seconds)) == expected)
    }
  }

  @Test("I6 a long sleep is one also where the path is not back yet")
  func sleptWithoutPath() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.noRoute, slept: .seconds(3600)) == "destroy resumed")
  }

  @Test("I8 a path that becomes one that the flow forbids is told once, each time")
  func policy() {
    let expensive = Self.wifi.with { $0.path.expensive = true }
    let constrained = Self.wifi.with { $0.path.constrained = true }
    let destination = Destination("203.0.113.5")
    for (flow, reading, isHit) in [
      (Flow(destination, forbidsExpensive: true), expensive, true),
      (Flow(destination, forbidsExpensive: true), constrained, false),
      (Flow(destination, forbidsConstrained: true), constrained, true),
      (Flow(destination, forbidsConstrained: true), expensive, false),
      (Flow(destination), expensive, false),
    ] {
      var followed = FollowedFlow(flow, on: Self.wifi)
      let expected = isHit ? "destroy policy" : nil
      #expect(followed.see(Self.wifi) == nil)
      #expect(followed.see(reading) == expected)
      #expect(followed.see(reading) == nil)
      #expect(followed.see(Self.wifi) == nil)
      #expect(followed.see(reading) == expected)
    }
  }

  // MARK: - I9

  @Test("I9 where several rules hit, the first of the gravest is named")
  func precedence() {
    let everything = Self.cellular.with {
      $0.isSourceGone = true
      $0.isLinkLost = true
      $0.path.expensive = true
    }
    let flow = Flow(Destination("203.0.113.5"), forbidsExpensive: true)
    func told(
      _ reading: FlowReading, _ change: FlowTracker.CategoryChange?,
      _ policy: InvalidationPolicy = InvalidationPolicy()
    ) -> String? {
      var followed = FollowedFlow(flow, on: Self.wifi, policy: policy)
      return followed.see(reading, change, slept: .seconds(3600))
    }
    let here = everything.with { $0.isSourceGone = false }
    #expect(told(everything, .changed(.destroy)) == "destroy sourceAddressLost")
    #expect(told(here, .changed(.destroy)) == "destroy interfaceLost")
    let other = FlowReading.by(.wifi, router: 2).with { $0.path.expensive = true }
    #expect(
      told(other.with { $0.isLinkLost = true }, .changed(.destroy)) == "destroy interfaceLost")
    #expect(told(other, .changed(.destroy)) == "destroy networkChanged")
    let moved = here.with { $0.isLinkLost = false }
    #expect(told(moved, .changed(.destroy)) == "destroy categoryChanged")
    #expect(told(moved, .returned) == "destroy betterPath")
    #expect(told(moved, .changed(.drain), Self.soft) == "destroy policy")
    let dear = Self.wifi.with { $0.path.expensive = true }
    #expect(told(dear, nil) == "destroy policy")
    #expect(told(Self.wifi, .returned) == "destroy resumed")
    #expect(told(Self.wifi, .changed(.drain)) == "destroy resumed")
  }

  @Test("I9 destroy is graver than drain, and drain than advise")
  func severities() {
    #expect(
      [Invalidation.Severity.drain, .destroy, .advise].sorted() == [.advise, .drain, .destroy])
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(flow.see(Self.wired, .returned) == "drain betterPath")
  }
}

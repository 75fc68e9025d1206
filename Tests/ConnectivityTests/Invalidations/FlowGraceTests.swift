import Testing

@testable import Connectivity

@Suite("The grace of a flow")
struct FlowGraceTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let deadWifi = FlowReading.by(TestLink.wifi.withoutCarrier)
  private static let soft = InvalidationPolicy(betterPath: .drain, categoryChanged: .drain)

  /// A Wi-Fi flow that has lost its carrier at 0 s, or only its route.
  private static func inDoubt(
    _ lost: FlowReading = deadWifi, _ change: FlowTracker.CategoryChange? = nil,
    policy: InvalidationPolicy = InvalidationPolicy()
  ) -> FollowedFlow {
    var flow = FollowedFlow(on: Self.wifi, policy: policy)
    let told = flow.see(lost, change)
    let isOfCategory = lost == .noRoute && change != nil && policy.categoryChanged == .destroy
    #expect(told == (isOfCategory ? "advise categoryChanged" : "advise interfaceLost"))
    return flow
  }

  @Test("I10 a Wi-Fi carrier has a second to come back, and then it is over")
  func wifiCarrier() {
    var flow = Self.inDoubt()
    #expect(flow.deadline == 1000)
    #expect(flow.see(Self.deadWifi, at: 999) == nil)
    #expect(flow.deadline == 1000)
    #expect(flow.see(Self.deadWifi, at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 wifi carrier back within the grace destroys nothing")
  func wifiCarrierBack() {
    var flow = Self.inDoubt()
    #expect(flow.see(Self.wifi, at: 999) == nil)
    #expect(flow.deadline == nil)
    #expect(flow.see(Self.wifi, at: 5000) == nil)
    // The next loss has a grace of its own.
    #expect(flow.see(Self.deadWifi, at: 6000) == "advise interfaceLost")
    #expect(flow.deadline == 7000)
  }

  @Test("I10 a dormant Wi-Fi link is one without a carrier")
  func dormant() {
    var flow = Self.inDoubt(Self.deadWifi.with { $0.path.reason = .dormant })
    #expect(flow.deadline == 1000)
    #expect(flow.see(.by(.wired), at: 100) == "destroy interfaceLost")
  }

  @Test("I10 other media have no grace for the carrier", arguments: [TestLink.wired, .cellular])
  func otherMedia(link: TestLink) {
    var flow = FollowedFlow(on: .by(link))
    #expect(flow.see(.by(link.withoutCarrier)) == "destroy interfaceLost")
  }

  @Test("I10 a route has a second to come back, on whatever medium")
  func route() {
    for link in [TestLink.wired, .wifi, .cellular] {
      for reason in [.noRoute, .unreachable, .noSourceAddress] as [Path.Reason] {
        var flow = FollowedFlow(on: .by(link))
        let lost = FlowReading(.unsatisfied(reason))
        #expect(flow.see(lost) == "advise interfaceLost")
        #expect(flow.deadline == 1000)
        var back = flow
        #expect(back.see(.by(link), at: 999) == nil)
        #expect(back.deadline == nil)
        #expect(flow.see(lost, at: 1000) == "destroy interfaceLost")
      }
    }
  }

  @Test("I10 the graces are configurable, down to none")
  func configured() {
    let policy = InvalidationPolicy(wifiGrace: .seconds(3), routeGrace: .seconds(2))
    #expect(Self.inDoubt(policy: policy).deadline == 3000)
    #expect(Self.inDoubt(.noRoute, policy: policy).deadline == 2000)
    var flow = FollowedFlow(
      on: Self.wifi, policy: InvalidationPolicy(wifiGrace: .zero, routeGrace: .zero))
    #expect(flow.see(Self.deadWifi) == "destroy interfaceLost")
    flow = FollowedFlow(on: Self.wifi, policy: flow.policy)
    #expect(flow.see(.noRoute) == "destroy interfaceLost")
  }

  @Test("I10 a lost route is named by the category where that changed with it")
  func routeAndCategory() {
    var flow = Self.inDoubt(.noRoute, .inDoubt)
    #expect(flow.see(.noRoute, .overdue(.destroy), at: 1000) == "destroy categoryChanged")
    // Another family has brought the category back.
    flow = Self.inDoubt(.noRoute, .inDoubt)
    #expect(flow.see(.noRoute, .returned, at: 500) == "advise categoryChanged")
    #expect(flow.see(.noRoute, at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 a route that stays away destroys also where the category only drains")
  func routeAndSoftCategory() {
    var flow = Self.inDoubt(.noRoute, .inDoubt, policy: Self.soft)
    #expect(flow.see(.noRoute, .overdue(.drain), at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 a flow that was looked at later than the default path ends its grace with that")
  func endsWithTheSystems() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(lost, .inDoubt, at: 5)?.hasPrefix("advise") == true)
      #expect(flow.see(lost, at: 1000) == nil)
      #expect(flow.see(lost, .overdue(.drain), at: 1000)?.hasPrefix("destroy") == true)
    }
    // Its own loss came later, and has its own grace.
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.wifi, .inDoubt) == "advise categoryChanged")
    #expect(flow.see(Self.deadWifi, at: 500) == "advise interfaceLost")
    #expect(flow.see(Self.deadWifi, .overdue(.drain), at: 1000) == "drain categoryChanged")
    #expect(flow.see(Self.wifi, at: 1400) == nil)
  }

  @Test("I10 the category in doubt with the path is told once, and with the path it returns")
  func categoryInDoubt() {
    var flow = Self.inDoubt(.noRoute, .inDoubt)
    #expect(flow.see(Self.wifi, .returned, at: 500) == "advise categoryChanged")
    #expect(flow.see(Self.wifi, .overdue(.destroy), at: 1000) == nil)
    flow = Self.inDoubt(Self.deadWifi, .inDoubt)
    // Its path is back, and that of the category is not.
    #expect(flow.see(Self.wifi, at: 500) == nil)
    #expect(flow.see(Self.wifi, .overdue(.destroy), at: 1000) == "destroy categoryChanged")
  }

  @Test("I10 back on another network, the flow is destroyed as soon as that is known")
  func otherNetwork() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inDoubt(lost)
      #expect(flow.see(.by(.wifi, router: 2), at: 500) == "destroy networkChanged")
      flow = Self.inDoubt(lost)
      #expect(flow.see(.by(.wifi, router: nil), at: 500) == nil)
      #expect(flow.see(.by(.wifi, router: 2), at: 9000) == "destroy networkChanged")
    }
  }

  @Test("I10 another path that takes over ends the grace")
  func takenOver() {
    var flow = Self.inDoubt()
    #expect(flow.see(.by(.cellular), at: 500) == "destroy interfaceLost")
    flow = Self.inDoubt(policy: Self.soft)
    #expect(flow.see(.by(.cellular), .changed(.drain), at: 500) == "destroy interfaceLost")
    flow = Self.inDoubt(.noRoute)
    #expect(flow.see(.by(.cellular), at: 500) == "destroy betterPath")
    flow = Self.inDoubt(.noRoute, policy: Self.soft)
    #expect(flow.see(.by(.cellular), at: 500) == "drain betterPath")
    #expect(flow.deadline == nil)
    flow = Self.inDoubt(.noRoute, .inDoubt)
    #expect(flow.see(.by(.cellular), .changed(.destroy), at: 500) == "destroy categoryChanged")
  }

  @Test("I10 a link or an address that goes during the grace ends it")
  func gone() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inDoubt(lost)
      #expect(flow.see(lost.with { $0.isLinkLost = true }, at: 1) == "destroy interfaceLost")
      flow = Self.inDoubt(lost)
      #expect(flow.see(lost.with { $0.isSourceGone = true }, at: 1) == "destroy sourceAddressLost")
    }
  }

  @Test("I10 a carrier lost while the route was missing has its own grace, and none on other media")
  func carrierAfterRoute() {
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(.noRoute, .inDoubt) == "advise categoryChanged")
    #expect(flow.see(.by(TestLink.wired.withoutCarrier), at: 500) == "destroy interfaceLost")

    flow = Self.inDoubt(.noRoute)
    #expect(flow.see(Self.deadWifi, at: 500) == nil)
    #expect(flow.deadline == 1000)
    #expect(flow.see(.by(.cellular), at: 600) == "destroy interfaceLost")
    flow = Self.inDoubt()
    #expect(flow.see(.noRoute, at: 500) == nil)
    #expect(flow.see(.noRoute, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I10 a dead link that the kernel names instead is not the flow's own: only its route is lost")
  func otherDeadLink() {
    var flow = FollowedFlow(on: .by(.wired))
    let dead = FlowReading.by(TestLink.wifi.withoutCarrier)
    #expect(flow.see(dead) == "advise interfaceLost")
    #expect(flow.deadline == 1000)
    #expect(flow.see(.by(.wired), at: 500) == nil)
  }

  @Test("I10 whether a link failed or only a route is missing is kept for the scope")
  func scope() {
    for (lost, isRouteOnly) in [(Self.deadWifi, false), (.noRoute, true)] {
      var tracker = FlowTracker(Flow(Destination("203.0.113.5")), on: Self.wifi.path)
      let policy = InvalidationPolicy()
      let first = tracker.update(to: lost, policy: policy, at: Instant(milliseconds: 0))
      #expect(first?.isRouteOnly == isRouteOnly)
      let last = tracker.update(to: .noRoute, policy: policy, at: Instant(milliseconds: 1000))
      #expect(last?.isRouteOnly == isRouteOnly)
    }
  }

  // MARK: - K8

  @Test("K8 not to be able to ask is no loss")
  func unknown() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.unknown) == nil)
    #expect(
      flow.see(
        .unknown.with {
          $0.isSourceGone = true; $0.isLinkLost = true
        }) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(.by(.wired)) == "destroy betterPath")
  }

  @Test("K8 a grace that ends while the kernel cannot be asked waits for it")
  func unknownDuringGrace() {
    var flow = Self.inDoubt()
    #expect(flow.see(.unknown, at: 500) == nil)
    #expect(flow.deadline == nil)
    var lost = flow
    #expect(lost.see(Self.deadWifi, at: 600) == nil)
    #expect(lost.deadline == 1000)
    var late = flow
    #expect(late.see(Self.deadWifi, at: 5000) == "destroy interfaceLost")
    #expect(flow.see(Self.wifi, at: 5000) == nil)
  }

  @Test("K8 a flow that is registered while nothing is known begins with the first path")
  func registeredBlind() {
    var flow = FollowedFlow(on: .unknown)
    #expect(flow.see(.unknown) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.tracker.path == Self.wifi.path)
    #expect(flow.see(.by(.wired)) == "destroy betterPath")
  }
}

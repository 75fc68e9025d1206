import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("The grace of a flow")
struct FlowGraceTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let deadWifi = FlowReading.by(TestLink.wifi.withoutCarrier)
  private static let soft = InvalidationPolicy(betterPath: .drain)

  /// A Wi-Fi flow that has lost its carrier at 0 s, or only its route.
  private static func inDoubt(
    _ lost: FlowReading = deadWifi, policy: InvalidationPolicy = InvalidationPolicy()
  ) -> FollowedFlow {
    var flow = FollowedFlow(on: Self.wifi, policy: policy)
    #expect(flow.see(lost) == "advise interfaceLost")
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
    #expect(flow.see(.by(.wired, leaving: .failed), at: 100) == "destroy interfaceLost")
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

  @Test("I2 I10 a flow whose answers are refused drains, and has the route's grace")
  func refusedReplies() {
    let refused = FlowReading.by(.wired).with { $0.areRepliesRefused = true }
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(refused) == "drain interfaceLost")
    #expect(flow.deadline == 1000)
    var back = flow
    #expect(back.see(.by(.wired), at: 999) == nil)
    #expect(back.deadline == nil)
    #expect(flow.see(refused, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I0 a flow that is made although its answers are refused works, until they are taken and refused again"
  )
  func madeDespiteRefusal() {
    let refused = FlowReading.by(.wired).with { $0.areRepliesRefused = true }
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.register(refused) == nil)
    #expect(flow.see(refused, at: 5000) == nil)
    #expect(flow.see(.by(.wired), at: 6000) == nil)
    #expect(flow.see(refused, at: 7000) == "drain interfaceLost")
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

  @Test("I10 back on another network, the flow is destroyed as soon as that is known")
  func otherNetwork() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inDoubt(lost)
      let other = FlowReading.by(.wifi, router: 2, stage: 1, first: 1)
      #expect(flow.see(other, at: 500) == "destroy networkChanged")
      flow = Self.inDoubt(lost)
      #expect(flow.see(.by(.wifi, router: nil, stage: 1), at: 500) == nil)
      #expect(flow.see(other, at: 9000) == "destroy networkChanged")
    }
  }

  @Test("I10 a carrier that is lost ends the flow when another link takes over")
  func carrierTakenOver() {
    for policy in [InvalidationPolicy(), Self.soft] {
      var flow = FollowedFlow(on: Self.wifi, policy: policy)
      #expect(flow.see(.by(.cellular, leaving: .failed)) == "destroy interfaceLost")
      flow = Self.inDoubt(policy: policy)
      #expect(flow.see(.by(.cellular, leaving: .failed), at: 500) == "destroy interfaceLost")
    }
  }

  @Test(
    "I10 where only the route went and another link takes over, it drains until the grace is over")
  func routeTakenOver() {
    let taken = FlowReading.by(.cellular, leaving: .withoutRoute)
    for link in [TestLink.wired, .wifi] {
      var flow = FollowedFlow(on: .by(link))
      #expect(flow.see(taken) == "drain interfaceLost")
      #expect(flow.deadline == 1000)
      #expect(flow.see(taken, at: 999) == nil)
      var back = flow
      #expect(back.see(.by(link), at: 999) == nil)
      #expect(back.deadline == nil)
      #expect(flow.see(taken, at: 1000) == "destroy interfaceLost")
    }
  }

  @Test("I10 another link that takes over later drains, and the grace goes on")
  func routeTakenOverLater() {
    let taken = FlowReading.by(.cellular, leaving: .withoutRoute)
    var flow = Self.inDoubt(.noRoute)
    #expect(flow.see(taken, at: 500) == "drain interfaceLost")
    #expect(flow.deadline == 1000)
    #expect(flow.see(.noRoute, at: 600) == nil)
    #expect(flow.see(taken, at: 700) == nil)
    #expect(flow.see(taken, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I10 I3 a route that is back, and not preferred any more when the grace is over, is a better path's matter",
    arguments: [InvalidationPolicy(), Self.soft])
  func routeBackBehindAnother(policy: InvalidationPolicy) {
    let taken = FlowReading.by(.cellular, leaving: .withoutRoute)
    var flow = FollowedFlow(on: Self.wifi, policy: policy)
    #expect(flow.see(taken) == "drain interfaceLost")
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 500) == nil)
    var back = flow
    #expect(back.see(Self.wifi, at: 999) == nil && back.deadline == nil)
    let end = flow.see(.by(.wired, leaving: .withRoute), at: 1000)
    guard policy == Self.soft else { return #expect(end == "destroy betterPath") }
    #expect(end == "drain betterPath" && flow.deadline == nil)
    // Whatever else is removed then: that another way is preferred is told.
    #expect(flow.see(.by(.wired, leaving: .withWorseRoute), at: 2000) == nil)
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 5000) == nil)
    #expect(flow.deadline == nil)
  }

  @Test(
    "I10 a route that was removed has its grace, although a worse one leads over its link all the while"
  )
  func worseRoute() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wired, leaving: .withWorseRoute)) == "drain interfaceLost")
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 500) == nil)
    var back = flow
    #expect(back.see(Self.wifi, at: 999) == nil && back.deadline == nil)
    // What is preferred later is a better path.
    #expect(back.see(.by(.wired, leaving: .withRoute), at: 1500) == "destroy betterPath")
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 1000) == "destroy betterPath")
  }

  @Test("I10 a link that fails under what has its address elsewhere has the route's grace")
  func addressElsewhere() {
    let lost = FlowReading.by(TestLink.wired.withoutCarrier).with { $0.isSourceElsewhere = true }
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(lost) == "advise interfaceLost" && flow.deadline == 1000)
    var moved = flow
    #expect(moved.see(.by(.wifi, leaving: .untied), at: 30) == nil && moved.deadline == nil)
    #expect(flow.see(lost, at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 a link that fails while its route is missing ends the flow where another carries")
  func failedWhileTakenOver() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.cellular, leaving: .withoutRoute)) == "drain interfaceLost")
    #expect(flow.see(.by(.cellular, leaving: .failed), at: 500) == "destroy interfaceLost")
  }

  @Test("I10 a link or an address that goes during the grace ends it")
  func gone() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inDoubt(lost)
      #expect(flow.see(lost.with { $0.formerLink = .failed }, at: 1) == "destroy interfaceLost")
      flow = Self.inDoubt(lost)
      #expect(flow.see(lost.with { $0.isSourceGone = true }, at: 1) == "destroy sourceAddressLost")
    }
  }

  @Test("I10 a carrier lost while the route was missing has its own grace, and none on other media")
  func carrierAfterRoute() {
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(.noRoute) == "advise interfaceLost")
    #expect(flow.see(.by(TestLink.wired.withoutCarrier), at: 500) == "destroy interfaceLost")

    flow = Self.inDoubt(.noRoute)
    #expect(flow.see(Self.deadWifi, at: 500) == nil)
    #expect(flow.deadline == 1000)
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
          $0.isSourceGone = true; $0.formerLink = .failed
        }) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
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
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
  }
}

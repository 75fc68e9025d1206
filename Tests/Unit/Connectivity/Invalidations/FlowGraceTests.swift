import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Grace period of a flow")
struct FlowGraceTests {
  static let wifi = FlowReading.by(.wifi)
  private static let deadWifi = FlowReading.by(TestLink.wifi.withoutCarrier)
  private static let soft = InvalidationPolicy(betterPath: .drain)

  /// A Wi-Fi flow that has lost its carrier at 0 s, or only its route.
  private static func inGrace(
    _ lost: FlowReading = deadWifi, policy: InvalidationPolicy = InvalidationPolicy()
  ) -> FollowedFlow {
    var flow = FollowedFlow(on: Self.wifi, policy: policy)
    #expect(flow.see(lost) == "advise interfaceLost")
    return flow
  }

  @Test("I10 a Wi-Fi carrier has one second to come back")
  func wifiCarrier() {
    var flow = Self.inGrace()
    #expect(flow.deadline == 1000)
    #expect(flow.see(Self.deadWifi, at: 999) == nil)
    #expect(flow.deadline == 1000)
    #expect(flow.see(Self.deadWifi, at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 Wi-Fi carrier back within the grace period → nothing is destroyed")
  func wifiCarrierBack() {
    var flow = Self.inGrace()
    #expect(flow.see(Self.wifi, at: 999) == nil)
    #expect(flow.deadline == nil)
    #expect(flow.see(Self.wifi, at: 5000) == nil)
    // The next loss has its own grace period.
    #expect(flow.see(Self.deadWifi, at: 6000) == "advise interfaceLost")
    #expect(flow.deadline == 7000)
  }

  @Test("I10 a dormant Wi-Fi link counts as one without a carrier")
  func dormant() {
    var flow = Self.inGrace(Self.deadWifi.with { $0.path.reason = .dormant })
    #expect(flow.deadline == 1000)
    #expect(flow.see(.by(.wired, leaving: .failed), at: 100) == "destroy interfaceLost")
  }

  @Test(
    "I10 other media have no grace period for the carrier", arguments: [TestLink.wired, .cellular])
  func otherMedia(link: TestLink) {
    var flow = FollowedFlow(on: .by(link))
    #expect(flow.see(.by(link.withoutCarrier)) == "destroy interfaceLost")
  }

  @Test("I10 a route has one second to come back, on any medium")
  func route() {
    for link in [TestLink.wired, .wifi, .cellular] {
      for reason in [.noRoute, .unreachable, .noSourceAddress] as [KernelPath.Reason] {
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

  @Test("I2 I10 replies are refused → the flow drains, with the route's grace period")
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
    "I0 replies are refused from the start → the flow works, until they are accepted and refused again"
  )
  func madeDespiteRefusal() {
    let refused = FlowReading.by(.wired).with { $0.areRepliesRefused = true }
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.register(refused) == nil)
    #expect(flow.see(refused, at: 5000) == nil)
    #expect(flow.see(.by(.wired), at: 6000) == nil)
    #expect(flow.see(refused, at: 7000) == "drain interfaceLost")
  }

  @Test("I10 the grace periods are configurable, down to zero")
  func configured() {
    let policy = InvalidationPolicy(carrierGrace: [.wifi: .seconds(3)], routeGrace: .seconds(2))
    #expect(Self.inGrace(policy: policy).deadline == 3000)
    #expect(Self.inGrace(.noRoute, policy: policy).deadline == 2000)
    var flow = FollowedFlow(
      on: Self.wifi, policy: InvalidationPolicy(carrierGrace: [:], routeGrace: .zero))
    #expect(flow.see(Self.deadWifi) == "destroy interfaceLost")
    flow = FollowedFlow(on: Self.wifi, policy: flow.policy)
    #expect(flow.see(.noRoute) == "destroy interfaceLost")
  }

  @Test(
    "I10 a carrier grace period configured for a medium applies to its links",
    arguments: [TestLink.wired, .cellular])
  func carrierGraceOfMedium(link: TestLink) {
    let lost = FlowReading.by(link.withoutCarrier)
    let policy = InvalidationPolicy(carrierGrace: [link.medium: .seconds(2)])
    var flow = FollowedFlow(on: .by(link), policy: policy)
    #expect(flow.see(lost) == "advise interfaceLost" && flow.deadline == 2000)
    var back = flow
    #expect(back.see(.by(link), at: 1999) == nil && back.deadline == nil)
    #expect(flow.see(lost, at: 2000) == "destroy interfaceLost")
    // A link that is set down on purpose has none.
    var down = FollowedFlow(on: .by(link), policy: policy)
    #expect(down.see(lost.with { $0.path.reason = .linkDown }) == "destroy interfaceLost")
    // Other media have none either.
    var wifi = FollowedFlow(on: .by(.wifi), policy: policy)
    #expect(wifi.see(Self.deadWifi) == "destroy interfaceLost")
  }

  @Test("I10 back on another network → destroyed as soon as that is known")
  func otherNetwork() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inGrace(lost)
      let other = FlowReading.by(.wifi, router: 2, epoch: 1, first: 1)
      #expect(flow.see(other, at: 500) == "destroy networkChanged")
      flow = Self.inGrace(lost)
      #expect(flow.see(.by(.wifi, router: nil, epoch: 1), at: 500) == nil)
      #expect(flow.see(other, at: 9000) == "destroy networkChanged")
    }
  }

  @Test("I10 a carrier is lost and another link takes over → destroyed")
  func carrierTakenOver() {
    for policy in [InvalidationPolicy(), Self.soft] {
      var flow = FollowedFlow(on: Self.wifi, policy: policy)
      #expect(flow.see(.by(.cellular, leaving: .failed)) == "destroy interfaceLost")
      flow = Self.inGrace(policy: policy)
      #expect(flow.see(.by(.cellular, leaving: .failed), at: 500) == "destroy interfaceLost")
    }
  }

  @Test(
    "I10 only the route is lost and another link takes over → the flow drains until the grace period ends"
  )
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

  @Test("I10 another link takes over later → the flow drains, and the grace period continues")
  func routeTakenOverLater() {
    let taken = FlowReading.by(.cellular, leaving: .withoutRoute)
    var flow = Self.inGrace(.noRoute)
    #expect(flow.see(taken, at: 500) == "drain interfaceLost")
    #expect(flow.deadline == 1000)
    #expect(flow.see(.noRoute, at: 600) == nil)
    #expect(flow.see(taken, at: 700) == nil)
    #expect(flow.see(taken, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I10 I3 the route is back but not preferred at the end of the grace period → a better path",
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
    // Another route is removed then: the preferred way still counts as a better path.
    #expect(flow.see(.by(.wired, leaving: .withWorseRoute), at: 2000) == nil)
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 5000) == nil)
    #expect(flow.deadline == nil)
  }

  @Test(
    "I10 a removed route has its grace period, even if a worse route uses the same link"
  )
  func worseRoute() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wired, leaving: .withWorseRoute)) == "drain interfaceLost")
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 500) == nil)
    var back = flow
    #expect(back.see(Self.wifi, at: 999) == nil && back.deadline == nil)
    // A way that is preferred later is a better path.
    #expect(back.see(.by(.wired, leaving: .withRoute), at: 1500) == "destroy betterPath")
    #expect(flow.see(.by(.wired, leaving: .withRoute), at: 1000) == "destroy betterPath")
  }

  @Test("I10 a link fails, but the flow's address is elsewhere → the route's grace period")
  func addressElsewhere() {
    let lost = FlowReading.by(TestLink.wired.withoutCarrier).with { $0.isSourceElsewhere = true }
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(lost) == "advise interfaceLost" && flow.deadline == 1000)
    var moved = flow
    #expect(moved.see(.by(.wifi, leaving: .untied), at: 30) == nil && moved.deadline == nil)
    #expect(flow.see(lost, at: 1000) == "destroy interfaceLost")
  }

  @Test("I10 a link fails while its route is missing and another link carries traffic → destroyed")
  func failedWhileTakenOver() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.cellular, leaving: .withoutRoute)) == "drain interfaceLost")
    #expect(flow.see(.by(.cellular, leaving: .failed), at: 500) == "destroy interfaceLost")
  }

  @Test("I10 the link or the address is removed during the grace period → it ends")
  func gone() {
    for lost in [Self.deadWifi, .noRoute] {
      var flow = Self.inGrace(lost)
      #expect(flow.see(lost.with { $0.formerLink = .failed }, at: 1) == "destroy interfaceLost")
      flow = Self.inGrace(lost)
      #expect(flow.see(lost.with { $0.sourceLoss = .final }, at: 1) == "destroy sourceAddressLost")
    }
  }

  @Test("I10 a carrier lost while the route was missing has its own grace period, on Wi-Fi only")
  func carrierAfterRoute() {
    var flow = FollowedFlow(on: .by(.wired))
    #expect(flow.see(.noRoute) == "advise interfaceLost")
    #expect(flow.see(.by(TestLink.wired.withoutCarrier), at: 500) == "destroy interfaceLost")

    flow = Self.inGrace(.noRoute)
    #expect(flow.see(Self.deadWifi, at: 500) == nil)
    #expect(flow.deadline == 1000)
    flow = Self.inGrace()
    #expect(flow.see(.noRoute, at: 500) == nil)
    #expect(flow.see(.noRoute, at: 1000) == "destroy interfaceLost")
  }

  @Test(
    "I10 the kernel chooses another, dead link instead → only the flow's route is lost")
  func otherDeadLink() {
    var flow = FollowedFlow(on: .by(.wired))
    let dead = FlowReading.by(TestLink.wifi.withoutCarrier)
    #expect(flow.see(dead) == "advise interfaceLost")
    #expect(flow.deadline == 1000)
    #expect(flow.see(.by(.wired), at: 500) == nil)
  }

  @Test("I10 the scope remembers whether a link failed or only a route is missing")
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

  @Test("K8 a kernel that cannot be asked is not a loss")
  func unknown() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.unknown) == nil)
    #expect(
      flow.see(
        .unknown.with {
          $0.sourceLoss = .final; $0.formerLink = .failed
        }) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
  }

  @Test("K8 a grace period that ends while the kernel cannot be asked waits for the next answer")
  func unknownDuringGrace() {
    var flow = Self.inGrace()
    #expect(flow.see(.unknown, at: 500) == nil)
    #expect(flow.deadline == nil)
    var lost = flow
    #expect(lost.see(Self.deadWifi, at: 600) == nil)
    #expect(lost.deadline == 1000)
    var late = flow
    #expect(late.see(Self.deadWifi, at: 5000) == "destroy interfaceLost")
    #expect(flow.see(Self.wifi, at: 5000) == nil)
  }

  @Test("K8 a flow registered while nothing is known begins with the first path")
  func registeredBlind() {
    var flow = FollowedFlow(on: .unknown)
    #expect(flow.see(.unknown) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.tracker.path == Self.wifi.path)
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
  }
}

import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Registration")
struct RegistrationTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let destination = Destination("203.0.113.5")

  private static func since(
    _ reason: Invalidation.Reason, _ severity: Invalidation.Severity
  ) -> Invalidation {
    Invalidation(
      generation: 7, reason: reason, severity: severity, scope: .everything,
      cause: ChangeCause(.start, "started"), time: WallTime(microseconds: 0))
  }

  @Test("I0 a new flow is evidence itself, whatever else the kernel prefers")
  func evidence() {
    for reading in [
      Self.wifi, Self.wifi.beside(.wired), Self.wifi.beside(.wired, isKept: true),
      Self.wifi.beside(TestLink.wifi.with { $0.metric += 1 }),
      .by(.wifi, router: 2, epoch: 3, first: 3),
      FlowReading(.loopback, isLocal: true),
    ] as [FlowReading] {
      var flow = FollowedFlow(
        Flow(Self.destination, local: reading.path.source), on: reading)
      #expect(flow.register(reading) == nil)
      #expect(flow.see(reading) == nil)
    }
  }

  @Test("I0 I1 registration refutes only a flow whose address is not the machine's")
  func sourceGone() {
    for reading in [Self.wifi, .noRoute] {
      var flow = FollowedFlow(Flow(Self.destination, local: "192.0.2.9"), on: reading)
      #expect(
        flow.register(reading.with { $0.sourceLoss = .final }) == "destroy sourceAddressLost")
    }
  }

  @Test("I8 registration refutes a flow on a path that it forbids")
  func forbidden() {
    let dear = Self.wifi.with { $0.path.costsMoney = true }
    var flow = FollowedFlow(Flow(Self.destination, forbidsExpensive: true), on: dear)
    #expect(flow.register(dear) == "destroy policy")
    var any = FollowedFlow(on: dear)
    #expect(any.register(dear) == nil)
  }

  @Test(
    "I3 another way was already preferred at registration → advised only for later better paths, once each"
  )
  func chosen() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.register(Self.wifi.beside(.wired)) == nil)
    #expect(flow.see(Self.wifi.beside(.wired)) == nil)
    #expect(flow.see(Self.wifi.beside(.wifi2)) == "advise betterPath")
    #expect(flow.see(Self.wifi.beside(.wifi2)) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(Self.wifi.beside(.wired)) == "advise betterPath")
    // Its own way has become another.
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
  }

  @Test(
    "I0 I10 a connection made while its path is missing has a grace period, on any medium")
  func withoutPath() {
    for (link, reason) in [
      (TestLink.wired, nil), (.wifi, nil), (.wired, .noCarrier), (.wifi, .noCarrier),
    ] as [(TestLink, KernelPath.Reason?)] {
      let reading = reason == nil ? FlowReading.noRoute : .by(link.withoutCarrier)
      var flow = FollowedFlow(
        Flow(Self.destination, local: link.source(.ipv4)), on: reading)
      #expect(flow.register(reading) == "advise interfaceLost")
      #expect(flow.deadline == 1000)
      var back = flow
      #expect(back.see(.by(link), at: 999) == nil)
      #expect(flow.see(reading, at: 1000) == "destroy interfaceLost")
    }
  }

  @Test("I0 a flow without an address has nothing to lose before there is a path")
  func awaiting() {
    var flow = FollowedFlow(on: .noRoute)
    #expect(flow.register(.noRoute) == nil)
    #expect(flow.see(.noRoute, at: 5000) == nil)
    #expect(flow.deadline == nil)
    #expect(flow.see(Self.wifi, at: 6000) == nil)
    #expect(flow.tracker.path == Self.wifi.path)
    #expect(flow.tracker.source == Self.wifi.path.source)
    #expect(flow.see(.noRoute, at: 7000) == "advise interfaceLost")
  }

  @Test("I7 a flow that was guarded before is compared with its last reported path")
  func known() {
    for (reading, expected) in [
      (.by(.wired, leaving: .withRoute), "destroy betterPath"),
      (.by(.wired, leaving: .failed), "destroy interfaceLost"),
      (.by(.wired, leaving: .withoutRoute), "drain interfaceLost"),
      (.by(.wired).with { $0.formerLink = .untied }, nil), (Self.wifi, nil),
      (.noRoute, "advise interfaceLost"),
    ] as [(FlowReading, String?)] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.register(reading) == expected)
    }
  }

  @Test(
    "I7 invalidations published while the flow was unguarded are reported, unless the present is more severe"
  )
  func since() {
    for (reading, since, expected) in [
      (Self.wifi, Self.since(.networkChanged, .destroy), "destroy networkChanged"),
      (Self.wifi, Self.since(.categoryChanged, .advise), "advise categoryChanged"),
      (.noRoute, Self.since(.interfaceLost, .drain), "drain interfaceLost"),
      (
        Self.wifi.with { $0.sourceLoss = .final }, Self.since(.networkChanged, .destroy),
        "destroy sourceAddressLost"
      ),
    ] as [(FlowReading, Invalidation, String)] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.register(reading, since: since) == expected)
    }
  }
}

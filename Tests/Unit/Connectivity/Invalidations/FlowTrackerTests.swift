import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Flow tracker")
struct FlowTrackerTests {
  private static let wifi = FlowReading.by(.wifi)
  private static let dead = FlowReading.by(TestLink.wifi.withoutCarrier)
  private static let soft = InvalidationPolicy(betterPath: .drain)
  private static let destination = Destination("203.0.113.5")

  // MARK: - I0

  @Test("I0 nothing ends a flow while its own way stands")
  func stands() {
    var flow = FollowedFlow(on: Self.wifi)
    for reading in [
      Self.wifi, Self.wifi.with { $0.path.gateway = "10.2.88.2" },
      Self.wifi.with { $0.path.table = 100 }, Self.wifi.with { $0.path.costsMoney = true },
      .by(.wired).with { $0.formerLink = .untied },
    ] {
      #expect(flow.see(reading) == nil)
      #expect(flow.tracker.path == reading.path)
    }
  }

  @Test(
    "I0 the lookup has all of the flow's own values, including an address the client did not name")
  func question() {
    var destination = Destination("203.0.113.5", uid: 1000, mark: 7)
    destination.outLink = 3
    destination.transport = Transport(6, localPort: 40_000, remotePort: 443)
    var asked = destination
    asked.source = "192.0.2.9"
    let named = FollowedFlow(Flow(destination, local: "192.0.2.9"), on: Self.wifi)
    #expect(named.tracker.question == asked)
    asked.source = Self.wifi.path.source
    #expect(FollowedFlow(Flow(destination), on: Self.wifi).tracker.question == asked)
    #expect(FollowedFlow(Flow(destination), on: .noRoute).tracker.question == destination)
  }

  @Test("I0 each leg of a multipath route is right, and each may fail")
  func untied() {
    var flow = FollowedFlow(on: Self.wifi)
    let other = FlowReading.by(.wired).with { $0.formerLink = .untied }
    #expect(flow.see(other) == nil)
    #expect(flow.see(.by(.wired)) == nil)
    #expect(flow.see(Self.wifi.with { $0.formerLink = .untied }) == nil)
    #expect(flow.see(other) == nil)
    #expect(flow.see(.by(TestLink.wired.withoutCarrier)) == "destroy interfaceLost")
  }

  @Test(
    "I0 I3 a flow moved to another leg may still be on its own → it is compared with its own link")
  func leg() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wired).with { $0.formerLink = .leg }) == nil)
    // Now its way leads there for good.
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
    var other = FollowedFlow(on: Self.wifi)
    #expect(other.see(.by(.wired).with { $0.formerLink = .leg }) == nil)
    #expect(other.see(Self.wifi) == nil)
  }

  // MARK: - I1 and I2

  @Test("I1 the source address is gone → destroyed, whatever the path is")
  func sourceAddressLost() {
    for reading in [Self.wifi, .by(.wired, leaving: .withRoute), .noRoute, Self.dead] {
      var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
      #expect(flow.see(reading.with { $0.sourceLoss = .final }) == "destroy sourceAddressLost")
    }
  }

  @Test("I2 a link of the flow is gone or down → destroyed immediately, whatever the path is")
  func interfaceLost() {
    for reading in [FlowReading.by(.wired), .noRoute, .by(TestLink.cellular.withoutCarrier)] {
      var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
      #expect(flow.see(reading.with { $0.formerLink = .failed }) == "destroy interfaceLost")
    }
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(Self.dead.with { $0.path.reason = .linkDown }) == "destroy interfaceLost")
  }

  // MARK: - I3 and T3

  @Test("I3 another link, or an address of another subnet, is a better path")
  func betterPath() {
    let otherSubnet = Self.wifi.beside(TestLink.wifi.with { $0.metric += 1 })
    for reading in [.by(.wired, leaving: .withRoute), otherSubnet, Self.wifi.beside(.wired)] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(Self.wifi) == nil)
      #expect(flow.see(reading) == "destroy betterPath")
    }
  }

  @Test("I3 the policy is softened → drain, and each better path is reported once")
  func betterPathDrains() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    let moved = FlowReading.by(.wired, leaving: .withRoute)
    #expect(flow.see(moved) == "drain betterPath")
    #expect(flow.see(moved) == nil)
    #expect(flow.see(Self.wifi) == nil)
    #expect(flow.see(moved) == "drain betterPath")
    #expect(flow.tracker.path == Self.wifi.path)
    #expect(flow.see(Self.wifi.beside(.wired)) == "drain betterPath")
    #expect(flow.see(Self.wifi.beside(.wired)) == nil)
    #expect(flow.see(Self.wifi.beside(.wifi2)) == "drain betterPath")
  }

  @Test(
    "I3 a flow kept on its way by a rule or a route of its own is advised, until the way is lost")
  func kept() {
    var flow = FollowedFlow(on: Self.wifi)
    let kept = Self.wifi.beside(.wired, isKept: true)
    #expect(flow.see(kept) == "advise betterPath")
    #expect(flow.see(kept) == nil)
    #expect(flow.see(.by(.wired, leaving: .withRoute)) == "destroy betterPath")
  }

  @Test(
    "I3 the flow's own lookup decides: a new way for other connections does not end a kept flow")
  func keptThroughAll() {
    var flow = FollowedFlow(on: Self.wifi)
    for link in [TestLink.wired, .wifi2, .cellular] {
      #expect(flow.see(Self.wifi.beside(link, isKept: true)) == "advise betterPath")
      #expect(flow.see(Self.wifi) == nil)
    }
  }

  @Test("I3 a flow to the machine itself has no better path")
  func local() {
    var flow = FollowedFlow(on: FlowReading(.loopback, isLocal: true))
    #expect(flow.see(Self.wifi.with { $0.isLocal = true }) == nil)
    #expect(flow.see(Self.wifi.beside(.wired).with { $0.isLocal = true }) == nil)
  }

  @Test("T3 a flow that does not name its address is assumed to have the one the kernel chose")
  func unnamedSource() {
    #expect(FollowedFlow(on: Self.wifi).tracker.source == Self.wifi.path.source)
    let named = Flow(Self.destination, local: "192.0.2.9")
    #expect(FollowedFlow(named, on: Self.wifi).tracker.source == "192.0.2.9")
    #expect(FollowedFlow(on: .noRoute).tracker.source == nil)
  }

  @Test("I3 another gateway on the same subnet, or another table, is the same way")
  func otherGateway() {
    var flow = FollowedFlow(on: Self.wifi)
    let other = TestLink.wifi.with { $0.gateway[.ipv4] = 2 }
    let moved = FlowReading.by(other, router: 2, epoch: 1, first: 1)
    #expect(flow.see(moved.with { $0.path.table = 100 }) == nil)
    #expect(flow.tracker.path.gateway == other.gatewayAddress(.ipv4))
  }

  // MARK: - I4

  @Test("I4 another router behind the same link is another network")
  func otherRouter() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    #expect(flow.see(.by(.wifi, router: 2, epoch: 1, first: 1)) == "destroy networkChanged")
  }

  @Test(
    "I4 the gateway's MAC address changes while the link stays up → advised, once for each change")
  func failover() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wifi, router: 2)) == "advise networkChanged")
    #expect(flow.see(.by(.wifi, router: 2)) == nil)
    #expect(flow.see(Self.wifi) == "advise networkChanged")
    #expect(flow.see(.by(.wifi, router: 3)) == "advise networkChanged")
    #expect(flow.see(.by(.wifi, router: 2, epoch: 1, first: 1)) == "destroy networkChanged")
  }

  @Test("I4 an unknown router is compared with the earlier one as soon as it is known")
  func unknownRouter() {
    var flow = FollowedFlow(on: Self.wifi)
    #expect(flow.see(.by(.wifi, router: nil, epoch: 1)) == nil)
    #expect(flow.see(.by(.wifi, router: 1, epoch: 1)) == nil)
    #expect(flow.see(.by(.wifi, router: nil, epoch: 2)) == nil)
    #expect(flow.see(.by(.wifi, router: nil, epoch: 3)) == nil)
    #expect(flow.see(.by(.wifi, router: 2, epoch: 3, first: 2)) == "destroy networkChanged")
  }

  @Test("I4 the router was replaced before the first reading → the time of the link loss decides")
  func lateLook() {
    // The flow was made before the link loss, and the present network has been there since the
    // loss.
    var late = FollowedFlow(on: .by(.wifi, router: nil))
    #expect(late.see(.by(.wifi, router: 2, epoch: 1, first: 1)) == "destroy networkChanged")
    // The flow was made after the loss.
    var learning = FollowedFlow(on: .by(.wifi, router: nil, epoch: 1))
    #expect(learning.see(.by(.wifi, router: 2, epoch: 1, first: 1)) == nil)
    // The link came back with the same router, which is replaced later.
    var back = FollowedFlow(on: Self.wifi)
    #expect(back.see(.by(.wifi, router: 1, epoch: 2, first: 2)) == nil)
    #expect(back.see(.by(.wifi, router: 2, epoch: 2, first: 2)) == "advise networkChanged")
  }

  @Test("I4 another router on another link does not change the flow's network")
  func routerOfAnotherLink() {
    for left in [.withRoute, .untied] as [FlowReading.FormerLink] {
      var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
      let other = FlowReading.by(.wired, router: 2, epoch: 1, first: 1).with {
        $0.formerLink = left
      }
      #expect(flow.see(other) == (left == .untied ? nil : "drain betterPath"))
    }
  }

  @Test("I4 a router counts only on a path that carries traffic")
  func deadRouter() {
    var flow = FollowedFlow(on: Self.wifi)
    let dead = FlowReading.by(TestLink.wifi.withoutCarrier, router: 2, epoch: 1, first: 1)
    #expect(flow.see(dead) == "advise interfaceLost")
  }

  @Test("I4 a flow to an on-link destination does not depend on the gateway")
  func onLink() {
    var flow = FollowedFlow(on: .onLink(.wifi))
    let other = FlowReading.onLink(.wifi).with {
      ($0.network.epoch, $0.network.oldestValidEpoch) = (1, 1)
    }
    #expect(flow.see(other) == nil)
  }

  // MARK: - I6 and I8

  @Test(
    "I6 after a short sleep a flow is advised, after a long one destroyed",
    arguments: [(1, "advise resumed"), (299, "advise resumed"), (300, "destroy resumed")])
  func slept(seconds: Int, expected: String) {
    for reading in [Self.wifi, .unknown] {
      var flow = FollowedFlow(on: Self.wifi)
      #expect(flow.see(reading, slept: .seconds(seconds)) == expected)
    }
  }

  @Test("I6 each sleep is reported, even while the path is missing")
  func sleptWithoutPath() {
    var flow = FollowedFlow(on: Self.wifi)
    for _ in 1...2 { #expect(flow.see(Self.wifi, slept: .seconds(2)) == "advise resumed") }
    #expect(flow.see(.noRoute, slept: .seconds(3600)) == "destroy resumed")
  }

  @Test("E1 I6 I8 sockets cannot refute a verdict about a long sleep or a forbidden path")
  func certain() {
    let moved = FlowReading.by(.cellular, leaving: .withRoute).with { $0.path.costsMoney = true }
    for (forbidsExpensive, slept, isRefutable) in [
      (false, nil, true), (true, nil, false), (false, .seconds(3600), false),
      (false, .seconds(2), true),
    ] as [(Bool, Duration?, Bool)] {
      var tracker = FlowTracker(
        Flow(Self.destination, forbidsExpensive: forbidsExpensive), on: Self.wifi.path)
      let verdict = tracker.update(
        to: moved, slept: slept, policy: InvalidationPolicy(), at: Instant(sinceStart: .zero))
      #expect(verdict?.reason == .betterPath)
      #expect(verdict?.isRefutable == isRefutable)
    }
  }

  @Test("I6 a flow that never leaves the machine is not affected by sleep")
  func sleptLocally() {
    var flow = FollowedFlow(on: FlowReading(.loopback, isLocal: true))
    #expect(flow.see(FlowReading(.loopback, isLocal: true), slept: .seconds(3600)) == nil)
  }

  @Test("I8 a path becomes one that the flow forbids → reported once for each time")
  func policy() {
    let expensive = Self.wifi.with { $0.path.costsMoney = true }
    let constrained = Self.wifi.with { $0.path.constraint = .constrained }
    for (flow, reading, isHit) in [
      (Flow(Self.destination, forbidsExpensive: true), expensive, true),
      (Flow(Self.destination, forbidsExpensive: true), constrained, false),
      (Flow(Self.destination, forbidsConstrained: true), constrained, true),
      (Flow(Self.destination, forbidsConstrained: true), expensive, false),
      (Flow(Self.destination), expensive, false),
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

  @Test("I8 K6 a forbidden cost that is only guessed → drain")
  func guessedPolicy() {
    let guessed = Self.wifi.with {
      $0.path.costsMoney = true
      $0.guesses.isExpensive = true
    }
    var flow = FollowedFlow(Flow(Self.destination, forbidsExpensive: true), on: Self.wifi)
    #expect(flow.see(guessed) == "drain policy")
    #expect(flow.see(guessed) == nil)
    // The guess turns out to be right.
    #expect(flow.see(guessed.with { $0.guesses.isExpensive = false }) == "destroy policy")

    // Two costs are forbidden, and one of them is certain.
    let both = Flow(Self.destination, forbidsExpensive: true, forbidsConstrained: true)
    flow = FollowedFlow(both, on: Self.wifi)
    #expect(flow.see(guessed) == "drain policy")
    #expect(flow.see(guessed.with { $0.path.constraint = .constrained }) == "destroy policy")
  }

  // MARK: - I9

  @Test("I9 several rules apply → the first of the highest severity is reported")
  func precedence() {
    let flow = Flow(Self.destination, forbidsExpensive: true)
    func told(_ reading: FlowReading, _ policy: InvalidationPolicy = .init()) -> String? {
      var followed = FollowedFlow(flow, on: Self.wifi, policy: policy)
      return followed.see(reading, slept: .seconds(3600))
    }
    let failed = FlowReading.by(.cellular, leaving: .failed).with { $0.path.costsMoney = true }
    #expect(told(failed.with { $0.sourceLoss = .final }) == "destroy sourceAddressLost")
    #expect(told(failed) == "destroy interfaceLost")
    let other = FlowReading.by(.wifi, router: 2, epoch: 1, first: 1).beside(.wired)
      .with { $0.path.costsMoney = true }
    #expect(told(other) == "destroy networkChanged")
    let moved = failed.with { $0.formerLink = .withRoute }
    #expect(told(moved) == "destroy betterPath")
    #expect(told(moved, Self.soft) == "destroy policy")
    #expect(told(Self.wifi.with { $0.path.costsMoney = true }) == "destroy policy")
    #expect(told(Self.wifi) == "destroy resumed")
    #expect(told(.noRoute) == "destroy resumed")
  }

  @Test("I9 a lower severity is reported when nothing higher is new")
  func oneByOne() {
    var flow = FollowedFlow(on: Self.wifi, policy: Self.soft)
    let reading = FlowReading.by(.wifi, router: 2).beside(.wired)
    #expect(flow.see(reading) == "drain betterPath")
    #expect(flow.see(reading) == nil)
  }

  @Test("I9 destroy is higher than drain, and drain is higher than advise")
  func severities() {
    #expect(
      [Invalidation.Severity.drain, .destroy, .advise].sorted() == [.advise, .drain, .destroy])
  }
}

import Connectivity
import ConnectivityRules
import Netlink
import Testing

@testable import ConndServer

@Suite("Engine")
struct EngineTests {
  let kernel = ModelKernel()
  let eth0 = LinkFacts(
    Link(
      index: 2, name: "eth0", flags: [.up, .lowerUp, .running], operationalState: .up,
      carrier: true))

  func second(_ second: Int) -> Instant { Instant(sinceStart: .seconds(second)) }

  /// Makes the default route lead over a link.
  func lead(by link: UInt32) throws {
    try self.kernel.lead("0.0.0.0", 0, self.route("192.0.2.1", link: link))
  }

  func route(_ gateway: String, link: UInt32 = 2) -> RouteAnswer {
    .over(link, via: gateway, from: "192.0.2.7")
  }

  func step(_ engine: inout Engine, _ trigger: ReadTrigger, _ second: Int) throws
    -> Engine.Conclusion
  {
    let look = try engine.look(
      trigger, self.kernel, at: self.second(second),
      time: WallTime(microseconds: Int64(second)))
    var step = try engine.conclude(look, self.kernel)
    step.changes = look.changes + step.changes
    return step
  }

  /// Returns the paths that changed for the clients that follow them.
  private func follow(
    _ engine: inout Engine, _ step: Engine.Conclusion, _ second: Int
  ) throws -> [(destination: Destination, path: KernelPath)] {
    engine.follow(step)
    return try engine.evaluatePaths(self.kernel, at: self.second(second))
  }

  @Test("the kernel's state changes → one change; an equal reading → none")
  func reading() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    let first = try self.step(&engine, .start, 0)
    #expect(first.changes.first?.snapshot?.status.category == .wired)
    #expect(first.changes.first?.snapshot?.status.path.sourcePrefixLength == 24)
    #expect(try self.step(&engine, .events([.link(self.eth0.link)]), 1).changes.isEmpty)
  }

  @Test("T3 a host route that captures one of several probes publishes nothing")
  func capturedProbe() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    let probe = Configuration().destinations.ipv4[0]
    let host = try #require(IPPrefix(probe, length: 32))
    try self.kernel.lead("\(probe)", 32, self.route("192.0.2.99", link: 9))
    let captured = MatchedRoute(prefix: host, table: 254, priority: 0)
    let event = KernelEvent.route(
      RouteChange(captured, outLink: 9, gateway: nil), replaced: false)
    #expect(try self.step(&engine, .events([event]), 1).changes.isEmpty)
  }

  @Test("K2 a default route of another type than unicast does not lead to the internet")
  func localDefault() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.kernel.lead("0.0.0.0", 0, .route(Route(kind: .local, outLink: 2)))
    var engine = Engine(Configuration(), restored: nil)
    #expect(
      try self.step(&engine, .start, 0).changes.first?.snapshot?.status.category
        == NetworkCategory.offline)
  }

  @Test("K6 the chain is followed to the bottom, even through a tunnel's remote end")
  func chain() throws {
    let up: LinkFlags = [.up, .lowerUp]
    let remote = try #require(IPAddress("198.51.100.1"))
    self.kernel.linkTable = [
      2: self.eth0,
      5: LinkFacts(
        Link(
          index: 5, name: "gre1", kind: "gre", hardwareType: 778, flags: up,
          outer: Destination(remote))),
      6: LinkFacts(Link(index: 6, name: "vlan7", kind: "vlan", flags: up, lower: 2)),
    ]
    try self.kernel.lead("0.0.0.0", 0, .over(5, via: "10.0.0.1", from: "10.0.0.7"))
    try self.kernel.lead("198.51.100.1", 32, self.route("192.0.2.1", link: 6))
    var engine = Engine(Configuration(), restored: nil)
    let path = try #require(try self.step(&engine, .start, 0).changes.first?.snapshot?.status.path)
    #expect(path.chain.map(\.name) == ["gre1", "vlan7", "eth0"])
    #expect(path.medium == .wired)
  }

  @Test("a stack that contains itself is followed once")
  func loop() throws {
    self.kernel.linkTable = [
      2: LinkFacts(Link(index: 2, name: "a", kind: "vlan", flags: [.up, .lowerUp], lower: 3)),
      3: LinkFacts(Link(index: 3, name: "b", kind: "vlan", flags: [.up, .lowerUp], lower: 2)),
    ]
    try self.kernel.lead("0.0.0.0", 0, self.route("10.0.0.1"))
    var engine = Engine(Configuration(), restored: nil)
    let path = try #require(try self.step(&engine, .start, 0).changes.first?.snapshot?.status.path)
    #expect(path.chain.map(\.name) == ["a", "b"])
  }

  @Test("K8 the kernel cannot be asked → the category is unknown, never none; then it recovers")
  func kernelLost() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    let destination = Destination(try #require(IPAddress("198.51.100.9")))
    _ = try self.step(&engine, .start, 0)
    engine.watch(destination, path: .unsatisfied(.noRoute))

    self.kernel.isGone = true
    #expect(throws: KernelUnavailable.self) { try self.step(&engine, .events([.overrun]), 1) }
    let lost = engine.lostKernel(
      KernelUnavailable(description: "gone"), at: self.second(1),
      time: WallTime(microseconds: 1))
    #expect(lost.changes.first?.snapshot?.status.category == .unknown)
    #expect(lost.paths.map(\.path) == [.unknown])

    self.kernel.isGone = false
    let back = try self.step(&engine, .kernelBack, 2)
    #expect(back.changes.first?.snapshot?.status.category == .wired)
    #expect(
      try self.follow(&engine, back, 2).map(\.path.status) == [.satisfied])
  }

  @Test("D7 a reading that holds nothing back sets no deadline")
  func noDeadline() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    let route = try #require(self.kernel.routes.first)
    var engine = Engine(Configuration(), restored: nil)
    for (second, routes) in [[route], [], [route], [route]].enumerated() {
      self.kernel.routes = routes
      _ = try self.step(&engine, .events([.rule(.ipv4)]), second * 20)
      // Only a running grace period sets a deadline (I10).
      #expect((engine.deadline != nil) == routes.isEmpty)
    }
  }

  @Test("D6 the number of kernel queries does not grow with links and routes")
  func cost() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    let before = self.kernel.questions
    _ = try self.step(&engine, .events([.overrun]), 1)
    let few = self.kernel.questions - before
    for index: UInt32 in 100..<1100 {
      self.kernel.linkTable[index] = LinkFacts(Link(index: index, name: "l\(index)"))
      try self.kernel.lead("10.\(index / 256).\(index % 256).0", 24, self.route("192.0.2.1"))
    }
    _ = try self.step(&engine, .events([.overrun]), 2)
    #expect(self.kernel.questions - before == 2 * few)
  }

  @Test("a watched destination's path is reported only when it changes")
  func watched() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    let destination = Destination(try #require(IPAddress("198.51.100.9")))
    engine.watch(
      destination, path: try engine.reader.path(to: destination, KernelView(self.kernel)).path)
    #expect(engine.filterSpec.destinations.contains(destination.address))
    let same = try self.step(&engine, .events([]), 1)
    #expect(try self.follow(&engine, same, 1).isEmpty)
    try self.kernel.lead("198.51.100.0", 24, self.route("192.0.2.99"))
    let step = try self.step(&engine, .events([]), 2)
    #expect(step.changes.isEmpty)
    let paths = try self.follow(&engine, step, 2)
    #expect(paths.map(\.destination) == [destination])
    #expect(paths.first?.path.gateway == IPAddress("192.0.2.99"))
  }

  @Test(
    "I4 K8 the router was replaced while the kernel could not be asked → it is noticed afterwards")
  func routerExchangedMeanwhile() throws {
    let gateway = try #require(IPAddress("192.0.2.1"))
    func neighbour(_ last: UInt8) -> Neighbour {
      Neighbour(gateway, link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
    }
    var eth0 = self.eth0
    eth0.link.hardwareAddress = [2, 0, 0, 0, 1, 1]
    self.kernel.linkTable[2] = eth0
    self.kernel.neighbours[gateway] = neighbour(1)
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    _ = engine.lostKernel(
      KernelUnavailable(description: "gone"), at: self.second(1),
      time: WallTime(microseconds: 1))
    self.kernel.neighbours[gateway] = neighbour(2)
    let back = try self.step(&engine, .kernelBack, 2)
    let reasons = back.changes.compactMap { change -> Invalidation.Reason? in
      if case .invalidation(let told) = change { told.reason } else { nil }
    }
    #expect(reasons == [.networkChanged])
  }

  @Test("D4 followed destinations are read in slices, each destination once")
  func slices() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    let destinations = try (1...100).map { Destination(try IPAddress(spelt: "203.0.113.\($0)")) }
    for destination in destinations { engine.watch(destination, path: .unknown) }
    var slices = [try self.follow(&engine, try self.step(&engine, .start, 0), 0)]
    let first = slices[0].map(\.destination)
    #expect(first.count < destinations.count)
    let gone = try #require(destinations.first { !first.contains($0) })
    engine.unwatch(gone)
    // Events in between do not restart the pass.
    slices.append(try self.follow(&engine, try self.step(&engine, .events([]), 1), 1))
    slices.append(try self.follow(&engine, try self.step(&engine, .events([]), 2), 2))
    #expect(Set(slices.joined().map(\.destination)).count > 2 * first.count)
    while engine.watched.isBusy {
      slices.append(try engine.evaluatePaths(self.kernel, at: self.second(2)))
    }
    let told = slices.joined().map(\.destination)
    #expect(told.count == 99 && Set(told) == Set(destinations).subtracting([gone]))
  }

  @Test("K8 the kernel fails in the middle of a reading → nothing known is lost")
  func failure() throws {
    self.kernel.linkTable[2] = self.eth0
    self.kernel.linkTable[2]?.link.hardwareAddress = [2, 0, 0, 0, 0, 1]
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    let watched = engine.filterSpec
    #expect(!watched.gateways.isEmpty)
    var step = 1
    while true {
      self.kernel.happens(after: step - 1) { self.kernel.isGone = true }
      let result = Result { try self.step(&engine, .events([]), step) }
      #expect(engine.filterSpec == watched)
      guard case .failure = result else { break }
      self.kernel.isGone = false
      step += 1
    }
    #expect(step > 3)
  }

  @Test("a new configuration is applied immediately")
  func configure() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    var engine = Engine(Configuration(), restored: nil)
    _ = try self.step(&engine, .start, 0)
    var configuration = Configuration()
    configuration.links = LinkPolicy([.init(match: "eth*", medium: .cellular)])
    engine.configure(configuration)
    let change = try #require(try self.step(&engine, .configuration, 1).changes.first)
    guard case .transition(let transition) = change else {
      Issue.record("\(change)")
      return
    }
    #expect(transition.from == .wired && transition.to == .cellular)
    #expect(transition.cause.trigger == .configuration)
    #expect(transition.snapshot.status.isMetered)
  }

  @Test("D9 an answer expires → it is read again then, and the result is published")
  func expiry() throws {
    self.kernel.linkTable[2] = self.eth0
    try self.lead(by: 2)
    self.kernel.expiry = .seconds(30)
    var engine = Engine(Configuration(), restored: nil)
    let first = try self.step(&engine, .start, 0)
    #expect(engine.deadline?.due == self.second(30) && engine.deadline?.trigger == .expiry)
    // Answers for the destinations of single clients may expire, too.
    self.kernel.expiry = .seconds(10)
    engine.watch(Destination(try IPAddress(spelt: "203.0.113.9")), path: .unknown)
    _ = try self.follow(&engine, first, 5)
    #expect(engine.deadline?.due == self.second(15))
    self.kernel.expiry = .seconds(60)
    _ = try self.follow(&engine, first, 5)
    #expect(engine.deadline?.due == self.second(15))

    // In the last hundredth of a second the kernel reports no expiry.
    _ = try self.step(&engine, .events([]), 14)
    #expect(engine.deadline?.due == self.second(15))
    self.kernel.expiry = .seconds(15)
    _ = try self.step(&engine, .expiry, 15)
    #expect(engine.deadline?.due == self.second(30))

    // The router has renewed the route by very little: its last hundredth is just now.
    #expect(try self.step(&engine, .expiry, 30).changes.isEmpty)
    #expect(engine.deadline?.due == self.second(30).advanced(by: .milliseconds(20)))
    #expect(engine.deadline?.trigger == .expiry)

    self.kernel.routes = []
    let step = try self.step(&engine, .expiry, 31)
    guard case .transition(let transition) = step.changes.first else {
      Issue.record("\(step.changes)")
      return
    }
    #expect(transition.to == NetworkCategory.offline && transition.cause.change == "routeExpired")
    // The remaining deadline is the grace period's (I10).
    #expect(engine.deadline?.due == self.second(32) && engine.deadline?.trigger == .timer)
  }
}

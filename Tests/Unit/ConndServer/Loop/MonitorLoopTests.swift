import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink
import TestTraits
import Testing

@testable import ConndServer

@Suite("Monitor loop")
struct MonitorLoopTests {
  @Test("K8 I1 flows registered while the kernel cannot be asked are registered again when it can")
  func registeredBlindly() throws {
    var loop = try TestLoop.started { $0.isGone = true }
    #expect(loop.loop.kernel == nil)
    #expect(try loop.guardFlow(2, local: "192.0.2.99") == ["2 path none unknown"])
    #expect(try loop.guardFlow(1, local: "192.0.2.7") == ["1 path none unknown"])
    // Nothing is done before the retry is due.
    #expect(loop.turn() == [])
    loop.kernel.isGone = false
    #expect(
      loop.turn(after: .seconds(1)) == ["1 path eth0", "2 destroy sourceAddressLost late none"])
    #expect(loop.loop.engine.flows.count == 1)
    #expect(loop.tell() == [])
  }

  @Test("K8 a flow is removed while the kernel cannot be asked → it is not registered again")
  func letGoBlindly() throws {
    var loop = try TestLoop.started { $0.isGone = true }
    #expect(try loop.guardFlow(1) == ["1 path none unknown"])
    loop.loop.guards.enqueue(.remove(.init(mailbox: loop.mailbox.number, id: 1)))
    #expect(loop.turn() == [])
    loop.kernel.isGone = false
    #expect(loop.turn(after: .seconds(1)) == [])
    #expect(loop.loop.kernel != nil && loop.loop.engine.flows.count == 0)
  }

  @Test("D6 a new destination makes connd listen to all links again, without another reading")
  func destinationWhileUnheard() throws {
    var loop = try TestLoop.started()
    loop.becomeDeaf()
    let batches = loop.count("batches")
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    #expect(loop.kernel.watched.unheard == nil)
    #expect(loop.turn() == [] && loop.count("batches") == batches)
  }

  @Test("K6 D6 a tunnel's remote end changes → connd listens to all links again")
  func tunnelEndWhileUnheard() throws {
    var loop = try TestLoop.started { kernel in
      kernel.addTunnel(5, "gre1", to: "198.51.100.1")
      try kernel.lead("0.0.0.0", 0, .over(5, from: "10.0.0.7"))
      try kernel.lead("198.51.100.0", 24, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    }
    loop.becomeDeaf()
    #expect(loop.kernel.watched.unheard != nil)
    loop.kernel.addTunnel(5, "gre1", to: "198.51.100.2")
    _ = loop.tell()
    let end = try IPAddress(spelt: "198.51.100.2")
    #expect(loop.kernel.watched.destinations.contains(end))
    #expect(loop.kernel.watched.unheard == nil)
    // A change that comes then is noticed.
    loop.becomeDeaf()
    try loop.kernel.lead("0.0.0.0", 0, .over(9, from: "10.0.0.9"))
    loop.kernel.addLink(9, "late")
    _ = loop.tell()
    #expect(loop.kernel.watched.unheard == nil)
  }

  @Test("T3 links cannot be listed → connd keeps listening to all, and loses nothing")
  func unlisted() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    var link = Link(index: 100, name: "veth100")
    link.isNew = true
    // The first message comes before connd knows which links exist.
    #expect(loop.tell([.link(link)]) == [])
    kernel.happens(after: 0) { kernel.isGone = true }
    for _ in 0..<100 where !kernel.isGone { #expect(loop.tell([.link(link)]) == []) }
    #expect(kernel.isGone)
    kernel.isGone = false
    #expect(loop.loop.kernel != nil && kernel.watched.unheard == nil)
    loop.becomeDeaf()
    #expect(kernel.watched.unheard != nil)
  }

  @Test("T5 the removal of a link waits while connd reads that it was set down → it is the cause")
  func removedLink() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1, local: "192.0.2.7") == ["1 path eth0"])
    let kernel = loop.kernel
    var link = try #require(kernel.linkTable[2]).link
    link.flags = []
    let before = loop.loop.feed.store.past.count
    // The kernel is still removing the link when connd reads the first message.
    kernel.happens(after: 0) {
      kernel.linkTable[2] = nil
      kernel.routes = []
      kernel.take("192.0.2.7")
      kernel.untold.append { [.linkRemoved(link)] }
    }
    #expect(loop.tell([.link(link)]) == ["1 destroy sourceAddressLost"])
    let causes = loop.loop.feed.store.past.dropFirst(before).map { published in
      switch published.change {
      case .transition(let transition): transition.cause.change
      case .path(let change): change.cause.change
      case .invalidation(let invalidation): invalidation.cause.change
      case .dns(let change): change.cause.change
      }
    }
    #expect(!causes.isEmpty && causes.allSatisfy { $0 == "linkRemoved" }, "\(causes)")
  }

  @Test("K8 the kernel fails while flows are registered → it is reported lost, and opened again")
  func failure() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    kernel.happens(after: 0) { kernel.isGone = true }
    #expect(try loop.guardFlow(1) == ["1 path none unknown"])
    #expect(loop.loop.kernel == nil && loop.count("kernel_losses") == 1)
    #expect(loop.loop.engine.snapshot.status.category == .unknown)
    kernel.isGone = false
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0"])
  }

  @Test("K8 a kernel that fails with unread messages is lost once")
  func failureInBurst() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    kernel.untold = [
      {
        kernel.isGone = true
        return [.rule(.ipv4)]
      }, { [.rule(.ipv4)] },
    ]
    #expect(loop.turn() == [])
    #expect(loop.loop.kernel == nil && loop.count("kernel_losses") == 1)
    #expect(loop.loop.due == loop.clock.now.advanced(by: .seconds(1)))
  }

  @Test(
    "D8 messages keep getting lost → connd reads again immediately at first, then at a bounded rate"
  )
  func overruns() throws {
    var loop = try TestLoop.started()
    let readings = loop.count("readings")
    let kernel = loop.kernel
    func tellOfLoss() { kernel.untold = [{ [.overrun] }] }
    // The kernel drops some messages every millisecond.
    for _ in 0..<1000 {
      tellOfLoss()
      _ = loop.turn(after: .milliseconds(1))
    }
    let count = loop.count("readings") - readings
    #expect(count > 50 && count <= 100, "\(count)")
    // The final state is read in the end, and no deadline remains.
    loop.kernel.routes = []
    _ = loop.turn(after: .milliseconds(20))
    #expect(loop.loop.engine.snapshot.status.category == NetworkCategory.none)
    _ = loop.turn(after: .seconds(5))
    #expect(loop.loop.listens && loop.loop.due == nil)
    // After a while, the next loss is handled immediately again.
    try loop.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    tellOfLoss()
    _ = loop.turn()
    #expect(loop.loop.engine.snapshot.status.category == .wired)
  }

  @Test(
    "D4 K8 messages keep getting lost beside a flow → each turn ends, and the flow is not ended")
  func overrunsBesideFlow() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let kernel = loop.kernel
    for _ in 0..<3 {
      kernel.untold = [{ [.overrun] }]
      _ = loop.turn(after: .milliseconds(1))
    }
    #expect(!loop.loop.listens, "reading pauses")
    // Messages that are not read during the pause explain why the flow's route is away.
    kernel.untold = [{ [.rule(.ipv4)] }]
    let routes = kernel.routes
    kernel.routes = []
    #expect(loop.turn(after: .milliseconds(1)) == [] && !loop.loop.isBusy)
    kernel.routes = routes
    #expect(loop.turn(after: .milliseconds(20)) == [] && loop.loop.listens)
  }

  @Test("D4 a source reports changes without end → clients' queries are answered in between")
  func endlessFacts() throws {
    var loop = try TestLoop.started()
    var isMetered = false
    var answers = 0
    for _ in 0..<20 {
      loop.metering.updates = (0..<64).map { _ in
        isMetered.toggle()
        return .metering(MeteringReports(manager: ["eth0": isMetered ? .yes : .no], phones: []))
      }
      loop.loop.turn(
        on: .init(sources: SourceSet(index: 2)), taking: [.awaitFirstReading(.unheard)])
      for _ in 0..<16 where loop.loop.isBusy { loop.loop.turn(on: .init()) }
      if !loop.loop.mustRead { answers += 1 }
    }
    #expect(answers == 20 && loop.loop.facts.isEmpty)
  }

  @Test(
    "I5 evaluating all flows takes long → clients that watch changes are served first",
    .blocking,
    arguments: [4096, 4097])
  func precedence(flows: UInt32) throws {
    var loop = try TestLoop.started { $0.addLink(3, "eth1") }
    try loop.guardFlows(flows)
    func change(to link: UInt32) throws {
      try loop.kernel.lead("0.0.0.0", 0, .over(link, via: "198.51.100.1", from: "198.51.100.7"))
    }
    let isMany = flows > 4096
    try change(to: 3)
    #expect(loop.tell().isEmpty == isMany)
    #expect(loop.loop.engine.snapshot.status.interface == "eth1")
    guard isMany else { return }
    #expect(loop.loop.due == loop.clock.now.advanced(by: .milliseconds(1)))
    #expect(loop.turn(after: .milliseconds(1)).count == Int(flows))
  }

  @Test("I5 an endless series of changes does not postpone the evaluation of flows", .blocking)
  func boundedPrecedence() throws {
    var loop = try TestLoop.started { $0.addLink(3, "eth1") }
    // These flows do not depend on the path that changes.
    try loop.kernel.lead("198.18.0.0", 15, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    try loop.guardFlows(5000)
    var waits = 0
    for round in 0..<40 {
      let link: UInt32 = round.isMultiple(of: 2) ? 3 : 2
      try loop.kernel.lead("0.0.0.0", 0, .over(link, via: "192.0.2.1", from: "192.0.2.7"))
      loop.kernel.untold.append { [.rule(.ipv4)] }
      _ = loop.turn(after: .milliseconds(1))
      if loop.loop.engine.flows.isBusy { waits += 1 }
    }
    #expect(waits == 2)
  }

  @Test(
    "K6 D6 a followed destination is behind a tunnel → the tunnel's remote end passes the filter immediately"
  )
  func watchedTunnel() throws {
    let end = try IPAddress(spelt: "198.51.100.1")
    var loop = try TestLoop.started { kernel in
      kernel.addTunnel(5, "gre1", to: "198.51.100.1")
      try kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    }
    #expect(!loop.kernel.watched.destinations.contains(end))
    let destination = Destination(try IPAddress(spelt: "203.0.113.9"))
    let watch = loop.loop.watch(destination)
    #expect(loop.kernel.watched.destinations.contains(end))
    #expect(loop.kernel.watched.destinations.contains(destination.address))
    loop.loop.unwatch(destination, watch.watcher)
  }

  @Test(
    "K6 a change below a tunnel before its remote end passes the filter is part of the first path")
  func watchedTunnelMoved() async throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(3, "eth1")
      kernel.addTunnel(5, "gre1", to: "198.51.100.1")
      try kernel.lead("203.0.113.0", 24, .over(5, from: "10.0.0.2"))
    }
    let (kernel, destination) = (loop.kernel, Destination(try IPAddress(spelt: "203.0.113.9")))
    let before = kernel.questions
    #expect(
      try loop.loop.engine.reader.path(to: destination, KernelView(kernel)).path.chain.map(\.name)
        == ["gre1", "eth0"])
    // The filter gets the destination, and the path is read; then the filter gets the remote end.
    kernel.happens(after: 1 + kernel.questions - before) {
      #expect(throws: Never.self) {
        try kernel.lead("198.51.100.1", 32, .over(3, from: "198.51.100.7"))
      }
    }
    let watch = loop.loop.watch(destination)
    loop.loop.unwatch(destination, watch.watcher)
    let paths = await watch.paths.reduce(into: []) { $0.append($1) }
    #expect(paths.map { $0.chain.map(\.name) } == [["gre1", "eth1"]])
  }

  @Test(
    "a second client follows a destination before a change is read → the first gets the change, too"
  )
  func watchedTwice() async throws {
    var loop = try TestLoop.started { $0.addLink(3, "eth1") }
    let destination = Destination(try IPAddress(spelt: "203.0.113.9"))
    let first = loop.loop.watch(destination)
    var paths = first.paths.makeAsyncIterator()
    #expect(await paths.next()?.chain.first?.index == 2)
    // The kernel's message is not read yet.
    try loop.kernel.lead("203.0.113.0", 24, .over(3, via: "192.0.2.1", from: "192.0.2.2"))
    let second = loop.loop.watch(destination)
    loop.loop.unwatch(destination, first.watcher)
    loop.loop.unwatch(destination, second.watcher)
    #expect(await paths.next()?.chain.first?.index == 3)
    #expect(await second.paths.first { _ in true }?.chain.first?.index == 3)
  }

  @Test("D4 a change that is published in an endless burst is sent before the burst ends")
  func endlessBurst() throws {
    var loop = try TestLoop.started()
    #expect(loop.turn() == [])
    let (kernel, statistics) = (loop.kernel, loop.loop.feed.statistics)
    func told() -> UInt64 {
      statistics.counted.first { $0.name == "published" && $0.kind == "path" }?.value ?? 0
    }
    var toldMeanwhile: UInt64 = 0
    kernel.untold = (1...160).map { number in
      {
        toldMeanwhile = told()
        let way = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.\(10 + number)")
        #expect(throws: Never.self) { try kernel.lead("0.0.0.0", 0, way) }
        return [.rule(.ipv4)]
      }
    }
    #expect(loop.turn() == [] && told() == 80, "two are read at once")
    #expect(toldMeanwhile > 64)
  }

  // MARK: - Losses

  /// The published paths: `none`, `eth1`.
  private func published(_ loop: TestLoop) -> [String] {
    loop.loop.feed.store.past.compactMap { published in
      switch published.change {
      case .transition(let change):
        "\(change.snapshot.status.interface ?? "none") \(change.cause.change)"
      case .path(let change):
        "\(change.snapshot.status.interface ?? "none") \(change.cause.change)"
      case .invalidation, .dns: nil
      }
    }
  }

  @Test("K8 waiting messages are read before the kernel is: a path that moves is not lost")
  func moved() throws {
    var loop = try TestLoop.started { $0.addLink(3, "eth1") }
    let kernel = loop.kernel
    let all = try #require(kernel.routes.first?.prefix)
    let old = MatchedRoute(prefix: all, table: 254, priority: 100)
    kernel.untold = [
      {
        kernel.routes = []
        return [.routeRemoved(RouteChange(old, outLink: 2, gateway: IPAddress("192.0.2.1")))]
      },
      {
        #expect(throws: Never.self) {
          try kernel.lead("0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"))
        }
        return [.route(RouteChange(old, outLink: 3, gateway: nil), replaced: false)]
      },
    ]
    _ = loop.turn()
    #expect(self.published(loop) == ["eth0 started", "eth1 routeRemoved"])
  }

  @Test("K8 T1 a loss is published immediately if no message explains it further")
  func lost() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    let more = { [KernelEvent.rule(.ipv4)] }
    kernel.untold = [
      {
        kernel.routes = []
        return [.rule(.ipv4)]
      }, more, more, more,
    ]
    loop.loop.turn(on: .init(hasMessages: true))
    #expect(self.published(loop) == ["eth0 started", "none ruleAdded"])
    #expect(loop.count("readings") == 3, "two are read at once")
  }

  @Test("T1 a cable flaps beside Wi-Fi → each change is published in the turn that hears it")
  func flapping() throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      kernel.linkTable[3]?.device.type = "wlan"
      try kernel.lead(
        "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 600)
    }
    let kernel = loop.kernel
    func flap(_ state: LinkState) throws -> [KernelEvent] {
      kernel.setState(of: 2, state)
      let way = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      // The network manager removes the route.
      if state == .up { try kernel.lead("0.0.0.0", 0, way, metric: 100) }
      if state != .up { try kernel.cut("0.0.0.0", 0, metric: 100) }
      return [.link(try #require(kernel.linkTable[2]).link)]
    }
    for _ in 0..<4 {
      _ = loop.tell(try flap(.noCarrier))
      #expect(loop.loop.engine.snapshot.status.interface == "wlan0")
      _ = loop.tell(try flap(.up))
      #expect(loop.loop.engine.snapshot.status.interface == "eth0")
    }
  }
}

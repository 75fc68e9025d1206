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
      let flowPath = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
      // The network manager removes the route.
      if state == .up { try kernel.lead("0.0.0.0", 0, flowPath, metric: 100) }
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

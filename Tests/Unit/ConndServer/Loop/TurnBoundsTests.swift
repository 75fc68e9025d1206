import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink
import TestTraits
import Testing

@testable import ConndServer

/// Work that must be done although other work does not end.
@Suite("Bounds of a turn")
struct TurnBoundsTests {
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
    #expect(loop.loop.engine.snapshot.status.category == NetworkCategory.offline)
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
    kernel.untold = [{ [.overrun] }]
    _ = loop.turn(after: .milliseconds(1))
    // The second loss in a row begins the pause, and further messages already wait.
    let routes = kernel.routes
    let more = { [KernelEvent.rule(.ipv4)] }
    kernel.untold = [{ [.overrun] }, more, more]
    loop.clock.instant = loop.clock.instant.advanced(by: .milliseconds(1))
    loop.loop.turn(on: .init(hasMessages: true))
    kernel.routes = []
    for _ in 0..<3 { loop.loop.turn() }
    #expect(!loop.loop.listens && !loop.loop.isBusy)
    #expect(loop.mailbox.take() == [], "the messages may explain the missing route")
    kernel.routes = routes
    #expect(loop.turn(after: .milliseconds(20)) == [] && loop.loop.listens)
  }

  @Test("D4 a source reports changes without end → clients' queries are answered in between")
  func endlessFacts() throws {
    var loop = try TestLoop.started()
    var isMetered = false
    loop.loop.take(
      .query(KernelQuery(id: 1, account: .root, kind: .listLinks(.unheard))))
    var turns = 0
    while loop.loop.queries.isBusy, turns < 100 {
      // A batch of changes waits in the source all the time.
      loop.metering.updates = (0..<64).map { _ in
        isMetered.toggle()
        return .metering(MeteringReports(manager: ["eth0": isMetered ? .yes : .no], phones: []))
      }
      loop.loop.turn(on: .init(sources: SourceSet(index: 2)))
      #expect(loop.loop.facts.count <= 64)
      turns += 1
    }
    #expect(turns < 20)
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
        let flowPath = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.\(10 + number)")
        #expect(throws: Never.self) { try kernel.lead("0.0.0.0", 0, flowPath) }
        return [.rule(.ipv4)]
      }
    }
    #expect(loop.turn() == [] && told() == 80, "two are read at once")
    #expect(toldMeanwhile > 64)
  }

  @Test("D6 endless registrations are refused → the filter does not keep their addresses")
  func refusedAddresses() throws {
    var loop = try TestLoop.started()
    loop.loop.guards.limits.flowsPerStream = 1
    for round in 0..<50 as Range<UInt32> {
      for number in 1...100 as ClosedRange<UInt32> {
        let remote = try IPAddress(spelt: "198.18.\(round).\(number)")
        let key = FlowTable.Key(
          mailbox: loop.mailbox.number, id: UInt64(100 * round + number))
        loop.loop.guards.enqueue(.add(.init(key: key, flow: Flow(Destination(remote)))))
      }
      // Requests wait after each turn.
      loop.loop.turn()
    }
    while loop.loop.isBusy { loop.loop.turn() }
    #expect(loop.loop.engine.flows.count == 1)
    #expect(loop.kernel.watched.destinations.count < 2048)
  }
}

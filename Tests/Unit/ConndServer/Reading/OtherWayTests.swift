import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink
import Testing

@testable import ConndServer

/// The path by another link's default route (W5, W6), in a kernel that a test writes. The cable
/// `eth0` has the default route.
@Suite("The other way")
struct OtherWayTests {
  private static let byCable = RouteAnswer.over(2, via: "192.0.2.1", from: "192.0.2.7")
  private static let byPhone = RouteAnswer.over(4, via: "198.51.100.1", from: "198.51.100.7")
  private static let host = "93.184.215.14"

  /// A second cable has a default route with a higher metric.
  private func started(_ prepare: (ModelKernel) throws -> Void = { _ in }) throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.addLink(4, "eth1")
      try kernel.lead("0.0.0.0", 0, Self.byPhone, metric: 1000)
      try prepare(kernel)
    }
  }

  private func otherWay(_ loop: TestLoop, to host: String = Self.host) throws -> OtherWay {
    let destination = Destination(try IPAddress(spelt: host))
    return try loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.otherWay(to: destination)
    }.get()
  }

  @Test("W5 a second default route is the other way, with its own source and gateway")
  func found() throws {
    let way = try self.otherWay(try self.started())
    #expect(way.isAllowed)
    #expect(way.path?.interface == "eth1")
    #expect(way.path?.source?.description == "198.51.100.7")
    #expect(way.path?.gateway?.description == "198.51.100.1")
  }

  @Test("W5 without a second default route → no other way")
  func missing() throws {
    #expect(try self.otherWay(try TestLoop.started()).whyNot == .noOtherPath)
    let neighbourly = try TestLoop.started { kernel in
      kernel.addLink(4, "eth1")
      try kernel.lead("198.51.100.0", 24, .over(4, from: "198.51.100.7"))
      // The kernel invents a route for a bound socket.
      kernel.bound[4] = .over(4, from: "198.51.100.7", table: 0)
    }
    #expect(try self.otherWay(neighbourly).whyNot == .noOtherPath)
  }

  @Test("W5 a tunnel, a table, or a host route of the destination's own is not left")
  func kept() throws {
    let tunnel = try self.started { kernel in
      kernel.addLink(5, "wg0", kind: "wireguard")
      try kernel.lead("0.0.0.0", 0, .over(5, from: "10.8.0.2", table: 51820))
    }
    #expect(try self.otherWay(tunnel).whyNot == .tunnel)
    let host = try self.started { try $0.lead(Self.host, 32, Self.byCable) }
    #expect(try self.otherWay(host).whyNot == .ownRoute)
    let table = try self.started { kernel in
      try kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7", table: 100))
    }
    #expect(try self.otherWay(table).whyNot == .ownRoute)
    #expect(try self.otherWay(try self.started(), to: "10.1.2.3").whyNot == .notGlobal)
  }

  @Test("W5 the kernel drops answers on the other link → not allowed, and the path is named")
  func strict() throws {
    let loop = try self.started { $0.refusingReplies = [4] }
    let way = try self.otherWay(loop)
    #expect(way.whyNot == .strictFilter && way.path?.interface == "eth1")
  }

  @Test("W6 the other link is a modem, or roams → not allowed")
  func price() throws {
    let modem = try self.started { kernel in
      kernel.addLink(5, "wwan0")
      kernel.linkTable[4] = nil
      try kernel.lead("0.0.0.0", 0, .over(5, from: "203.0.113.7"), metric: 1000)
    }
    #expect(try self.otherWay(modem).whyNot == .expensive)
    let roaming = try self.started { $0.linkTable[4]?.modem = ModemLink(isRoaming: true) }
    #expect(try self.otherWay(roaming).whyNot == .roaming)
  }

  @Test("W6 assist is on → a modem is allowed until it ends; off → no other way at all")
  func assisted() throws {
    var loop = try self.started { kernel in
      kernel.addLink(5, "wwan0")
      kernel.linkTable[4] = nil
      try kernel.lead("0.0.0.0", 0, .over(5, from: "203.0.113.7"), metric: 1000)
    }
    func set(_ value: CostRequest.Value, for duration: Duration? = nil) throws {
      let request = CostRequest.AssistRequest(
        value: value, end: duration.map { .after($0) }, user: 1000)
      _ = try loop.answer(.assist(request)).get()
    }
    try set(.on, for: .seconds(7200))
    #expect(try self.otherWay(loop).isAllowed)
    loop.clock.wall = loop.clock.wall.advanced(by: .seconds(7200))
    _ = loop.turn(after: .seconds(7200))
    #expect(try self.otherWay(loop).whyNot == .expensive)
    try set(.off)
    #expect(try self.otherWay(loop).whyNot == .switchedOff)
    try set(.auto)
    #expect(try self.otherWay(loop).whyNot == .expensive)
  }

  @Test("W5 one link's query is refused → the others are still considered")
  func refused() throws {
    let loop = try self.started { kernel in
      kernel.addLink(5, "eth2")
      try kernel.lead("0.0.0.0", 0, .over(5, via: "203.0.113.1", from: "203.0.113.7"), metric: 2000)
      kernel.refuses = { $0 == "reply \(Self.host) 4" }
    }
    #expect(try self.otherWay(loop).path?.interface == "eth2")
  }

  @Test(
    "W5 D7 the question follows nothing: an event afterwards asks the kernel no more than before")
  func free() throws {
    var loop = try self.started()
    func cost() -> Int {
      let before = loop.kernel.questions
      _ = loop.tell()
      return loop.kernel.questions - before
    }
    let before = cost()
    let destination = Destination(try IPAddress(spelt: Self.host))
    loop.loop.take(
      .query(KernelQuery(id: 1, account: .root, kind: .otherWay(destination, .unheard))))
    _ = loop.turn()
    #expect(cost() == before)
    #expect(loop.kernel.watched.destinations.contains(destination.address) == false)
  }
}

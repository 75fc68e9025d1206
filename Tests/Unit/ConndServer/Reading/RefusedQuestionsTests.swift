import Connectivity
import ConnectivityRules
import Netlink
import Testing

@testable import ConndServer

/// A kernel that refuses single queries, and answers all others as usual (K8).
@Suite("Refused queries")
struct RefusedQuestionsTests {
  private static let remote = "route 203.0.113.9"

  private func isUnharmed(_ loop: TestLoop) -> Bool {
    loop.loop.kernel != nil && loop.count("kernel_losses") == 0
      && loop.loop.engine.snapshot.status.category == .wired
  }

  @Test("K8 the lookup for a guarded destination is refused → unknown, and queried again")
  func registration() throws {
    var loop = try TestLoop.started()
    loop.kernel.refuses = { $0 == Self.remote }
    #expect(try loop.guardFlow(1) == ["1 path none unknown"])
    #expect(loop.tell() == [])
    loop.kernel.refuses = { _ in false }
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0"])
    #expect(self.isUnharmed(loop))
  }

  @Test("K8 a refused lookup leaves the other flows judged, and its own flow unchanged")
  func others() throws {
    var loop = try TestLoop.started()
    try loop.guardFlows(3)
    _ = try loop.guardFlow(9, local: "192.0.2.7")
    loop.kernel.refuses = { $0 == Self.remote }
    #expect(loop.tell() == ["9 path none unknown"])
    loop.kernel.take("192.0.2.7")
    loop.kernel.routes = []
    let told = loop.tell()
    #expect(told.count == 3 && told.allSatisfy { !$0.hasPrefix("9 ") }, "\(told)")
    loop.kernel.refuses = { _ in false }
    // The address's grace period begins when the flow is evaluated again.
    _ = loop.turn(after: .seconds(1))
    #expect(
      loop.turn(after: .seconds(1)).filter { $0.hasPrefix("9 ") }.last?
        .hasPrefix("9 destroy sourceAddressLost") == true)
    #expect(loop.count("kernel_losses") == 0)
  }

  @Test("K8 a query that the kernel always refuses is repeated at growing intervals")
  func repetition() throws {
    var loop = try TestLoop.started()
    loop.kernel.refuses = { $0 == Self.remote }
    _ = try loop.guardFlow(1)
    var readings = 0
    for _ in 0..<600 {
      let before = loop.kernel.questions
      _ = loop.turn(after: .seconds(1))
      if loop.kernel.questions > before { readings += 1 }
    }
    #expect(readings < 20, "ten minutes")
    #expect(self.isUnharmed(loop))
  }

  @Test(
    "K8 any query about one flow is refused → other flows still learn of their end",
    arguments: ["entry 203.0.113.9", "route 203.0.113.9", "link 7", "address 192.0.2.7 7"])
  func everyQuestion(question: String) throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(7, "eth7")
      try kernel.lead("203.0.113.0", 24, .over(7, via: "192.0.2.1", from: "192.0.2.7"))
    }
    loop.kernel.refuses = { $0 == question }
    _ = try loop.guardFlow(1)
    try loop.guardFlows(2)
    loop.kernel.take("192.0.2.7")
    loop.kernel.routes = []
    let told = loop.turn() + loop.tell() + loop.turn(after: .seconds(2))
    #expect(told.contains { $0.hasPrefix("2 ") }, "\(told)")
    #expect(loop.count("kernel_losses") == 0)
  }

  @Test(
    "K8 a query about the default path is refused → the path is unknown until it is answered",
    arguments: ["route", "link", "address"])
  func defaultPath(question: String) throws {
    var loop = try TestLoop.started()
    #expect(self.isUnharmed(loop))
    loop.kernel.refuses = { $0.hasPrefix("\(question) ") }
    _ = loop.tell()
    #expect(loop.loop.engine.snapshot.status.category == .unknown)
    #expect(loop.invalidations == [])
    loop.kernel.refuses = { _ in false }
    _ = loop.turn()
    _ = loop.turn(after: .seconds(1))
    #expect(self.isUnharmed(loop) && loop.invalidations == [])
  }

  @Test("K8 a probe that the kernel refuses has no vote")
  func majority() throws {
    let way = RouteAnswer.route(Route(outLink: 2))
    #expect(DefaultDestination.majority(of: [.unanswered("a"), .unanswered("b"), way]) == 2)
    #expect(DefaultDestination.majority(of: [.unanswered("a"), .unanswered("b")]) == 0)
  }
}

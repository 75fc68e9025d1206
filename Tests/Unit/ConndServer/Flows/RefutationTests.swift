import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// New connections that connd declares dead: connd counts its own errors.
@Suite("Refutations")
struct RefutationTests {
  private var local: String { "192.0.2.7" }

  /// The kernel has no route for connd's lookup.
  private func loopWithoutRoutes() throws -> TestLoop {
    try TestLoop.started { $0.routes = [] }
  }

  private let doubt = "1 advise interfaceLost late none"
  private let grace = InvalidationPolicy().routeGrace

  @Test(
    "I11 a new connection that never had a path, as connd sees it, and ends → a refutation")
  func doubted() throws {
    var loop = try self.loopWithoutRoutes()
    try loop.kernel.give(self.local, to: 2)
    #expect(try loop.guardFlow(1, local: self.local) == [self.doubt])
    #expect(loop.count("refutations", "interfaceLost") == 0)
    #expect(loop.turn(after: self.grace) == ["1 destroy interfaceLost"])
    #expect(loop.count("refutations", "interfaceLost") == 1)
    #expect(loop.count("flow_invalidations", "interfaceLost") == 1)
  }

  @Test("I6 I11 a connection that ends for another reason than a lost path → not a refutation")
  func slept() throws {
    var loop = try self.loopWithoutRoutes()
    try loop.kernel.give(self.local, to: 2)
    #expect(try loop.guardFlow(1, local: self.local) == [self.doubt])
    #expect(loop.turn(slept: .seconds(3600)) == ["1 destroy resumed"])
    #expect(loop.count("flow_invalidations", "resumed") == 1)
    #expect(loop.count("refutations", "resumed") == 0)
  }

  @Test("I11 connd has seen a path since the registration → a later end is not a refutation")
  func seen() throws {
    var loop = try self.loopWithoutRoutes()
    try loop.kernel.give(self.local, to: 2)
    #expect(try loop.guardFlow(1, local: self.local) == [self.doubt])
    try loop.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.1", from: "192.0.2.7"), metric: 100)
    #expect(loop.tell() == ["1 path eth0"])
    loop.kernel.routes = []
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: self.grace) == ["1 destroy interfaceLost"])
    #expect(loop.count("refutations", "interfaceLost") == 0)
  }

  @Test(
    "I11 a flow with an earlier verdict, or one that waited for the kernel, may have died since → not a refutation"
  )
  func old() throws {
    var loop = try self.loopWithoutRoutes()
    try loop.kernel.give(self.local, to: 2)
    #expect(
      try loop.guardFlow(1, local: self.local, known: .unsatisfied(.noRoute)) == [self.doubt])
    #expect(loop.turn(after: self.grace) == ["1 destroy interfaceLost"])
    loop.kernel.isGone = true
    #expect(try loop.guardFlow(1, local: self.local) == ["1 path none unknown"])
    loop.kernel.isGone = false
    #expect(loop.turn(after: .seconds(60)) == [self.doubt])
    #expect(loop.turn(after: self.grace) == ["1 destroy interfaceLost"])
    #expect(loop.count("flow_invalidations", "interfaceLost") == 2)
    #expect(loop.count("refutations", "interfaceLost") == 0)
  }

  @Test("I11 a connection that its client calls existing, as connctl guard does → not a refutation")
  func existing() throws {
    var loop = try self.loopWithoutRoutes()
    try loop.kernel.give(self.local, to: 2)
    #expect(try loop.guardFlow(1, local: self.local, isExisting: true) == [self.doubt])
    #expect(loop.turn(after: self.grace) == ["1 destroy interfaceLost"])
    #expect(loop.count("flow_invalidations", "interfaceLost") == 1)
    #expect(loop.count("refutations", "interfaceLost") == 0)
  }
}

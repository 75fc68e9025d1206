import Connectivity
import ConnectivityRules
import ModelRoutes
import Testing

@testable import ConndServer

/// A reading takes many queries, and the kernel changes in between.
@Suite("Readings")
struct ReadingTests {
  /// A cable, preferred, and Wi-Fi.
  private func laptop() throws -> TestLoop {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      kernel.linkTable[3]?.device.type = "wlan"
      try kernel.lead(
        "0.0.0.0", 0, .over(3, via: "198.51.100.1", from: "198.51.100.7"), metric: 600)
    }
    _ = try loop.guardFlow(1, local: "192.0.2.7")
    return loop
  }

  /// Removes the cable's default route, and adds it again.
  private struct Renewal {
    let kernel: ModelKernel
    let cable: ModelRoute
    let change: RouteChange

    init(_ kernel: ModelKernel) throws {
      self.kernel = kernel
      self.cable = try #require(kernel.routes.first { $0.metric == 100 })
      self.change = RouteChange(
        MatchedRoute(prefix: self.cable.prefix, table: 254, priority: 100), outLink: 2,
        gateway: IPAddress("192.0.2.1"))
    }

    func remove() {
      self.kernel.routes.removeAll { $0.metric == 100 }
      self.kernel.untold.append { [.routeRemoved(self.change)] }
    }

    func add() {
      self.kernel.routes.append(self.cable)
      self.kernel.untold.append { [.route(self.change, replaced: false)] }
    }
  }

  @Test("K2 the kernel reports a removal before it removes the route → connd waits for it")
  func announced() throws {
    var loop = try self.laptop()
    let kernel = loop.kernel
    let change = try Renewal(kernel).change
    kernel.untold.append {
      kernel.announced.append { kernel.routes.removeAll { $0.metric == 100 } }
      return [.routeRemoved(change)]
    }
    #expect(loop.turn().contains("1 drain interfaceLost"))
    #expect(loop.loop.feed.store.snapshot.status.category == .wifi)
  }

  @Test("K2 I0 a route is about to be removed when a flow is registered → connd waits for it")
  func announcedToOthers() throws {
    var loop = try TestLoop.started()
    let kernel = loop.kernel
    try kernel.lead("203.0.113.9", 32, .over(3, via: "198.51.100.1", from: "198.51.100.7"))
    kernel.addLink(3, "wlan0")
    kernel.announced.append { kernel.routes.removeAll { $0.prefix.length == 32 } }
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
  }

  /// More queries than a turn makes.
  private static let questions = 0..<60

  @Test("K8 I10 T2 a default route that returns between any two queries ends nothing")
  func backBetweenQuestions() throws {
    var wasLast = false
    for questions in Self.questions where !wasLast {
      var loop = try self.laptop()
      let renewal = try Renewal(loop.kernel)
      renewal.remove()
      loop.kernel.happens(after: questions, renewal.add)
      let told = loop.turn() + loop.turn()
      // The turn made fewer queries.
      guard loop.kernel.routes.count == 2 else {
        wasLast = true
        continue
      }
      #expect(loop.loop.feed.store.snapshot.status.category == .wired, "after \(questions)")
      // Only connections that began on Wi-Fi in between are led back.
      #expect(!loop.invalidations.contains("destroy categoryChanged"), "after \(questions)")
      #expect(!told.contains { $0.contains("destroy") }, "after \(questions): \(told)")
    }
    #expect(wasLast, "a turn asks more")
  }

  @Test("K8 I10 a default route that is removed between any two queries only drains")
  func goneBetweenQuestions() throws {
    for questions in Self.questions {
      var loop = try self.laptop()
      let renewal = try Renewal(loop.kernel)
      loop.kernel.untold.append { [.rule(.ipv4)] }
      loop.kernel.happens(after: questions, renewal.remove)
      let told = loop.turn() + loop.turn()
      guard loop.kernel.routes.count == 1 else { break }
      #expect(told.contains("1 drain interfaceLost"), "after \(questions): \(told)")
      #expect(!loop.invalidations.contains { $0.hasPrefix("destroy") }, "after \(questions)")
      #expect(!told.contains { $0.contains("destroy") }, "after \(questions): \(told)")
    }
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Links of modems")
struct ModemCacheTests {
  /// Everything goes over a ppp link, whose medium is unknown by itself.
  private func loop() throws -> TestLoop {
    try TestLoop.started { $0.linkTable[2]?.link.kind = "ppp" }
  }

  /// Changes what ModemManager reports.
  ///
  /// - Returns: the changes published since the first reading, in words.
  private func say(_ links: [String: ModemLink], _ loop: inout TestLoop) -> [String] {
    loop.modems.updates = [.modems(links)]
    _ = loop.turn(sources: .modems)
    return self.told(loop)
  }

  private func told(_ loop: TestLoop) -> [String] {
    loop.loop.feed.store.past.compactMap { published in
      guard case .transition(let transition) = published.change else { return nil }
      return "\(transition.to.rawValue) \(transition.cause.change)"
    }
  }

  @Test("K5 ModemManager reports a change → it is published immediately, with its cause")
  func published() throws {
    var loop = try self.loop()
    #expect(self.told(loop) == ["other started"])
    #expect(
      self.say(["eth0": ModemLink(generation: .fourth)], &loop)
        == ["other started", "cellular modemConnected"])
    // T3
    _ = self.say(["eth0": ModemLink(generation: .second, isRoaming: true)], &loop)
    _ = self.say(["eth0": ModemLink(isSuspended: true), "wwan7": ModemLink()], &loop)
    #expect(
      self.say(["eth0": ModemLink()], &loop)
        == [
          "other started", "cellular modemConnected", "none modemSuspended",
          "cellular modemResumed",
        ])
  }

  @Test("K5 a link stays a modem as long as it exists, whatever happens to the service")
  func silent() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink(isSuspended: true)], &loop)
    #expect(self.say([:], &loop).last == "cellular modemDisconnected")
    _ = loop.tell([.linkRemoved(Link(index: 9, name: "eth0"))])
    #expect(self.told(loop).last == "cellular modemDisconnected")
    // The next link of that name may be any link.
    let link = Link(index: 2, name: "eth0")
    _ = loop.tell([.linkRemoved(link), .link(link)])
    #expect(loop.loop.feed.store.snapshot.status.category == .other)
  }

  @Test(
    "I0 I10 a bearer is suspended for a call → its flows are in doubt and recover; new connections wait"
  )
  func flows() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink()], &loop)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    loop.modems.updates = [.modems(["eth0": ModemLink(isSuspended: true)])]
    #expect(loop.turn(sources: .modems) == ["1 advise interfaceLost"])
    #expect(try loop.guardFlow(2) == ["2 path eth0 requiresConnection"])
    #expect(loop.turn(after: .seconds(600)) == [])
    // Roaming, or another technology, ends nothing.
    loop.modems.updates = [.modems(["eth0": ModemLink()])]
    #expect(loop.turn(sources: .modems).sorted() == ["1 path eth0", "2 path eth0"])
    loop.modems.updates = [.modems(["eth0": ModemLink(isSuspended: true)])]
    #expect(
      loop.turn(sources: .modems).sorted() == [
        "1 advise interfaceLost", "2 advise interfaceLost",
      ])
    #expect(
      loop.turn(after: .seconds(901)).sorted() == [
        "1 destroy interfaceLost", "2 destroy interfaceLost",
      ])
    loop.modems.updates = [.modems(["eth0": ModemLink()])]
    _ = loop.turn(sources: .modems)
    #expect(try loop.guardFlow(3) == ["3 path eth0"])
    loop.modems.updates = [.modems(["eth0": ModemLink(generation: .second, isRoaming: true)])]
    // 2G is ultra-constrained (K10), also if ModemManager names no technology for a moment.
    #expect(loop.turn(sources: .modems) == ["3 path eth0"])
    loop.modems.updates = [.modems(["eth0": ModemLink(isRoaming: true)])]
    #expect(loop.turn(sources: .modems) == [])
    loop.modems.updates = [.modems([:])]
    #expect(loop.turn(sources: .modems) == [], "the service has ended")
  }

  @Test("I0 I5 a link turns out to be a modem → its flows continue")
  func named() throws {
    var loop = try self.loop()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let before = loop.invalidations.count
    _ = self.say(["eth0": ModemLink()], &loop)
    #expect(loop.loop.feed.store.snapshot.status.category == .cellular)
    #expect(loop.invalidations.dropFirst(before) == ["advise categoryChanged"])
  }

  @Test("overrides for a mobile network follow the operator, even while the service is away")
  func operators() throws {
    var loop = try self.loop()
    let home = MobileOperator(code: "26201", name: "Example")
    func modem(_ mobileOperator: MobileOperator?) -> [String: ModemLink] {
      ["eth0": ModemLink(mobileOperator: mobileOperator)]
    }
    _ = self.say(modem(home), &loop)
    let request = CostRequest.CostOverrideRequest(
      target: .network("Example"), constrained: .on, user: 1000)
    _ = try loop.answer(.set(request)).get()
    func isConstrained() -> Bool { loop.loop.feed.store.snapshot.status.isConstrained }
    #expect(isConstrained())
    _ = self.say(modem(MobileOperator(code: "20801", name: "Example")), &loop)
    #expect(!isConstrained(), "abroad")
    // The operator changes its name, and is still the same.
    _ = self.say(modem(MobileOperator(code: "26201", name: "EXAMPLE")), &loop)
    #expect(isConstrained())
    _ = self.say(modem(nil), &loop)
    #expect(isConstrained(), "not registered for a moment")
    _ = self.say([:], &loop)
    #expect(isConstrained(), "the service has ended")
    let changes = loop.loop.feed.store.past.compactMap { published -> String? in
      if case .path(let path) = published.change { path.cause.change } else { nil }
    }
    #expect(changes == ["constrainedSet", "modemMoved", "modemMoved"])
  }

  @Test("I7 a modem known from an earlier run stays one after a restart")
  func restored() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink()], &loop)
    var modems = ModemCache(restored: loop.loop.feed.store.snapshot)
    let ppp = try #require(loop.kernel.linkTable[2])
    #expect(modems.describe(ppp).modem == .silent)
    var none = ModemCache()
    #expect(none.describe(ppp).modem == nil)
  }

  @Test(
    "K5 I7 a ppp link stays a modem while pppd has hung up and waits, and over a restart of connd")
  func lines() throws {
    var loop = try self.loop()
    loop.kernel.linkTable[2]?.device.serialDriver = "option1"
    _ = loop.tell()
    #expect(loop.loop.feed.store.snapshot.status.category == .cellular)
    #expect(
      loop.loop.feed.store.snapshot.status.ipv4.evidence
        == KernelPath.Evidence(.driver, "option1", .cellular))
    let ppp = try #require(loop.kernel.linkTable[2])
    loop.kernel.linkTable[2]?.device.serialDriver = nil
    _ = loop.tell()
    #expect(loop.loop.feed.store.snapshot.status.category == .cellular)
    let free = try #require(loop.kernel.linkTable[2])
    var restored = ModemCache(restored: loop.loop.feed.store.snapshot)
    #expect(restored.describe(free) == ppp)
    // Another link is not covered.
    restored.note(.linkRemoved(free.link))
    #expect(restored.describe(free) == free)
  }

  @Test("D7 the bus is missing → it is looked for only when a link changes")
  func search() throws {
    var loop = try self.loop()
    _ = loop.tell()
    #expect(loop.modems.searches == 0 && loop.loop.due == nil)
    _ = loop.tell([.link(Link(index: 9, name: "wwan0"))])
    #expect(loop.modems.searches == 1 && loop.loop.due == nil)
    loop.modems.timeout = .seconds(7)
    #expect(loop.loop.due == loop.clock.now.advanced(by: .seconds(7)))
  }
}

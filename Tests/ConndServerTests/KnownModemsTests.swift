import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Links of modems")
struct KnownModemsTests {
  /// Everything goes over a ppp link, which by itself is unknown.
  private func loop() throws -> TestLoop {
    try TestLoop.started { $0.linkTable[2]?.link.kind = "ppp" }
  }

  /// ModemManager says something else.
  ///
  /// - Returns: what was published since the first reading, in words.
  private func say(_ links: [String: ModemLink], _ loop: inout TestLoop) -> [String] {
    loop.modems.links = links
    _ = loop.turn(hasModemNews: true)
    return self.told(loop)
  }

  private func told(_ loop: TestLoop) -> [String] {
    loop.loop.store.past.compactMap { published in
      guard case .transition(let transition) = published.change else { return nil }
      return "\(transition.to.rawValue) \(transition.cause.change)"
    }
  }

  @Test("K5 what ModemManager says is published at once, with its cause")
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

  @Test("K5 a link stays a modem's as long as it exists, whatever becomes of the service")
  func silent() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink(isSuspended: true)], &loop)
    #expect(self.say([:], &loop).last == "cellular modemDisconnected")
    _ = loop.tell([.linkRemoved(Link(index: 9, name: "eth0"))])
    #expect(self.told(loop).last == "cellular modemDisconnected")
    // The next link of that name may be anybody's.
    let link = Link(index: 2, name: "eth0")
    _ = loop.tell([.linkRemoved(link), .link(link)])
    #expect(loop.loop.store.snapshot.status.category == .other)
  }

  @Test(
    "I0 I10 what a suspended bearer carries is in doubt for as long as a call lasts, and goes on; who is new waits"
  )
  func flows() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink()], &loop)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    loop.modems.links = ["eth0": ModemLink(isSuspended: true)]
    #expect(loop.turn(hasModemNews: true) == ["1 advise interfaceLost"])
    #expect(try loop.guardFlow(2) == ["2 path eth0 requiresConnection"])
    #expect(loop.turn(after: .seconds(600)) == [])
    // A roam, or another technology, ends nothing.
    loop.modems.links = ["eth0": ModemLink()]
    #expect(loop.turn(hasModemNews: true).sorted() == ["1 path eth0", "2 path eth0"])
    loop.modems.links = ["eth0": ModemLink(isSuspended: true)]
    #expect(
      loop.turn(hasModemNews: true).sorted() == [
        "1 advise interfaceLost", "2 advise interfaceLost",
      ])
    #expect(
      loop.turn(after: .seconds(901)).sorted() == [
        "1 destroy interfaceLost", "2 destroy interfaceLost",
      ])
    loop.modems.links = ["eth0": ModemLink()]
    _ = loop.turn(hasModemNews: true)
    #expect(try loop.guardFlow(3) == ["3 path eth0"])
    loop.modems.links = ["eth0": ModemLink(generation: .second, isRoaming: true)]
    #expect(loop.turn(hasModemNews: true) == [])
    loop.modems.links = [:]
    #expect(loop.turn(hasModemNews: true) == [], "the service has ended")
  }

  @Test("I0 I5 that a link is known to be a modem's ends nothing that is on it")
  func named() throws {
    var loop = try self.loop()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let before = loop.invalidations.count
    _ = self.say(["eth0": ModemLink()], &loop)
    #expect(loop.loop.store.snapshot.status.category == .cellular)
    #expect(loop.invalidations.dropFirst(before) == ["advise categoryChanged"])
  }

  @Test("what is said of a mobile network is of its operator's, also while the service is away")
  func operators() throws {
    var loop = try self.loop()
    let home = MobileOperator(code: "26201", name: "Example")
    func modem(_ mobileOperator: MobileOperator?) -> [String: ModemLink] {
      ["eth0": ModemLink(mobileOperator: mobileOperator)]
    }
    _ = self.say(modem(home), &loop)
    let wish = CostRequest.Wish(target: .network("Example"), constrained: .on, user: 1000)
    _ = try loop.loop.answer(.set(wish)).get()
    func isConstrained() -> Bool { loop.loop.store.snapshot.status.isConstrained }
    #expect(isConstrained())
    _ = self.say(modem(MobileOperator(code: "20801", name: "Example")), &loop)
    #expect(!isConstrained(), "abroad")
    // It calls itself something else, and is the same.
    _ = self.say(modem(MobileOperator(code: "26201", name: "EXAMPLE")), &loop)
    #expect(isConstrained())
    _ = self.say(modem(nil), &loop)
    #expect(isConstrained(), "not registered for a moment")
    _ = self.say([:], &loop)
    #expect(isConstrained(), "the service has ended")
    let changes = loop.loop.store.past.compactMap { published -> String? in
      if case .path(let path) = published.change { path.cause.change } else { nil }
    }
    #expect(changes == ["constrainedSet", "modemMoved", "modemMoved"])
  }

  @Test("I7 what an earlier run published of a modem goes on to hold")
  func restored() throws {
    var loop = try self.loop()
    _ = self.say(["eth0": ModemLink()], &loop)
    var modems = KnownModems(restored: loop.loop.store.snapshot)
    let ppp = try #require(loop.kernel.linkTable[2])
    #expect(modems.describe(ppp).modem == .silent)
    var none = KnownModems()
    #expect(none.describe(ppp).modem == nil)
  }

  @Test(
    "K5 I7 a ppp link stays a modem's where pppd hangs up and waits, and over a restart of connd")
  func lines() throws {
    var loop = try self.loop()
    loop.kernel.linkTable[2]?.device.serialDriver = "option1"
    _ = loop.tell()
    #expect(loop.loop.store.snapshot.status.category == .cellular)
    #expect(
      loop.loop.store.snapshot.status.ipv4.evidence == Evidence(.driver, "option1", .cellular))
    let ppp = try #require(loop.kernel.linkTable[2])
    loop.kernel.linkTable[2]?.device.serialDriver = nil
    _ = loop.tell()
    #expect(loop.loop.store.snapshot.status.category == .cellular)
    let free = try #require(loop.kernel.linkTable[2])
    var restored = KnownModems(restored: loop.loop.store.snapshot)
    #expect(restored.describe(free) == ppp)
    // Another link is another one.
    restored.note(.linkRemoved(free.link))
    #expect(restored.describe(free) == free)
  }

  @Test("D7 a bus that is not there is looked for when a link changes, and not otherwise")
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

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Metering by other sources")
struct MeteringTests {
  /// Changes the metering information.
  ///
  /// - Returns: whether the path is expensive, and the causes of all published changes.
  private func say(_ words: MeteringReports, _ loop: inout TestLoop) -> (Bool, [String]) {
    loop.metering.updates = [.metering(words)]
    _ = loop.turn(sources: .metering)
    let causes = loop.loop.feed.store.past.compactMap { published -> String? in
      guard case .path(let path) = published.change else { return nil }
      return "\(path.cause.trigger.rawValue) \(path.cause.change)"
    }
    return (loop.loop.engine.snapshot.status.isMetered, causes)
  }

  @Test("a change is published immediately, with its cause, and only if it changes the path")
  func published() throws {
    var loop = try TestLoop.started()
    #expect(self.say(MeteringReports(manager: ["eth0": .guessNo]), &loop) == (false, []))
    #expect(self.say(MeteringReports(phones: ["eth1"]), &loop) == (false, []))
    let change = "metering meteringChanged"
    #expect(self.say(MeteringReports(phones: ["eth0"]), &loop) == (true, [change]))
    #expect(self.say(MeteringReports(manager: ["eth0": .yes]), &loop) == (true, [change]))
    #expect(self.say(MeteringReports(), &loop) == (false, [change, change]))
  }

  @Test(
    "information from before the first reading is part of it, and survives a reload")
  func first() throws {
    var loop = try TestLoop()
    loop.metering.updates = [.metering(MeteringReports(phones: ["eth0"]))]
    loop.loop.start()
    #expect(loop.loop.engine.snapshot.status.isMetered)
    loop.loop.take(.configure(Configuration(), .unheard))
    #expect(loop.loop.engine.snapshot.status.isMetered)
    #expect(self.say(MeteringReports(), &loop).0 == false)
  }

  @Test("I7 information that arrives a moment after the start is part of the first reading")
  func settled() throws {
    var loop = try TestLoop()
    loop.metering.updatesOnceSettled = [.metering(MeteringReports(phones: ["eth0"]))]
    loop.loop.start()
    #expect(loop.loop.feed.store.past.count == 1)
    #expect(loop.loop.engine.snapshot.status.isMetered)
  }

  @Test("a missing source is looked for when the kernel reports a link")
  func looked() throws {
    var loop = try TestLoop.started()
    _ = loop.tell()
    #expect(loop.metering.searches == 0)
    _ = loop.tell([.link(try #require(loop.kernel.linkTable[2]).link)])
    #expect(loop.metering.searches == 1)
  }
}

import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("What others say of links' costs")
struct MeteringTests {
  /// Others say something else.
  ///
  /// - Returns: whether the path is expensive, and the causes of all that was published.
  private func say(_ words: MeteringWords, _ loop: inout TestLoop) -> (Bool, [String]) {
    loop.metering.words = words
    _ = loop.turn(hasMeteringNews: true)
    let causes = loop.loop.store.past.compactMap { published -> String? in
      guard case .path(let path) = published.change else { return nil }
      return "\(path.cause.trigger.rawValue) \(path.cause.change)"
    }
    return (loop.loop.engine.snapshot.status.isExpensive, causes)
  }

  @Test("it is published at once, with its cause, and only where it makes the path another")
  func published() throws {
    var loop = try TestLoop.started()
    #expect(self.say(MeteringWords(manager: ["eth0": .guessNo]), &loop) == (false, []))
    #expect(self.say(MeteringWords(phones: ["eth1"]), &loop) == (false, []))
    let change = "metering meteringChanged"
    #expect(self.say(MeteringWords(phones: ["eth0"]), &loop) == (true, [change]))
    #expect(self.say(MeteringWords(manager: ["eth0": .yes]), &loop) == (true, [change]))
    #expect(self.say(MeteringWords(), &loop) == (false, [change, change]))
  }

  @Test(
    "what was known before the kernel was read is part of the first reading, and outlives a reload")
  func first() throws {
    var loop = try TestLoop()
    loop.metering.words = MeteringWords(phones: ["eth0"])
    loop.loop.start()
    #expect(loop.loop.engine.snapshot.status.isExpensive)
    loop.loop.take(.configure(Configuration(), .unheard))
    #expect(loop.loop.engine.snapshot.status.isExpensive)
    #expect(self.say(MeteringWords(), &loop).0 == false)
  }

  @Test("I7 what is said a moment after the start is part of the first reading")
  func settled() throws {
    var loop = try TestLoop()
    loop.metering.wordsOnceSettled = MeteringWords(phones: ["eth0"])
    loop.loop.start()
    #expect(loop.loop.store.past.count == 1)
    #expect(loop.loop.engine.snapshot.status.isExpensive)
  }

  @Test("what was not there is looked for when the kernel tells of a link")
  func looked() throws {
    var loop = try TestLoop.started()
    _ = loop.tell()
    #expect(loop.metering.searches == 0)
    _ = loop.tell([.link(try #require(loop.kernel.linkTable[2]).link)])
    #expect(loop.metering.searches == 1)
  }

  @Test(
    "it is the same after it was written and read",
    arguments: [
      MeteringWords(), MeteringWords(phones: ["usb0", "wlan0"]),
      MeteringWords(
        manager: ["a": .unknown, "b": .yes, "c": .no, "d": .guessYes, "e": .guessNo], phones: ["x"]),
    ])
  func recorded(words: MeteringWords) throws {
    #expect(try MeteringWords(decoding: words.encoded) == words)
    #expect(throws: (any Error).self) { try MeteringWords(decoding: words.encoded + [0]) }
  }
}

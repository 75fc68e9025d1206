import Connectivity
import ConnectivityRules
import LinuxSupport
import Testing

@testable import ConndServer

extension KernelQueries {
  /// Lists all links in one go.
  func listLinks() throws(KernelUnavailable) -> [LinkReport] {
    var listing = try LinkListing(self)
    while true {
      if let links = try listing.advance(self) { return links }
    }
  }
}

@Suite("Listing links")
struct LinkListingTests {
  private typealias Answer = PendingListing.Answer

  private func names(_ answer: Answer?) throws -> [String] {
    try #require(try answer?.get()).map(\.facts.link.name)
  }

  @Test(
    "D4 a listing of many links is under way → kernel messages are handled in between, and later queries wait"
  )
  func parts() async throws {
    var loop = try TestLoop.started { kernel in
      for index in 100..<400 as Range<UInt32> { kernel.addLink(index, "v\(index)") }
    }
    loop.clock.tick = .microseconds(100)
    func ask(_ id: UInt64, _ reply: Reply<Answer>) {
      let query = KernelQuery(id: id, account: .root, kind: .listLinks(reply))
      loop.loop.take(.query(query))
    }
    var turns = 0
    let later = await withCheckedContinuation { (later: CheckedContinuation<Answer?, Never>) in
      ask(1, .unheard)
      loop.loop.turn()
      #expect(loop.loop.queries.listing != nil && loop.loop.isBusy)
      // This link comes too late for the listing under way, and is not part of it.
      loop.kernel.addLink(500, "new")
      ask(2, Reply(later))
      while loop.loop.isBusy, turns < 1000 {
        turns += 1
        loop.loop.turn()
      }
    }
    // Two listings of 19 parts, of which a turn makes three at most.
    #expect((10..<1000).contains(turns))
    let names = try self.names(later)
    #expect(names.count == 302 && names.first == "eth0" && names.contains("new"))
  }

  @Test("D4 a client disconnects while its query waits for the next listing → the query is dropped")
  func droppedLater() throws {
    var loop = try TestLoop.started { kernel in
      for index in 100..<400 as Range<UInt32> { kernel.addLink(index, "v\(index)") }
    }
    loop.clock.tick = .microseconds(100)
    for id in 1...3 as ClosedRange<UInt64> {
      loop.loop.take(.query(KernelQuery(id: id, account: .root, kind: .listLinks(.unheard))))
      loop.loop.turn()
    }
    #expect(loop.loop.queries.listing?.later.map(\.id) == [2, 3])
    loop.loop.take(.drop(2, of: .root))
    #expect(loop.loop.queries.listing?.later.map(\.id) == [3])
  }

  @Test("D4 the client of a listing disconnects before the answer → others still get theirs")
  func dropped() async throws {
    var loop = try TestLoop.started { kernel in
      for index in 100..<200 as Range<UInt32> { kernel.addLink(index, "v\(index)") }
    }
    loop.clock.tick = .microseconds(100)
    let first = Account(ofUID: 1000)
    let answer = await withCheckedContinuation { (other: CheckedContinuation<Answer?, Never>) in
      loop.loop.take(.query(KernelQuery(id: 1, account: first, kind: .listLinks(.unheard))))
      loop.loop.take(
        .query(KernelQuery(id: 2, account: .root, kind: .listLinks(Reply(other)))))
      loop.loop.turn()
      loop.loop.take(.drop(1, of: first))
      for _ in 0..<1000 where loop.loop.isBusy { loop.loop.turn() }
    }
    #expect(try self.names(answer).count == 101)
  }

  @Test("connd stops during a listing → the waiting clients receive an error")
  func stopped() async throws {
    var loop = try TestLoop.started { kernel in
      for index in 100..<200 as Range<UInt32> { kernel.addLink(index, "v\(index)") }
    }
    loop.clock.tick = .microseconds(100)
    let answer = await withCheckedContinuation { (waiting: CheckedContinuation<Answer?, Never>) in
      loop.loop.take(
        .query(KernelQuery(id: 1, account: .root, kind: .listLinks(Reply(waiting)))))
      loop.loop.turn()
      loop.loop.finish()
    }
    #expect(answer == nil)
  }
}

import GRPCCore
import Glibc
import Synchronization
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Questions to polkit")
struct PolkitDeskTests {
  @Test(
    "D4 of one user only two are under way at once, whoever hangs; others are asked about meanwhile"
  )
  func bounded() async throws {
    let (began, begin) = AsyncStream.makeStream(of: UInt32.self)
    let gate = Gate()
    let desk = PolkitDesk { peer in
      begin.yield(peer.uid)
      if peer.uid == 1000 { gate.wait() }
      return peer.uid == 1001
    }
    let user = PeerCredentials(uid: 1000, pid: 7)
    async let first = desk.answer(of: user)
    async let second = desk.answer(of: user)
    var beginnings = began.makeAsyncIterator()
    for _ in 0..<2 { #expect(await beginnings.next() == 1000) }
    await #expect(throws: RPCError.self) { try await desk.answer(of: user) }
    #expect(try await desk.answer(of: PeerCredentials(uid: 1001, pid: 8)) == true)
    gate.open()
    let answers = try await [first, second]
    #expect(answers == [false, false])
    #expect(try await desk.answer(of: user) == false)
  }

  /// What threads wait at until it is opened.
  private final class Gate: Sendable {
    private let isOpen = Mutex(false)

    func open() { self.isOpen.withLock { $0 = true } }
    func wait() { while !self.isOpen.withLock({ $0 }) { sched_yield() } }
  }
}

import GRPCCore
import Glibc
import Synchronization
import Systemd
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Queries to polkit")
struct PolkitClientTests {
  @Test(
    "D4 a user's queries to polkit hang → only two are under way, and others are served in between")
  func bounded() async throws {
    let (began, begin) = AsyncStream.makeStream(of: UInt32.self)
    let gate = Gate()
    let desk = PolkitClient { peer in
      begin.yield(peer.uid)
      if peer.uid == 1000 { gate.wait() }
      return peer.uid == 1001 ? .allowed : .denied
    }
    let user = PeerCredentials(uid: 1000, pid: 7)
    async let first = desk.verdict(on: user, isLikely: false)
    async let second = desk.verdict(on: user, isLikely: true)
    var beginnings = began.makeAsyncIterator()
    for _ in 0..<2 { #expect(await beginnings.next() == 1000) }
    await #expect(throws: RPCError.self) { try await desk.verdict(on: user, isLikely: true) }
    let other = PeerCredentials(uid: 1001, pid: 8)
    #expect(try await desk.verdict(on: other, isLikely: false) == .allowed)
    gate.open()
    let answers = try await [first, second]
    #expect(answers == [.denied, .denied])
    #expect(try await desk.verdict(on: user, isLikely: false) == .denied)
  }

  @Test(
    "D4 queries of many users hang → the user at the seat and the group's members are still served")
  func many() async throws {
    let (began, begin) = AsyncStream.makeStream(of: UInt32.self)
    let gate = Gate()
    let desk = PolkitClient { peer in
      begin.yield(peer.uid)
      if peer.uid >= 2000 { gate.wait() }
      return .allowed
    }
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for user in 2000..<2040 as Range<UInt32> {
        group.addTask {
          (try? await desk.verdict(on: PeerCredentials(uid: user, pid: 7), isLikely: false)) != nil
        }
      }
      var beginnings = began.makeAsyncIterator()
      for _ in 0..<8 { #expect(await beginnings.next() ?? 0 >= 2000) }
      let user = PeerCredentials(uid: 1000, pid: 8)
      await #expect(throws: RPCError.self) { try await desk.verdict(on: user, isLikely: false) }
      #expect(try await desk.verdict(on: user, isLikely: true) == .allowed)
      gate.open()
      for try await _ in group {}
    }
  }

  @Test("D4 a person's subordinate uids make polkit hang → they have two queries together")
  func subordinates() async throws {
    let gate = Gate()
    let desk = PolkitClient { peer in
      if peer.uid >= 100_000 { gate.wait() }
      return .allowed
    }
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for uid in 100_000..<100_010 as Range<UInt32> {
        group.addTask {
          (try? await desk.verdict(on: PeerCredentials(uid: uid, pid: 7), isLikely: false)) != nil
        }
      }
      var refused = 0
      while refused < 8, let isAnswered = try await group.next() { refused += isAnswered ? 0 : 1 }
      #expect(refused == 8)
      let person = PeerCredentials(uid: 1000, pid: 8)
      #expect(try await desk.verdict(on: person, isLikely: false) == .allowed)
      gate.open()
      var answered = 0
      for try await isAnswered in group { answered += isAnswered ? 1 : 0 }
      #expect(answered == 2)
    }
  }

  /// A gate at which threads wait until it is opened.
  private final class Gate: Sendable {
    private let isOpen = Mutex(false)

    func open() { self.isOpen.withLock { $0 = true } }
    func wait() { while !self.isOpen.withLock({ $0 }) { sched_yield() } }
  }
}

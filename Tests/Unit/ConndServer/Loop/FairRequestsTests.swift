import Connectivity
import ConnectivityRules
import GRPCCore
import LinuxSupport
import Logging
import Synchronization
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Requests of many users", .timeLimit(.minutes(1)))
struct FairRequestsTests {
  // MARK: - Turns

  /// A client's mailbox that counts the answers.
  private final class Counter: FlowMailbox {
    let number: UInt64
    let account: Account
    private let posted = Mutex(0)
    private let removals = Mutex(0)

    init(_ number: UInt64, of uid: UInt32) {
      (self.number, self.account) = (number, Account(ofUID: uid))
    }

    var answers: Int { self.posted.withLock { $0 } }
    var removed: Int { self.removals.withLock { $0 } }

    func post(_ messages: [GuardMailbox.Message]) { self.posted.withLock { $0 += messages.count } }
    func removed(_ flow: UInt64) { self.removals.withLock { $0 += 1 } }
    func finish() {}
  }

  private func request(_ id: UInt64, in mailbox: Counter) throws -> GuardRequest {
    let remote = try IPAddress(spelt: "203.0.113.9")
    let key = FlowTable.Key(mailbox: mailbox.number, id: id)
    return .add(.init(key: key, flow: Flow(Destination(remote))))
  }

  @Test(
    "D4 a user has ten thousand requests outstanding → another user's is handled in the next turn"
  )
  func turns() throws {
    var loop = try TestLoop.started()
    let many = (10..<20).map { Counter($0, of: 1000) }
    let one = Counter(99, of: 1001)
    for mailbox in many + [one] { loop.loop.guards.admit(mailbox) }
    for id in 0..<1000 as Range<UInt64> {
      for mailbox in many { loop.loop.take(.flow(try self.request(id, in: mailbox))) }
    }
    loop.loop.turn()
    loop.loop.take(.flow(try self.request(1, in: one)))
    loop.loop.turn()
    #expect(one.answers == 1)
    #expect(many.map(\.answers).reduce(0, +) < 200)
    // Requests of streams that have ended are dropped, and use no turns.
    for mailbox in many { loop.loop.take(.dismiss(mailbox.number)) }
    loop.loop.turn()
    #expect(!loop.loop.guards.hasRequests)
  }

  @Test("D4 a client with many flows leaves → they are removed in parts")
  func abandoned() throws {
    var loop = try TestLoop.started()
    let mailbox = Counter(10, of: 1000)
    loop.loop.guards.admit(mailbox)
    for id in 0..<1000 as Range<UInt64> {
      loop.loop.take(.flow(try self.request(id, in: mailbox)))
    }
    _ = loop.turn()
    #expect(loop.loop.engine.flows.count == 1000)
    loop.loop.take(.dismiss(mailbox.number))
    loop.loop.turn()
    #expect((800..<1000).contains(loop.loop.engine.flows.count) && loop.loop.isBusy)
    _ = loop.turn()
    #expect(loop.loop.engine.flows.isEmpty && loop.loop.engine.flows.usage.count == 0)
  }

  @Test("D4 many registrations wait → a new filter passes the addresses of all of them")
  func oneFilter() throws {
    var loop = try TestLoop.started()
    let mailboxes = (0..<4).map { Counter(10 + $0, of: 1000 + UInt32($0)) }
    for mailbox in mailboxes { loop.loop.guards.admit(mailbox) }
    for id in 0..<200 as Range<UInt64> {
      for (place, mailbox) in mailboxes.enumerated() {
        let remote = try IPAddress(spelt: "198.51.\(place).\(id)")
        let key = FlowTable.Key(mailbox: mailbox.number, id: id)
        loop.loop.take(.flow(.add(.init(key: key, flow: Flow(Destination(remote))))))
      }
    }
    let before = loop.kernel.asked.count { $0 == "watch" }
    while loop.loop.guards.hasRequests { loop.loop.turn() }
    #expect(loop.loop.engine.flows.count == 800)
    #expect(loop.kernel.asked.count { $0 == "watch" } == before + 1)
  }

  @Test("D4 the thread is preempted all the time → queries still have their processor time")
  func preempted() throws {
    var loop = try TestLoop.started()
    let (kernel, clock) = (loop.kernel, loop.clock)
    func isOfQuery(_ question: String) -> Bool { question.hasPrefix("route 198.51.100.") }
    clock.tick = .milliseconds(1)
    clock.processorTime = .zero
    kernel.refuses = { question in
      if isOfQuery(question) { clock.processorTime? += .microseconds(60) }
      return false
    }
    for id in 1...20 as ClosedRange<UInt64> {
      let destination = Destination(try IPAddress(spelt: "198.51.100.\(id)"))
      loop.loop.take(
        .query(KernelQuery(id: id, account: .root, kind: .path(destination, .unheard))))
    }
    loop.loop.turn()
    let answered = Set(kernel.asked.filter(isOfQuery)).count
    #expect(answered > 1 && answered <= 5)
  }

  // MARK: - Bytes

  private struct Room {
    let statistics = Statistics()
    let limiter: ConnectionLimiter

    init(_ bytes: Int) {
      var limits = Limits()
      (limits.pendingMemory, limits.pendingMemoryPerUser) = (2 * bytes, bytes)
      self.limiter = ConnectionLimiter(
        limits, statistics: self.statistics,
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    func mailbox(_ number: UInt64, of uid: UInt32) -> GuardMailbox {
      let peer = PeerCredentials(uid: uid, pid: 1)
      return GuardMailbox(number, of: peer.account, CallMemory(of: peer, self.limiter))
    }

    /// Whether a user may have one more request outstanding.
    func hasRoom(for uid: UInt32) -> Bool {
      let peer = PeerCredentials(uid: uid, pid: 1)
      do throws(UnixTransport.Refusal) {
        _ = try Charge(GuardMailbox.costOfRequest, of: .pendingMemory, by: peer, self.limiter)
        return true
      } catch {
        return false
      }
    }

    var refusals: UInt64 {
      self.statistics.counted.filter { $0.name == "limits_hit" }.map(\.value).reduce(0, +)
    }
  }

  @Test("D4 a user's requests take all its bytes → further ones wait until answers are read")
  func bytes() async {
    let room = Room(32 << 10)
    let (first, second) = (room.mailbox(1, of: 1000), room.mailbox(2, of: 1000))
    // Each stream also has a part of its own.
    let own = CallMemory.free / GuardMailbox.costOfRequest
    let most = own + (32 << 10) / GuardMailbox.costOfRequest
    for _ in 0..<most { #expect(await first.accept()) }
    for _ in 0..<own { #expect(await second.accept()) }
    #expect(room.refusals == 0)
    let waiting = Task { await first.accept() }
    // Another user gets two thirds of what is left, besides the parts of root and of services.
    let other = room.mailbox(3, of: 1001)
    for _ in 0..<own + 5 { #expect(await other.accept()) }
    #expect(!room.hasRoom(for: 1001))
    // Answers are sent when the client takes the next ones. With another user present, the first
    // has a share of two thirds, so it must read several answers before it may send another
    // request.
    for id in 1...8 as ClosedRange<UInt64> {
      if id == 4 { #expect(!room.hasRoom(for: 1000)) }
      first.answer(id, .path(.unknown), generation: 1)
      _ = await first.next()
    }
    #expect(await waiting.value)
    first.finish()
    for _ in 0..<10 { #expect(await second.accept()) }
  }

  @Test(
    "D4 a client adds and removes flows without reading → no answers pile up, and it may continue")
  func dropped() async {
    let room = Room(32 << 10)
    let mailbox = room.mailbox(1, of: 1000)
    for id in 0..<2000 as Range<UInt64> {
      #expect(await mailbox.accept())
      mailbox.answer(id, .path(.unknown), generation: 1)
      #expect(await mailbox.accept())
      mailbox.removed(id)
    }
    #expect(mailbox.waitingMessages == 0 && room.refusals == 0)
  }

  @Test("D4 a client often reports that it hears its peer → no request is refused")
  func testimony() async {
    let room = Room(32 << 10)
    let mailbox = room.mailbox(1, of: 1000)
    for _ in 0..<2000 {
      #expect(await mailbox.accept())
      mailbox.handled()
    }
    #expect(room.refusals == 0)
  }

  @Test("D4 a flow is removed → answers for other flows, and refusals, stay queued")
  func kept() async throws {
    let mailbox = GuardMailbox(1)
    for _ in 0..<4 { #expect(await mailbox.accept()) }
    mailbox.answer(1, .path(.unknown), generation: 1)
    mailbox.answer(2, .path(.unknown), generation: 1)
    mailbox.answer(1, .refused(.invalid("add.id: flow 1 is already guarded")), generation: 1)
    mailbox.removed(1)
    let messages = try #require(await mailbox.next())
    #expect(messages.map(\.id) == [2, 1])
  }

  @Test("I12 the messages of a flow are merged → the move stays")
  func mergedMove() async throws {
    let mailbox = GuardMailbox(1)
    for (severity, migrates) in [(.drain, false), (.advise, true), (.advise, false)]
      as [(Invalidation.Severity, Bool)]
    {
      var invalidation = InvalidationError(
        reason: .betterPath, severity: severity, cause: ChangeCause(.start, "started"), path: nil)
      invalidation.migrates = migrates
      mailbox.post([.init(id: 5, event: .invalidation(invalidation), generation: 1)])
    }
    // Beyond this number, messages are merged.
    for id in 10..<400 as Range<UInt64> {
      mailbox.post([.init(id: id, event: .path(.unknown), generation: 1)])
    }
    let messages = try #require(await mailbox.next())
    let own = messages.filter { $0.id == 5 }.compactMap(\.event.invalidation)
    #expect(own.map(\.migrates) == [true] && own.map(\.severity) == [.advise])
  }
}

import Connectivity
import LinuxSupport
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Limits")
struct QuotaTests {
  private static let person = AccountUser(1000)

  /// Admits one at a time until the quota refuses.
  ///
  /// - Returns: the number admitted.
  private static func fill(_ usage: inout Usage, _ quota: Quota, of user: AccountUser) -> Int {
    let before = usage.count(of: user)
    while (try? quota.check(of: user, beside: usage)) != nil { usage.add(of: user) }
    return usage.count(of: user) - before
  }

  @Test("D4 a user has its limit → it gets no more, and others still get theirs")
  func perUser() throws {
    let quota = Quota(inAll: 64, ofOneUser: 3)
    var usage = Usage()
    #expect(Self.fill(&usage, quota, of: Self.person) == 3)
    #expect(throws: Quota.Refusal.ofOneUser(3)) {
      try quota.check(of: Self.person, beside: usage)
    }
    #expect(Self.fill(&usage, quota, of: AccountUser(1001)) == 3)
    usage.remove(of: Self.person)
    try quota.check(of: Self.person, beside: usage)
    #expect(usage.count == 5 && usage.count(of: .people) == 5)
  }

  @Test(
    "D4 accounts of one kind take all they can → the other kinds keep their reserves",
    arguments: [
      (from: UInt32(1000), people: 1024 + 341 + 43 + 16 * 8, services: 256),
      (from: UInt32(33), people: 256, services: 1024 + 341 + 43 + 16 * 8),
    ])
  func pots(from first: UInt32, people: Int, services: Int) throws {
    // The default limits.
    let quota = Quota(inAll: 2048, ofOneUser: 1024)
    var usage = Usage()
    for user in first..<first + 40 { _ = Self.fill(&usage, quota, of: AccountUser(user)) }
    let taken = usage.count
    #expect(taken == max(people, services))
    // A person and a service get as much as if they were alone with their reserve.
    let own = first == 1000 ? AccountUser(990) : AccountUser(1200)
    #expect(Self.fill(&usage, quota, of: own) == 256)
    #expect(Self.fill(&usage, quota, of: .root) >= 128)
  }

  @Test("D4 twelve greedy people take all they can → an ordinary client still gets what it needs")
  func little() {
    let quota = Quota(inAll: 2048, ofOneUser: 1024)
    var usage = Usage()
    for user in 1000..<1012 as Range<UInt32> {
      _ = Self.fill(&usage, quota, of: AccountUser(user))
    }
    #expect(Self.fill(&usage, quota, of: AccountUser(1012)) == 8)
  }

  @Test("D4 root takes all it can → people and services keep their reserves")
  func root() {
    let quota = Quota(inAll: 2048, ofOneUser: 2048)
    var usage = Usage()
    #expect(Self.fill(&usage, quota, of: .root) == 2048 - 2 * 384)
    #expect(Self.fill(&usage, quota, of: Self.person) == 256)
    #expect(Self.fill(&usage, quota, of: AccountUser(33)) == 256)
  }

  @Test(
    "D4 the refusal for one more, by present usage",
    arguments: [
      // own, of other people, of services, of root, more → refusal
      (0, 0, 0, 0, 1, nil), (1023, 0, 0, 0, 1, nil), (0, 0, 0, 0, 1024, nil),
      (1024, 0, 0, 0, 1, .ofOneUser(1024)), (0, 0, 0, 0, 1025, .ofOneUser(1024)),
      // The last place outside the reserves goes to an account with little only.
      (0, 1535, 0, 0, 1, nil), (7, 1528, 0, 0, 1, nil), (8, 1527, 0, 0, 1, .forOthers(of: 2048)),
      (8, 1399, 0, 0, 1, nil), (8, 1400, 0, 0, 1, .forOthers(of: 2048)),
      (0, 1536, 0, 0, 1, .forOthers(of: 2048)),
      // A reserve that is in use is not kept twice.
      (0, 1535, 384, 128, 1, nil), (0, 1536, 384, 128, 1, .inAll(2048)),
      (0, 1280, 640, 128, 1, .inAll(2048)),
      // A user gets two thirds of what is left.
      (0, 1236, 0, 0, 200, nil), (0, 1236, 0, 0, 300, nil), (100, 1136, 0, 0, 166, nil),
      (100, 1136, 0, 0, 167, .forOthers(of: 2048)),
    ] as [(Int, Int, Int, Int, Int, Quota.Refusal?)])
  func table(
    own: Int, people: Int, services: Int, root: Int, more: Int, refusal: Quota.Refusal?
  ) {
    var usage = Usage()
    usage.add(own, of: Self.person)
    usage.add(people, of: AccountUser(1001))
    usage.add(services, of: AccountUser(33))
    usage.add(root, of: .root)
    let quota = Quota(inAll: 2048, ofOneUser: 1024)
    var found: Quota.Refusal?
    do throws(Quota.Refusal) {
      try quota.check(more, of: Self.person, beside: usage)
    } catch {
      found = error
    }
    #expect(found == refusal)
  }

  @Test("D4 a user is alone → it gets as much as each of its limits allows")
  func defaults() throws {
    let limits = Limits()
    for (ofOneUser, inAll) in [
      (limits.connectionsPerUser, limits.connections), (limits.streamsPerUser, limits.streams),
      (limits.questionsPerUser, limits.questions), (limits.flowsPerUser, limits.flows),
      (limits.pendingMemoryPerUser, limits.pendingMemory),
    ] {
      var usage = Usage()
      usage.add(ofOneUser - 1, of: Self.person)
      let quota = Quota(inAll: inAll, ofOneUser: ofOneUser)
      #expect(throws: Never.self) { try quota.check(of: Self.person, beside: usage) }
    }
  }

  /// The first uid outside systemd's ranges for people and services.
  private static let unknown: UInt32 = 100_000

  @Test(
    "D4 users without a known owner take all they can in turn → another such user gets the rest",
    arguments: [
      // users, limit, the most that one gets, what one more gets
      (1, 1024, 682, 228), (2, 1024, 410, 136), (3, 1024, 293, 83), (15, 1024, 64, 4),
      (40, 1024, 24, 4), (40, 256, 6, 1), (40, 20_480, 480, 80),
    ])
  func unknown(users: UInt32, limit: Int, largest: Int, last: Int) {
    let quota = Quota(inAll: 2 * limit, ofOneUser: limit)
    var usage = Usage()
    let greedy = (0..<users).map { AccountUser(Self.unknown + $0) }
    while !greedy.allSatisfy({ (try? quota.check(of: $0, beside: usage)) == nil }) {
      for user in greedy where (try? quota.check(of: user, beside: usage)) != nil {
        usage.add(of: user)
      }
    }
    #expect(greedy.map { usage.count(of: $0) }.max() == largest)
    #expect(Self.fill(&usage, quota, of: AccountUser(1_234_567)) == last)
    // They are still one account, so a person gets as much as beside one greedy user.
    #expect(usage.count(of: Account.unknown) <= limit)
    #expect(Self.fill(&usage, quota, of: AccountUser(1200)) >= limit / 4)
  }

  @Test(
    "D4 the refusal of a user without a known owner, by present usage",
    arguments: [
      // own, of others like it, of people, more → refusal
      (0, 0, 0, 1024, nil), (0, 1023, 0, 1, nil), (0, 1024, 0, 1, .forOtherUnknown(of: 1024)),
      (682, 0, 0, 1, .forOtherUnknown(of: 1024)), (681, 0, 0, 1, nil),
      (24, 936, 0, 1, .forOtherUnknown(of: 1024)), (3, 1020, 0, 1, nil),
      (4, 1019, 0, 1, .forOtherUnknown(of: 1024)), (1024, 0, 0, 1, .ofOneUser(1024)),
      (0, 0, 1536, 1, .forOthers(of: 2048)),
    ] as [(Int, Int, Int, Int, Quota.Refusal?)])
  func unknownTable(own: Int, others: Int, people: Int, more: Int, refusal: Quota.Refusal?) {
    var usage = Usage()
    usage.add(own, of: AccountUser(Self.unknown))
    usage.add(others, of: AccountUser(Self.unknown + 1))
    usage.add(people, of: Self.person)
    let quota = Quota(inAll: 2048, ofOneUser: 1024)
    var found: Quota.Refusal?
    do throws(Quota.Refusal) {
      try quota.check(more, of: AccountUser(Self.unknown), beside: usage)
    } catch {
      found = error
    }
    #expect(found == refusal)
  }

  @Test("a limit is lowered below the usage → nothing is taken away, and nothing is admitted")
  func lowered() throws {
    var usage = Usage()
    usage.add(5, of: .root)
    let quota = Quota(inAll: 3, ofOneUser: 3)
    #expect(throws: Quota.Refusal.self) { try quota.check(of: .root, beside: usage) }
    usage.remove(3, of: .root)
    try quota.check(of: .root, beside: usage)
    // Removing more than was added has no effect.
    usage.remove(9, of: .root)
    usage.remove(of: Self.person)
    #expect(usage.count == 0 && usage.count(of: Account.Pot.root) == 0)
  }

  @Test(
    "any sequence of additions and removals → the counts agree with a list of those present",
    arguments: 0..<4 as Range<UInt64>)
  func random(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let quota = Quota(inAll: 20, ofOneUser: 8)
    var usage = Usage()
    var present: [AccountUser] = []
    for _ in 0..<10_000 {
      let user = AccountUser([0, 1, 2, 1000, 1001, 100_000, 100_001][generator.number(0...6)])
      if generator.oneIn(2) {
        guard (try? quota.check(of: user, beside: usage)) != nil else { continue }
        usage.add(of: user)
        present.append(user)
      } else if let index = present.firstIndex(of: user) {
        present.remove(at: index)
        usage.remove(of: user)
      }
      #expect(usage.count == present.count && usage.count <= 20)
      let account = user.account
      #expect(usage.count(of: user) == present.count { $0 == user })
      #expect(usage.count(of: account) == present.count { $0.account == account })
      #expect(usage.count(of: account.pot) == present.count { $0.account.pot == account.pot })
    }
  }

  @Test("one line every ten seconds, and the next one counts those suppressed")
  func throttle() {
    var throttle = LogThrottle()
    func at(_ seconds: Int) -> Instant { Instant(sinceStart: .seconds(seconds)) }
    #expect(throttle.next(at: at(100)) == 0)
    #expect(throttle.next(at: at(101)) == nil)
    #expect(throttle.next(at: at(109)) == nil)
    #expect(throttle.next(at: at(110)) == 2)
    #expect(throttle.next(at: at(111)) == nil)
    #expect(throttle.next(at: at(500)) == 1)
    #expect(throttle.next(at: at(600)) == 0)
  }
}

extension AccountUser {
  fileprivate static let root = AccountUser(0)

  fileprivate init(_ uid: UInt32) { self.init(uid, of: Account(ofUID: uid)) }
}

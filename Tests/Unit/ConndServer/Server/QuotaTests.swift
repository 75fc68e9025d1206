import Connectivity
import LinuxSupport
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Limits")
struct QuotaTests {
  private static let person = Account(number: 1000)

  /// Admits one at a time until the quota refuses.
  ///
  /// - Returns: the number admitted.
  private static func fill(_ usage: inout Usage, _ quota: Quota, of account: Account) -> Int {
    let before = usage.count(of: account)
    while (try? quota.check(of: account, beside: usage)) != nil { usage.add(of: account) }
    return usage.count(of: account) - before
  }

  @Test("D4 a user has its limit → it gets no more, and others still get theirs")
  func perUser() throws {
    let quota = Quota(inAll: 64, ofOneUser: 3)
    var usage = Usage()
    #expect(Self.fill(&usage, quota, of: Self.person) == 3)
    #expect(throws: Quota.Refusal.ofOneUser(3)) {
      try quota.check(of: Self.person, beside: usage)
    }
    #expect(Self.fill(&usage, quota, of: Account(number: 1001)) == 3)
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
    for user in first..<first + 40 { _ = Self.fill(&usage, quota, of: Account(ofUID: user)) }
    let taken = usage.count
    #expect(taken == max(people, services))
    // A person and a service get as much as if they were alone with their reserve.
    let own = first == 1000 ? Account(number: 990) : Account(number: 1200)
    #expect(Self.fill(&usage, quota, of: own) == 256)
    #expect(Self.fill(&usage, quota, of: .root) >= 128)
  }

  @Test("D4 twelve greedy people take all they can → an ordinary client still gets what it needs")
  func little() {
    let quota = Quota(inAll: 2048, ofOneUser: 1024)
    var usage = Usage()
    for user in 1000..<1012 as Range<UInt32> {
      _ = Self.fill(&usage, quota, of: Account(number: user))
    }
    #expect(Self.fill(&usage, quota, of: Account(number: 1012)) == 8)
  }

  @Test("D4 root takes all it can → people and services keep their reserves")
  func root() {
    let quota = Quota(inAll: 2048, ofOneUser: 2048)
    var usage = Usage()
    #expect(Self.fill(&usage, quota, of: .root) == 2048 - 2 * 384)
    #expect(Self.fill(&usage, quota, of: Self.person) == 256)
    #expect(Self.fill(&usage, quota, of: Account(number: 33)) == 256)
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
    usage.add(people, of: Account(number: 1001))
    usage.add(services, of: Account(number: 33))
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
    #expect(usage.count == 0 && usage.count(of: .root as Account.Pot) == 0)
  }

  @Test(
    "any sequence of additions and removals → the counts agree with a list of those present",
    arguments: 0..<4 as Range<UInt64>)
  func random(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let quota = Quota(inAll: 20, ofOneUser: 8)
    var usage = Usage()
    var present: [Account] = []
    for _ in 0..<10_000 {
      let account = Account(ofUID: [0, 1, 2, 1000, 1001][generator.number(0...4)])
      if generator.oneIn(2) {
        guard (try? quota.check(of: account, beside: usage)) != nil else { continue }
        usage.add(of: account)
        present.append(account)
      } else if let index = present.firstIndex(of: account) {
        present.remove(at: index)
        usage.remove(of: account)
      }
      #expect(usage.count == present.count && usage.count <= 20)
      #expect(usage.count(of: account) == present.count { $0 == account })
      #expect(usage.count(of: account.pot) == present.count { $0.pot == account.pot })
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

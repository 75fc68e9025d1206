import Connectivity
import TestKit
import Testing

@testable import ConndServer

@Suite("Limits")
struct QuotaTests {
  @Test("D4 a user gets so many and no more, and others still get theirs")
  func perUser() throws {
    var quota = Quota(inAll: 32, ofOneUser: 3)
    for _ in 1...3 { try quota.admit(1000) }
    #expect(throws: Quota.Refusal.ofOneUser(3)) { try quota.admit(1000) }
    try quota.admit(1001)
    quota.release(1000)
    try quota.admit(1000)
    #expect(quota.count == 4)
    #expect([0, 1000, 1001].map { quota.count(of: $0) } == [0, 3, 1])
  }

  @Test("D4 one who is several users leaves a part to each further one, and a share to the system")
  func severalUsers() throws {
    // As the defaults are.
    var quota = Quota(inAll: 2048, ofOneUser: 1280)
    var taken: [Int] = []
    for user in UInt32(100_000)..<100_008 {
      while (try? quota.admit(user)) != nil {}
      taken.append(quota.count(of: user))
    }
    #expect(taken == [1280, 426, 142, 48, 16, 5, 2, 1])
    // root, a service and a user that systemd made up.
    for user: UInt32 in [0, 999, 61_184] {
      for _ in 1...40 { try quota.admit(user) }
    }
    while (try? quota.admit(0)) != nil {}
    #expect(quota.count == 2048)
    // Who has let go finds his own room again.
    #expect(throws: Quota.Refusal.inAll(2048)) { try quota.admit(1000) }
    for _ in 1...200 { quota.release(100_000) }
    #expect(throws: Never.self) { try quota.admit(1000) }
    for _ in 1...100 { _ = try? quota.admit(1000) }
    #expect(throws: Quota.Refusal.forOthers(of: 2048)) { try quota.admit(1000) }
  }

  @Test("D4 by default a user can have as much as the limit of each says, where he is alone")
  func defaults() {
    let limits = Limits()
    for (ofOneUser, inAll) in [
      (limits.connectionsPerUser, limits.connections), (limits.streamsPerUser, limits.streams),
      (limits.questionsPerUser, limits.questions), (limits.flowsPerUser, limits.flows),
    ] {
      let others = ofOneUser - 1
      #expect(Quota.leavesEnough(1000, own: others, of: others, inAll: inAll))
    }
  }

  @Test("a limit that is lowered sends nobody away, and admits nobody")
  func lowered() throws {
    var quota = Quota(inAll: 10, ofOneUser: 10)
    for _ in 1...5 { try quota.admit(0) }
    (quota.inAll, quota.ofOneUser) = (3, 3)
    #expect(quota.count == 5)
    #expect(throws: Quota.Refusal.self) { try quota.admit(0) }
    for _ in 1...3 { quota.release(0) }
    try quota.admit(0)
    #expect(quota.count == 3)
  }

  @Test(
    "after any coming and going the counts are what a list of those present says",
    arguments: 0..<4 as Range<UInt64>)
  func random(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var quota = Quota(inAll: 20, ofOneUser: 8)
    var present: [UInt32] = []
    for _ in 0..<10_000 {
      let user = UInt32(generator.number(0...4))
      if generator.oneIn(2) {
        let mayCome = present.count < 20 && present.count { $0 == user } < 8
        do throws(Quota.Refusal) {
          try quota.admit(user)
          #expect(mayCome)
          present.append(user)
        } catch {
          #expect(!mayCome)
        }
      } else if let index = present.firstIndex(of: user) {
        present.remove(at: index)
        quota.release(user)
      }
      #expect(quota.count == present.count)
    }
  }

  @Test("one line in ten seconds, and the next one counts what was kept back")
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

import Connectivity
import TestKit
import Testing

@testable import ConndServer

@Suite("Limits")
struct QuotaTests {
  @Test("a user gets so many and no more, and others still get theirs")
  func perUser() throws {
    var quota = Quota(inAll: 3, ofOneUser: 2)
    try quota.admit(1000)
    try quota.admit(1000)
    #expect(throws: Quota.Refusal.ofOneUser(2)) { try quota.admit(1000) }
    try quota.admit(1001)
    #expect(throws: Quota.Refusal.inAll(3)) { try quota.admit(1001) }
    #expect(throws: Quota.Refusal.inAll(3)) { try quota.admit(0) }
    quota.release(1000)
    try quota.admit(0)
    #expect(quota.count == 3)
    #expect([0, 1000, 1001].map { quota.count(of: $0) } == [1, 1, 1])
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

import Connectivity
import Testing

@testable import ConndServer

@Suite("Memory that is given back")
struct TrimPolicyTests {
  private func at(_ seconds: Int) -> Instant { Instant(sinceStart: .seconds(seconds)) }

  @Test("D4 many clients leave → one trim a second later, and none without clients that leave")
  func departure() {
    var policy = TrimPolicy()
    for _ in 0..<100 { policy.use(1 << 20) }
    // Half of them are still there.
    for _ in 0..<49 { #expect(policy.free(1 << 20, at: self.at(5)) == nil) }
    #expect(policy.free(1 << 20, at: self.at(5)) == .seconds(1))
    for _ in 0..<50 { #expect(policy.free(1 << 20, at: self.at(5)) == nil) }
    policy.trimmed(at: self.at(6))
    // What comes and goes in small numbers is not worth it.
    for second in 20..<40 {
      policy.use(1 << 20)
      #expect(policy.free(1 << 20, at: self.at(second)) == nil)
    }
  }

  @Test("D4 clients come and leave in a loop → a trim every ten seconds at most")
  func loop() {
    var policy = TrimPolicy()
    policy.use(100 << 20)
    #expect(policy.free(100 << 20, at: self.at(1)) == .seconds(1))
    policy.trimmed(at: self.at(2))
    policy.use(100 << 20)
    #expect(policy.free(100 << 20, at: self.at(3)) == .seconds(9))
    policy.trimmed(at: self.at(12))
    policy.use(100 << 20)
    #expect(policy.free(100 << 20, at: self.at(60)) == .seconds(1))
  }

  @Test(
    "D4 clients that have left before the trim → their memory is given back, and no more asked for")
  func scheduled() {
    var policy = TrimPolicy()
    policy.use(64 << 20)
    #expect(policy.free(64 << 20, at: self.at(0)) == .seconds(1))
    policy.use(64 << 20)
    #expect(policy.free(64 << 20, at: self.at(0)) == nil)
    policy.trimmed(at: self.at(1))
    #expect(policy.free(0, at: self.at(2)) == nil)
  }
}

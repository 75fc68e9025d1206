import Connectivity
import Testing

@testable import ConndServer

@Suite("Returning free memory")
struct TrimPolicyTests {
  private func at(_ seconds: Int) -> Instant { Instant(sinceStart: .seconds(seconds)) }

  @Test("D4 many clients disconnect → one trim a second later; no client disconnects → no trim")
  func departure() {
    var policy = TrimPolicy()
    for _ in 0..<100 { policy.use(1 << 20) }
    // Half of them are still connected.
    for _ in 0..<49 { #expect(policy.free(1 << 20, at: self.at(5)) == nil) }
    #expect(policy.free(1 << 20, at: self.at(5)) == .seconds(1))
    for _ in 0..<50 { #expect(policy.free(1 << 20, at: self.at(5)) == nil) }
    policy.trimmed(at: self.at(6))
    // Small amounts that come and go are not worth a trim.
    for second in 20..<40 {
      policy.use(1 << 20)
      #expect(policy.free(1 << 20, at: self.at(second)) == nil)
    }
  }

  @Test("D4 clients connect and disconnect in a loop → at most one trim every ten seconds")
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
    "D4 more clients disconnect before a scheduled trim → that trim covers them")
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

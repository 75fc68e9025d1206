import Connectivity
import GRPCCore
import LinuxSupport
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Rate of overrides")
struct ChangeRateTests {
  private static let start = Instant(sinceStart: .seconds(1000))

  /// The number of many attempts that are admitted at that time.
  private func admitted(_ rate: ChangeRate, _ user: UInt32, after time: Duration) -> Int {
    (0..<100).count { _ in
      do throws(RPCError) {
        try rate.admit(
          PeerCredentials(uid: user, pid: 1), at: Self.start.advanced(by: time))
        return true
      } catch {
        #expect(error.code == .resourceExhausted && error.message.contains("uid \(user) "))
        return false
      }
    }
  }

  @Test(
    "D4 one user sets overrides without end → 16 in a row, then 4 a second; others are not affected"
  )
  func bounded() {
    let rate = ChangeRate()
    #expect(self.admitted(rate, 1000, after: .zero) == 16)
    #expect(self.admitted(rate, 1000, after: .milliseconds(249)) == 0)
    #expect(self.admitted(rate, 1000, after: .milliseconds(250)) == 1)
    #expect(self.admitted(rate, 1001, after: .milliseconds(250)) == 16)
    #expect(self.admitted(rate, 1000, after: .milliseconds(1250)) == 4)
    #expect(self.admitted(rate, 1000, after: .seconds(60)) == 16)
  }

  @Test("D4 a person changes costs as many subordinate uids → all of them share one rate")
  func subordinates() {
    let rate = ChangeRate()
    let admitted = (0..<200 as Range<UInt32>).count { uid in
      var peer = PeerCredentials(uid: 100_000 + uid, pid: 1)
      peer.account = Account(number: 1000)
      return (try? rate.admit(peer, at: Self.start)) != nil
    }
    #expect(admitted == 16)
    #expect(self.admitted(rate, 1000, after: .zero) == 0)
  }

  @Test("D4 very many users → inactive ones are forgotten, and no user gains by it")
  func many() {
    let rate = ChangeRate()
    #expect(self.admitted(rate, 7, after: .zero) == 16)
    for user in 1000..<6000 as Range<UInt32> {
      #expect(throws: Never.self) {
        try rate.admit(PeerCredentials(uid: user, pid: 1), at: Self.start)
      }
    }
    #expect(self.admitted(rate, 7, after: .zero) == 0)
    for user in 10_000..<16_000 as Range<UInt32> {
      #expect(throws: Never.self) {
        try rate.admit(
          PeerCredentials(uid: user, pid: 1), at: Self.start.advanced(by: .seconds(9)))
      }
    }
    #expect(self.admitted(rate, 7, after: .seconds(9)) == 16)
  }
}

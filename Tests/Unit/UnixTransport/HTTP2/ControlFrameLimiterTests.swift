import Testing

@testable import UnixTransport

@Suite("Limit of control frames")
struct ControlFrameLimiterTests {
  @Test("a number of frames is allowed per half minute, and then again")
  func count() {
    var count = ControlFrameLimiter()
    let start = ContinuousClock.now
    for second in [0, 31, 62] {
      let now = start.advanced(by: .seconds(second))
      let exceeding = (1...202).filter { _ in count.exceed(at: now) }
      #expect(exceeding == [201, 202])
    }
  }
}

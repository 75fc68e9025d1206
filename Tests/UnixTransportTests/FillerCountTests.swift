import Testing

@testable import UnixTransport

@Suite("Frames that carry nothing")
struct FillerCountTests {
  @Test("so many are taken in half a minute, and then as many again")
  func count() {
    var count = FillerCount()
    let start = ContinuousClock.now
    for second in [0, 31, 62] {
      let now = start.advanced(by: .seconds(second))
      let exceeding = (1...202).filter { _ in count.exceed(at: now) }
      #expect(exceeding == [201, 202])
    }
  }
}

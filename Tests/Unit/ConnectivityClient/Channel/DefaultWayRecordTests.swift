import Testing

@testable import ConnectivityClient

@Suite("Record of the default way")
struct DefaultWayRecordTests {
  private static let start = ContinuousClock.now

  private func at(_ seconds: Double) -> ContinuousClock.Instant {
    Self.start + .seconds(seconds)
  }

  @Test(
    "Q2 an attempt has no answer → a contrast, unless its link carried another connection meanwhile",
    arguments: [
      (clean: "wlan0", 9.9, isContrast: true), (clean: "wlan0", 10, isContrast: false),
      (clean: "wlan0", 11, isContrast: false), (clean: "eth0", 11, isContrast: true),
    ])
  func contrast(link: String, clean: Double, isContrast: Bool) {
    var record = DefaultWayRecord()
    record.noteClean(on: link, at: self.at(clean))
    let isFound = record.noteUnanswered(on: "wlan0", since: self.at(10), at: self.at(11.4))
    #expect(isFound == isContrast)
    #expect(record.reportsSuccess(at: self.at(11.5)) == isContrast)
  }

  @Test("Q4 a contrast → successful attempts are reported for a minute")
  func successes() {
    var record = DefaultWayRecord()
    #expect(!record.reportsSuccess(at: self.at(0)))
    _ = record.noteUnanswered(on: nil, since: self.at(0), at: self.at(1))
    #expect(record.reportsSuccess(at: self.at(1)))
    #expect(record.reportsSuccess(at: self.at(60.9)))
    #expect(!record.reportsSuccess(at: self.at(61)))
  }
}

/// Decides when to retry connd, and whether its absence has been reported.
package struct Outage: Sendable {
  package static let minPause: Duration = .milliseconds(100)
  /// The longest pause while connd's socket can be watched.
  package static let maxPause: Duration = .seconds(60)
  /// The longest pause while connd's socket cannot be watched.
  package static let maxUnwatchedPause: Duration = .seconds(2)

  /// Whether connd's absence has been reported.
  private(set) var isReported = false
  /// Whether another network namespace has been reported as the reason.
  private var isForeignReported = false
  private var pause = Self.minPause

  package init() {}

  /// Records a lost connection. Returns the error to report, if any, and the next pause.
  package mutating func lost(_ error: any Error) -> (ConndError?, pause: Duration) {
    defer {
      self.isReported = true
      self.pause = min(self.pause * 2, Self.maxPause)
    }
    let error = error as? ConndError ?? .failed("\(error)")
    return (self.isReported ? nil : error, self.pause)
  }

  /// Records that connd accepted the request. Returns whether its absence had been reported.
  package mutating func accepted() -> Bool {
    defer { (self.isReported, self.isForeignReported) = (false, false) }
    return self.isReported
  }

  /// Records that the caller has already reported by other means that connd is unusable.
  package mutating func markTold() { self.isReported = true }

  /// Records that a connd in another network namespace accepted the request, which is as good as
  /// absent (C7). Returns the error to report, if any.
  mutating func accepted(by foreign: ForeignNamespace) -> ConndError? {
    defer { (self.isReported, self.isForeignReported) = (true, true) }
    return self.isForeignReported ? nil : foreign.error
  }

  /// Records a message from connd, and resets the pause. If connd only accepts connections and then
  /// goes away, the pauses keep growing.
  package mutating func received() { self.pause = Self.minPause }
}

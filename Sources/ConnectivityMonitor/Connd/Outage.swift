/// Decides when to look for connd again, and whether its absence has been reported.
package struct Outage: Sendable {
  package static let minPause: Duration = .milliseconds(100)
  /// The longest pause while connd's socket can be watched.
  package static let maxPause: Duration = .seconds(60)
  /// The longest pause otherwise.
  package static let maxUnwatchedPause: Duration = .seconds(2)

  /// Whether connd's absence has been reported.
  private(set) var isReported = false
  private var pause = Self.minPause

  package init() {}

  /// The connection ended or failed. Returns what to report, and the pause before the next attempt.
  package mutating func lost(_ error: any Error) -> (ConndError?, pause: Duration) {
    defer {
      self.isReported = true
      self.pause = min(self.pause * 2, Self.maxPause)
    }
    let error = error as? ConndError ?? .failed("\(error)")
    return (self.isReported ? nil : error, self.pause)
  }

  /// connd accepted the request. Returns whether its absence had been reported.
  package mutating func accepted() -> Bool {
    defer { self.isReported = false }
    return self.isReported
  }

  /// Records that the caller has already reported in another way that connd is unusable.
  package mutating func markTold() { self.isReported = true }

  /// connd sent a message. If it only accepts connections and goes away again, the pauses keep
  /// growing.
  package mutating func received() { self.pause = Self.minPause }
}

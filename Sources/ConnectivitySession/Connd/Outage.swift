/// When to look for connd again, and whether its absence was told already.
package struct Outage: Sendable {
  package static let shortestPause: Duration = .milliseconds(100)
  package static let longestPause: Duration = .seconds(2)

  /// It was told that connd is not there.
  private(set) var isTold = false
  private var pause = Self.shortestPause

  package init() {}

  /// The connection ended, or there was none: what to tell, and how long to wait before the next one.
  package mutating func lost(_ error: any Error) -> (ConndError?, pause: Duration) {
    defer {
      self.isTold = true
      self.pause = min(self.pause * 2, Self.longestPause)
    }
    let error = error as? ConndError ?? .failed("\(error)")
    return (self.isTold ? nil : error, self.pause)
  }

  /// connd took the request; `true` where it was told that connd is not there.
  package mutating func accepted() -> Bool {
    defer { self.isTold = false }
    return self.isTold
  }

  /// It was told in other words that connd is of no use.
  package mutating func markTold() { self.isTold = true }

  /// connd said something: one that only accepts, and goes away again, is not asked any faster.
  package mutating func received() { self.pause = Self.shortestPause }
}

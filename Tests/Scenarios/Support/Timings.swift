import Glibc
import Testing

/// The goals of durations. A busy machine misses them, so only `make timings` checks them, which
/// runs one test after another. Other runs print the durations.
enum Timings {
  private static let areChecked = getenv("CONND_TIMINGS") != nil

  static func expect(
    _ duration: Duration, below goal: Duration, _ what: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    print("\(what): \(duration) (goal: \(goal))")
    if self.areChecked { #expect(duration < goal, "\(what)", sourceLocation: sourceLocation) }
  }
}

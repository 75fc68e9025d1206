import Glibc
import Testing

/// The goals for durations. Only `make timings` checks them, because a busy machine misses them. It
/// runs one test after another. Other runs print the durations.
enum Timings {
  private static let areChecked = getenv("CONND_TIMINGS") != nil

  static func expect(
    _ duration: Duration, below goal: Duration?, _ what: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let words = goal.map { "\($0)" } ?? "none"
    print("\(what): \(duration), goal: \(words)")
    guard let goal, self.areChecked else { return }
    #expect(duration < goal, "\(what)", sourceLocation: sourceLocation)
  }
}

import TestKit

/// Asks again and again until a condition holds of which nobody tells.
///
/// - Throws: where it does not come true in time.
func waitUntil(
  _ what: String, within deadline: Duration = .seconds(20), _ condition: () throws -> Bool
) throws {
  let end = ContinuousClock.now + deadline
  while try !condition() {
    guard ContinuousClock.now < end else { throw CommandError("it never came true that \(what)") }
  }
}

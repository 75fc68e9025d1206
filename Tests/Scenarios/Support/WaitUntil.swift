import Glibc
import TestKit

/// Polls until a condition holds that sends no notification.
///
/// - Throws: if it does not become true in time.
func waitUntil(
  _ what: String, within deadline: Duration = .seconds(20), _ condition: () throws -> Bool
) throws {
  let patience = Patience(deadline)
  while try !condition() {
    guard !patience.isOver else { throw CommandError("it never came true that \(what)") }
    // The condition may wait for programs that need the processor.
    sched_yield()
  }
}

import ConnectivityRules
import DequeModule
import LinuxSupport

/// The readings of the kernel that are due, and the answers that wait for them. The effect of a
/// client's query is published before the query is answered.
struct DueReadings {
  private var triggers: Deque<ReadTrigger> = []
  private var answers: [() -> Void] = []
  /// The user that has caused a reading by a query. The reading's time is charged to that user.
  private var user: Account?

  /// Whether a reading or an answer is due.
  var areDue: Bool { !self.triggers.isEmpty || !self.answers.isEmpty }

  mutating func note(_ trigger: ReadTrigger) { self.triggers.append(trigger) }

  /// Notes that a user's query has caused the readings that are due, if any are.
  mutating func note(user: Account) { if self.areDue { self.user = user } }

  /// Calls a function once no reading is due.
  mutating func whenDone(_ answer: @escaping () -> Void) {
    if self.areDue { self.answers.append(answer) } else { answer() }
  }

  mutating func popFirst() -> ReadTrigger? { self.triggers.popFirst() }

  /// Sends the answers that have waited.
  ///
  /// - Returns: The user that has caused the readings by a query, or `nil` without a query.
  mutating func finish() -> Account? {
    for answer in self.answers { answer() }
    self.answers = []
    return self.user.take()
  }

  /// Drops the readings because the kernel is unavailable. Once it is back, everything is read.
  mutating func drop() { self.triggers = [] }
}

import Connectivity
import ConnectivityRules
import DequeModule

/// The steps for which flows must be evaluated, oldest first. Each flow keeps the number of its
/// last step, so the oldest steps can be merged to bound the log.
struct PendingCauses {
  /// One reading of the kernel and its reason.
  struct Step {
    var trigger: ReadTrigger
    /// When the kernel was read after a change, or `nil` if only time has passed.
    var time: Instant?
    /// How long the machine slept before the reading.
    var slept: Duration?

    /// Merges a later step into this one.
    mutating func join(_ later: Step) {
      self.trigger = self.trigger.joined(with: later.trigger)
      self.time = later.time ?? self.time
      self.slept = [self.slept, later.slept].compactMap { $0 }.max()
    }
  }

  private var steps: Deque<Step> = []
  /// The number of the last step. The first is 1.
  private(set) var last: UInt64 = 0
  /// The routes that were removed in any of the steps.
  private(set) var removals = Removals()
  private static let maxCauses = 8

  mutating func append(_ step: Step) {
    self.last += 1
    self.removals.note(step.trigger)
    self.steps.append(step)
    guard self.steps.count > Self.maxCauses, var first = self.steps.popFirst() else { return }
    first.join(self.steps[0])
    self.steps[0] = first
  }

  /// Returns the steps since a flow was evaluated, merged into one. Without such a step, the
  /// trigger is the timer.
  func step(since seen: UInt64) -> Step {
    let count = Int(min(self.last - min(seen, self.last), UInt64(self.steps.count)))
    guard var step = self.steps.suffix(count).first else { return Step(trigger: .timer) }
    for later in self.steps.suffix(count - 1) { step.join(later) }
    return step
  }

  /// Clears the log after all flows have seen all steps.
  mutating func clear() {
    self.steps = []
    self.removals = Removals()
  }
}

extension ReadTrigger {
  /// The number of messages above which earlier messages are dropped. Messages only serve to find
  /// the cause.
  private static let maxEvents = 4096

  fileprivate func joined(with other: ReadTrigger) -> ReadTrigger {
    // Users' reports change the quality, and must not hide the cause of a loss (Q3).
    if other == .quality { return self }
    guard case .events(let events) = self, case .events(let others) = other,
      events.count < Self.maxEvents
    else { return other }
    return .events(events + others)
  }
}

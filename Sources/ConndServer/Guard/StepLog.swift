import Connectivity
import ConnectivityRules
import DequeModule

/// What happened that flows are to be looked at for, the oldest first: bounded, for each flow keeps the number of the last step
/// that it has seen.
struct StepLog {
  /// One reading of the kernel, and why it was made.
  struct Step {
    var occasion: Occasion
    /// When the kernel was read, or `nil` if no reading led to this look.
    var time: Instant?
    /// How long the machine slept before it.
    var slept: Duration?

    /// What happened later is taken for part of the same.
    mutating func join(_ later: Step) {
      self.occasion = self.occasion.joined(with: later.occasion)
      self.time = later.time
      self.slept = [self.slept, later.slept].compactMap { $0 }.max()
    }
  }

  private var steps: Deque<Step> = []
  /// The number of the last step; the first is 1.
  private(set) var last: UInt64 = 0
  /// What was removed in all of them.
  private(set) var removals = Removals()
  private static let most = 8

  mutating func append(_ step: Step) {
    self.last += 1
    self.removals.note(step.occasion)
    self.steps.append(step)
    guard self.steps.count > Self.most, var first = self.steps.popFirst() else { return }
    first.join(self.steps[0])
    self.steps[0] = first
  }

  /// What happened since a flow was looked at; the end of a grace where that is nothing.
  func step(since seen: UInt64) -> Step {
    let count = Int(min(self.last - min(seen, self.last), UInt64(self.steps.count)))
    guard var step = self.steps.suffix(count).first else { return Step(occasion: .timer) }
    for later in self.steps.suffix(count - 1) { step.join(later) }
    return step
  }

  /// All flows have seen all of it.
  mutating func clear() {
    self.steps = []
    self.removals = Removals()
  }
}

extension Occasion {
  /// More messages than this are not kept for the sake of the cause.
  private static let mostEvents = 4096

  fileprivate func joined(with other: Occasion) -> Occasion {
    guard case .events(let events) = self, case .events(let others) = other,
      events.count < Self.mostEvents
    else { return other }
    return .events(events + others)
  }
}

/// The kinds of work that a turn does, in their order. Work that concerns more clients comes first.
/// A kind that may take long does only one slice.
///
/// Only `read` reads the default paths and publishes what has changed. The other kinds note why
/// something must be read. Then the kinds from `filter` on wait for the next pass of the turn.
/// `facts` also publishes changed DNS settings, and any failing query publishes the kernel's loss.
enum Work: CaseIterable {
  /// A batch of kernel messages.
  case messages
  /// Reads the kernel for each noted reason, and publishes what has changed.
  case read
  /// Facts from sources other than the kernel.
  case facts
  /// Deadlines: the ends of grace periods and overrides, retries, the watchdog.
  case deadlines
  /// The socket filter, so that messages about everything that was just read pass it.
  case filter
  /// A slice of the guarded flows.
  case flows
  /// A slice of clients' requests about their flows.
  case requests
  /// A slice of the watched destinations.
  case paths
  /// A slice of clients' queries.
  case queries
  /// Notifies observers, and logs published changes and refused queries, in the last pass of the
  /// turn.
  case reports

  /// Whether the work concerns single clients, and waits while something must be read.
  var awaitsReadings: Bool {
    switch self {
    case .messages, .read, .facts, .deadlines, .reports: false
    case .filter, .flows, .requests, .paths, .queries: true
    }
  }
}

/// The work of a turn in its order: passes until nothing must be read, then the reports.
struct Passes {
  private var woken: Waiter.Woken?
  private var rest = Work.allCases[...]
  private var count = 1

  /// The maximum number of passes. If the kernel's state changes even faster, the next turn
  /// continues. The flows that are due may wait four times for messages
  /// (``WaitingMessages/maxWaits``).
  private static let maxPasses = 8

  init(_ woken: Waiter.Woken) { self.woken = woken }

  /// Returns the next work, or `nil` at the end of the turn. Only the first pass receives the
  /// reasons for waking.
  ///
  /// - Parameter mustRead: Whether something must be read.
  mutating func next(mustRead: Bool) -> (work: Work, woken: Waiter.Woken?)? {
    if self.rest.first == .reports, mustRead, self.count < Self.maxPasses {
      (self.woken, self.rest) = (nil, Work.allCases[...])
      self.count += 1
    }
    return self.rest.popFirst().map { ($0, self.woken) }
  }
}

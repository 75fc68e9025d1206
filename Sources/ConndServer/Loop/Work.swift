/// The kinds of work that a turn does, in their order. Effects that concern more clients come
/// first. A kind that may take long does only one slice.
///
/// Only `read` reads the default paths and publishes what has changed. The other kinds note why
/// something must be read. Then the kinds from `filter` on wait for the next pass of the turn.
enum Work: CaseIterable {
  /// A batch of kernel messages.
  case messages
  /// Reads the kernel for each noted reason, and publishes what has changed.
  case read
  /// Facts from sources other than the kernel.
  case facts
  /// Deadlines: the ends of grace periods and overrides, retries, the watchdog.
  case deadlines
  /// The kernel's filter, so that messages about everything that was just read pass it.
  case filter
  /// A slice of the guarded flows.
  case flows
  /// A slice of clients' requests about their flows.
  case requests
  /// A slice of the watched destinations.
  case paths
  /// A slice of clients' queries.
  case queries
  /// Observers and log lines of the published changes, and refused queries. They wait for the last
  /// pass of the turn.
  case reports

  /// Whether it concerns single clients, and waits while something must be read.
  var awaitsReadings: Bool {
    switch self {
    case .messages, .read, .facts, .deadlines, .reports: false
    case .filter, .flows, .requests, .paths, .queries: true
    }
  }

  /// The kinds of a pass.
  static let pass = Self.allCases.filter { $0 != .reports }
}

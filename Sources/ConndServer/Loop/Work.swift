/// The kinds of work that a turn does, in their order. Effects that concern more clients come
/// first. A kind that may take long does only one slice a turn.
enum Work: CaseIterable {
  /// Kernel messages: connd reads what they concern, and publishes what has changed.
  case messages
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
  /// Observers and log lines of the published changes, and refused queries. They can wait.
  case reports
}

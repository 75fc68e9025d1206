import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// Checks a condition that holds unless the program has a fault. Examples are a count that must
/// agree with a list, or the thread that an object belongs to.
///
/// A broken invariant stops a debug build, and thus its test. A release build counts and reports it
/// and continues, because a fault in connd must not cost the machine its network. The condition is
/// evaluated in a release build, too, so it must be cheap. Use `assert` for expensive conditions.
@inlinable
package func invariant(
  _ condition: @autoclosure () -> Bool, _ message: StaticString, file: StaticString = #fileID,
  line: UInt = #line
) {
  if !condition() { broken(message, file, line) }
}

@usableFromInline
func broken(_ message: StaticString, _ file: StaticString, _ line: UInt) {
  Invariants.broken(message, file, line)
}

/// Counts and reports broken invariants. Safe to use from any thread.
package final class Invariants: Sendable {
  /// A condition that did not hold.
  package struct Fault: Hashable, Sendable {
    package var message: String
    /// The file and line of the check.
    package var place: String
    /// How often this check has failed.
    package var count: UInt64

    /// Whether to log this failure of the check: the first, second, fourth, eighth and so on.
    /// Repeated faults must not flood the log.
    package var isDue: Bool { self.count.nonzeroBitCount == 1 }
  }

  private struct State {
    var counts: [String: UInt64] = [:]
    var report: @Sendable (Fault) -> Void
  }

  private let state: Mutex<State>

  /// - Parameter report: Called for each broken invariant, on the thread that found it.
  package init(_ report: @escaping @Sendable (Fault) -> Void) {
    self.state = Mutex(State(report: report))
  }

  /// The broken invariants of this process. Reports go to standard error until ``report(to:)``.
  package static let process = Invariants { fault in
    guard fault.isDue else { return }
    let line = "fault: \(fault.message) (\(fault.place), \(fault.count) times)\n"
    _ = line.utf8.withContiguousStorageIfAvailable {
      write(STDERR_FILENO, $0.baseAddress, $0.count)
    }
  }

  /// Receives the invariants that a test breaks on purpose, also in a debug build.
  @TaskLocal package static var observer: Invariants?

  /// Reports to another receiver from now on.
  package func report(to receiver: @escaping @Sendable (Fault) -> Void) {
    self.state.withLock { $0.report = receiver }
  }

  /// How often invariants were broken.
  package var count: UInt64 { self.state.withLock { $0.counts.values.reduce(0, +) } }

  /// Counts and reports a broken invariant.
  package func record(_ message: StaticString, _ file: StaticString, _ line: UInt) {
    let place = "\(file):\(line)"
    let (report, count) = self.state.withLock { state in
      state.counts[place, default: 0] += 1
      return (state.report, state.counts[place] ?? 0)
    }
    report(Fault(message: "\(message)", place: place, count: count))
  }

  package static func broken(_ message: StaticString, _ file: StaticString, _ line: UInt) {
    if let observer = Self.observer { return observer.record(message, file, line) }
    #if DEBUG
      assertionFailure("\(message)", file: file, line: line)
    #else
      Self.process.record(message, file, line)
    #endif
  }
}

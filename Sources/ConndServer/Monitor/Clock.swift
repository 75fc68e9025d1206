import Connectivity
import Glibc

/// What the monitor's loop knows of time.
protocol MonitorClock {
  /// The instant now: monotonic, and it goes on while the machine sleeps.
  var now: Instant { get }
  /// The same moment by the wall clock.
  var time: Timestamp { get }
}

/// The machine's clocks.
struct SystemClock: MonitorClock {
  var now: Instant { .now() }
  var time: Timestamp { .now() }
}

extension Instant {
  /// The instant now. The clock goes on while the machine sleeps (CLOCK_BOOTTIME), unlike `poll`'s.
  static func now() -> Instant {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Instant(sinceStart: .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec))
  }
}

extension Timestamp {
  /// The moment now, by the wall clock.
  static func now() -> Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
  }
}

extension Duration {
  /// In whole milliseconds for `poll`, rounded up so that a deadline has really come when it returns.
  var pollTimeout: CInt {
    let (seconds, attoseconds) = self.components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let milliseconds =
      seconds.multipliedReportingOverflow(by: 1000).partialValue
      + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
    return CInt(clamping: milliseconds)
  }
}

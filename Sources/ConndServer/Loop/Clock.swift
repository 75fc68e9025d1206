import Connectivity
import Glibc
import LinuxSupport

/// The clocks of the monitor loop.
protocol MonitorClock {
  /// The current instant: monotonic, and it keeps running while the machine sleeps.
  var now: Instant { get }
  /// The current wall-clock time.
  var time: WallTime { get }
  /// The processor time of the loop's thread, by which users are charged for their turns.
  var worked: Duration { get }
}

extension MonitorClock {
  var worked: Duration { self.now.sinceStart }
}

/// The machine's clocks.
struct SystemClock: MonitorClock {
  var now: Instant { .now() }
  var time: WallTime { .now() }
  var worked: Duration { Thread.worked }
}

extension Instant {
  /// Returns the current instant by CLOCK_BOOTTIME, which keeps running while the machine sleeps,
  /// unlike the timeout of `poll`.
  static func now() -> Instant {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Instant(sinceStart: .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec))
  }
}

extension WallTime {
  /// Returns the current wall-clock time.
  static func now() -> WallTime {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return WallTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
  }
}

extension Duration {
  /// The timeout for `poll` in whole milliseconds, rounded up so that the deadline has passed when
  /// `poll` returns.
  var pollTimeout: CInt {
    let (seconds, attoseconds) = self.components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let milliseconds =
      seconds.multipliedReportingOverflow(by: 1000).partialValue
      + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
    return CInt(clamping: milliseconds)
  }
}

internal import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A clock of any type, and the time since the simulation was created.
struct Timekeeper: Sendable {
  let elapsed: @Sendable () -> Duration
  let sleep: @Sendable (Duration) async throws -> Void
  /// Whether the clock is stopped, so that waiting for time to pass would never end.
  let isStopped: Bool

  init(_ clock: some Clock<Duration>) {
    let start = clock.now
    self.elapsed = { start.duration(to: clock.now) }
    self.sleep = { try await clock.sleep(for: $0) }
    self.isStopped = clock is StoppedClock
  }
}

extension WallTime {
  /// Returns the current time of the wall clock.
  static func now() -> WallTime {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return WallTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
  }
}

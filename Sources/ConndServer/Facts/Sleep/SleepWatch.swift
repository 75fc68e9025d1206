import CLinux
import Connectivity
import Glibc

/// A watch for sleep of the machine, without polling (I6).
///
/// CLOCK_BOOTTIME advances during sleep and CLOCK_MONOTONIC does not. Their difference is the time
/// slept since boot. The kernel cancels a wall-clock timer in the far future when the machine
/// resumes. Setting the clock also cancels the timer, but does not change the difference. See
/// timerfd_create(2), TFD_TIMER_CANCEL_ON_SET.
struct SleepWatch {
  /// Becomes readable after a resume; -1 if the kernel has no such timer.
  let fileDescriptor: CInt
  private var detector: SleepDetector

  init() {
    self.fileDescriptor = timerfd_create(CLOCK_REALTIME, CInt(TFD_CLOEXEC) | CInt(TFD_NONBLOCK))
    self.detector = SleepDetector(slept: Self.sleptSinceBoot())
    self.arm()
  }

  /// Returns how long the machine has slept since the last call, or `nil` if it has not. Reads two
  /// clocks, without a system call.
  mutating func check() -> Duration? { self.detector.check(Self.sleptSinceBoot()) }

  /// Clears the descriptor and sets the timer again.
  func rearm() {
    var expirations: UInt64 = 0
    _ = read(self.fileDescriptor, &expirations, MemoryLayout<UInt64>.size)
    self.arm()
  }

  private func arm() {
    // Beyond any date: the timer never expires and is only ever cancelled.
    var never = itimerspec()
    never.it_value.tv_sec = .max / 2_000_000_000
    timerfd_settime(
      self.fileDescriptor, CInt(TFD_TIMER_ABSTIME) | CInt(TFD_TIMER_CANCEL_ON_SET), &never, nil)
  }

  private static func sleptSinceBoot() -> Duration {
    var (boot, monotonic) = (timespec(), timespec())
    // In this order, the time between the two readings makes the difference smaller, never larger.
    clock_gettime(CLOCK_BOOTTIME, &boot)
    clock_gettime(CLOCK_MONOTONIC, &monotonic)
    return .seconds(boot.tv_sec - monotonic.tv_sec)
      + .nanoseconds(boot.tv_nsec - monotonic.tv_nsec)
  }
}

/// A detector of sleep, from the time slept since boot.
struct SleepDetector: Hashable {
  private var slept: Duration

  /// A smaller difference is the time between two clock readings.
  static let minDifference = Duration.milliseconds(100)

  init(slept: Duration) {
    self.slept = slept
  }

  mutating func check(_ slept: Duration) -> Duration? {
    let difference = slept - self.slept
    guard difference >= Self.minDifference else { return nil }
    self.slept = slept
    return difference
  }
}

import CLinux
import Connectivity
import Glibc

/// Notices that the machine slept, without polling (I6).
///
/// CLOCK_BOOTTIME goes on in sleep and CLOCK_MONOTONIC does not: the difference between them is how long the machine has
/// slept since it was started. A timer on the wall clock, far in the future, is cancelled by the kernel when the machine
/// resumes (and when the clock is set, which leaves the difference alone): timerfd_create(2), TFD_TIMER_CANCEL_ON_SET.
struct SleepWatch {
  /// Polls readable after a resume; -1 where the kernel has no such timer.
  let fileDescriptor: CInt
  private var detector: SleepDetector

  init() {
    self.fileDescriptor = timerfd_create(CLOCK_REALTIME, CInt(TFD_CLOEXEC) | CInt(TFD_NONBLOCK))
    self.detector = SleepDetector(slept: Self.sleptSinceBoot())
    self.arm()
  }

  /// How long the machine has slept since the last call; `nil` if it has not. Two readings of clocks, no system call.
  mutating func check() -> Duration? { self.detector.check(Self.sleptSinceBoot()) }

  /// Clears the descriptor, and sets the timer again.
  func rearm() {
    var expirations: UInt64 = 0
    _ = read(self.fileDescriptor, &expirations, MemoryLayout<UInt64>.size)
    self.arm()
  }

  private func arm() {
    // Beyond any date: it never expires, it is only ever cancelled.
    var never = itimerspec()
    never.it_value.tv_sec = .max / 2_000_000_000
    timerfd_settime(
      self.fileDescriptor, CInt(TFD_TIMER_ABSTIME) | CInt(TFD_TIMER_CANCEL_ON_SET), &never, nil)
  }

  private static func sleptSinceBoot() -> Duration {
    var (boot, monotonic) = (timespec(), timespec())
    // In this order: what passes between the two readings makes the difference smaller, never larger.
    clock_gettime(CLOCK_BOOTTIME, &boot)
    clock_gettime(CLOCK_MONOTONIC, &monotonic)
    return .seconds(boot.tv_sec - monotonic.tv_sec)
      + .nanoseconds(boot.tv_nsec - monotonic.tv_nsec)
  }
}

/// Tells sleep by the time slept since the machine was started.
struct SleepDetector: Hashable {
  private var slept: Duration

  /// What is less is the time between two readings of clocks.
  static let least = Duration.milliseconds(100)

  init(slept: Duration) {
    self.slept = slept
  }

  mutating func check(_ slept: Duration) -> Duration? {
    let difference = slept - self.slept
    guard difference >= Self.least else { return nil }
    self.slept = slept
    return difference
  }
}

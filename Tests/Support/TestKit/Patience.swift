import Glibc

/// How long a test waits for an event that must come.
///
/// Only the time counts in which no process of the machine waits for a processor or a disk, as the
/// kernel measures it (Documentation/accounting/psi.rst). So on a busy machine a test takes longer,
/// and does not fail. A kernel without PSI counts all time.
public struct Patience: Sendable {
  /// The longest wait, as a multiple of the limit.
  private static let maxFactor = 15
  /// A wait looks again after this time whether its time is over.
  private static let look = Duration.milliseconds(500)

  private let limit: Duration
  private let begin = ContinuousClock.now
  private let busyAtBegin = Self.busy

  public init(_ limit: Duration) { self.limit = limit }

  public var isOver: Bool {
    let elapsed = self.begin.duration(to: .now)
    guard elapsed >= self.limit else { return false }
    let busy = min(elapsed, Self.busy - self.busyAtBegin)
    return elapsed - busy >= self.limit || elapsed >= self.limit * Self.maxFactor
  }

  /// Waits until a descriptor is readable. Returns `false` if the time is over before.
  public func awaitInput(of descriptor: CInt) -> Bool {
    while true {
      var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let pause = min(self.limit, Self.look)
      let result = poll(&polled, 1, CInt(clamping: Int(pause / .milliseconds(1)) + 1))
      if result != 0 && !(result < 0 && errno == EINTR) { return result > 0 }
      if self.isOver { return false }
    }
  }

  /// The time in which a process has waited for a processor or a disk, since the machine started.
  private static var busy: Duration { self.pressure("cpu") + self.pressure("io") }

  /// Returns the total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`.
  private static func pressure(_ resource: String) -> Duration {
    let file = open("/proc/pressure/\(resource)", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return .zero }
    defer { close(file) }
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = read(file, &buffer, buffer.count)
    let line = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).prefix { $0 != "\n" }
    return .microseconds(line.split(separator: "=").last.flatMap { Int64($0) } ?? 0)
  }
}

import Connectivity

/// The delays before the loop queries the kernel again.
struct Pauses {
  var overrun = OverrunPause()
  var sweep = SweepDelay()
  var repetition = Repetition()
  var reopening = Reopening()
  var overrunLog = LogThrottle()
  var refusalLog = LogThrottle()
  /// When the sockets on a link may be examined again (Q4), by link index.
  var censuses: [UInt32: Instant] = [:]

  /// Notes that the kernel is unavailable.
  mutating func lost(at now: Instant) {
    self.repetition = Repetition()
    self.overrun = OverrunPause()
    self.reopening.failed(at: now)
  }
}

/// Limits how often everything is read again after lost messages. The first reading is immediate.
/// If messages are lost again soon, connd pauses before it reads further messages. Otherwise it
/// would do nothing but read.
struct OverrunPause {
  /// When messages were lost last.
  private var last: Instant?
  /// When kernel messages are read again, or `nil` without a pause.
  private(set) var end: Instant?

  private static let length = Duration.milliseconds(20)

  /// Notes that everything was read again.
  ///
  /// - Returns: Whether the next messages must wait.
  mutating func begins(at now: Instant) -> Bool {
    defer { self.last = now }
    guard let last, last.duration(to: now) < Self.length else { return false }
    self.end = now.advanced(by: Self.length)
    return true
  }

  /// - Returns: Whether the pause has just ended.
  mutating func ends(by now: Instant) -> Bool {
    guard let end, end <= now else { return false }
    self.end = nil
    return true
  }
}

/// Leaves the processors to subscribers for a moment before a long evaluation of flows occupies one
/// of them. With two processors, the event loop uses the other, and a subscriber would wait until
/// all are notified.
struct SweepDelay {
  /// When the delay ends.
  private(set) var end: Instant?

  private static let length = Duration.milliseconds(1)
  /// The minimum interval between delays, so that endless changes cannot stop the evaluation of
  /// flows.
  private static let interval = Duration.milliseconds(20)

  mutating func begin(at now: Instant) {
    if let end, end.duration(to: now) < Self.interval { return }
    self.end = now.advanced(by: Self.length)
  }

  func isOver(at now: Instant) -> Bool { self.end.map { $0 <= now } ?? true }
}

/// Schedules the retry of a refused query: soon, then ever more rarely while the kernel keeps
/// refusing. Any event in between causes a query anyway.
struct Repetition {
  private(set) var due: Instant?
  private var pause = Self.minPause
  /// When the last retry was due.
  private var last: Instant?

  private static let minPause = Duration.milliseconds(50)
  private static let maxPause = Duration.seconds(60)

  /// Notes that a query was refused.
  mutating func refused(at now: Instant) {
    guard self.due == nil else { return }
    // If no query was refused for longer than the pause, the pauses begin again with the shortest.
    if let last, last.duration(to: now) > self.pause { self.pause = Self.minPause }
    self.due = now.advanced(by: self.pause)
    self.pause = min(self.pause * 2, Self.maxPause)
  }

  /// - Returns: Whether to retry now.
  mutating func begins(at now: Instant) -> Bool {
    guard let due, due <= now else { return false }
    (self.due, self.last) = (nil, now)
    return true
  }
}

/// Schedules the next attempt to open netlink: after one second, then ever more rarely.
struct Reopening {
  var due: Instant?
  private var pause = Duration.seconds(1)

  mutating func failed(at now: Instant) {
    self.due = now.advanced(by: self.pause)
    self.pause = min(self.pause * 2, .seconds(60))
  }

  mutating func succeeded() {
    self = Reopening()
  }
}

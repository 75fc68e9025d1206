import Connectivity

/// Lets one log line in ten seconds through, and counts the suppressed ones for the next line.
///
/// It has no timer. The next line, whenever it is written, reports the number of suppressed lines.
struct LogThrottle: Sendable {
  private static let pause = Duration.seconds(10)

  private var last: Instant?
  private var suppressed = 0

  /// Decides whether to write a line.
  ///
  /// - Returns: The number of lines suppressed since the last written line, or `nil` if this line
  ///   is suppressed, too.
  mutating func next(at now: Instant) -> Int? {
    if let last, last.duration(to: now) < Self.pause {
      self.suppressed += 1
      return nil
    }
    defer { (self.last, self.suppressed) = (now, 0) }
    return self.suppressed
  }
}

import Connectivity

/// Lets one line in ten seconds through to the log, and counts the others for the next one.
///
/// It has no timer: what was kept back is told with the next line, whenever that comes.
struct LogThrottle: Sendable {
  private static let pause = Duration.seconds(10)

  private var last: Instant?
  private var suppressed = 0

  /// Something happened that deserves a line.
  ///
  /// - Returns: how many lines were kept back since the last one; `nil` where this is to be kept back, too.
  mutating func next(at now: Instant) -> Int? {
    if let last, last.duration(to: now) < Self.pause {
      self.suppressed += 1
      return nil
    }
    defer { (self.last, self.suppressed) = (now, 0) }
    return self.suppressed
  }
}

/// Counts frames that cost their sender little. A well-behaved client sends few of them
/// (CVE-2019-9512, 9515, 9518).
struct ControlFrameLimiter {
  /// The number of frames accepted in half a minute.
  private static let maxFrames = 200
  private static let time = Duration.seconds(30)

  private var count = 0
  private var start: ContinuousClock.Instant?

  /// Resets the count, because something was sent to the client. gRPC measures the bandwidth with a
  /// ping for received data. Therefore pings are counted from that point, as gRPC's own servers do
  /// (proposal A8).
  mutating func forgive() { self.count = 0 }

  /// Counts a frame.
  ///
  /// - Returns: Whether it exceeds the limit.
  mutating func exceed(at now: ContinuousClock.Instant = .now) -> Bool {
    if let start = self.start, start.duration(to: now) < Self.time {
      self.count += 1
    } else {
      (self.start, self.count) = (now, 1)
    }
    return self.count > Self.maxFrames
  }
}

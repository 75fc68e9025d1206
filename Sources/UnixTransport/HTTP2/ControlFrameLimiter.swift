/// Counts frames that cost their sender little. A well-behaved client sends few of them
/// (CVE-2019-9512, 9515, 9518).
struct ControlFrameLimiter {
  /// The number of frames accepted in half a minute.
  private static let maxFrames = 200
  private static let time = Duration.seconds(30)

  private var count = 0
  private var start: ContinuousClock.Instant?

  /// Resets the count after output was sent to the client. gRPC answers received data with a ping,
  /// to measure the bandwidth. Therefore only pings since the last output count, as in gRPC's own
  /// servers (proposal A8).
  mutating func forgive() { self.count = 0 }

  /// Counts a frame.
  ///
  /// - Returns: Whether the number of frames exceeds the limit.
  mutating func exceed(at now: ContinuousClock.Instant = .now) -> Bool {
    if let start = self.start, start.duration(to: now) < Self.time {
      self.count += 1
    } else {
      (self.start, self.count) = (now, 1)
    }
    return self.count > Self.maxFrames
  }
}

/// Counts the frames that cost their sender little, of which a client that means well sends few (CVE-2019-9512, 9515, 9518).
struct FillerCount {
  /// So many are taken in half a minute.
  private static let most = 200
  private static let time = Duration.seconds(30)

  private var count = 0
  private var start: ContinuousClock.Instant?

  /// Something was sent to the client. gRPC measures the bandwidth by a ping for data that it receives, so pings are counted
  /// from there on, as gRPC's own servers do (proposal A8).
  mutating func forgive() { self.count = 0 }

  /// One more has come.
  ///
  /// - Returns: whether it is one too many.
  mutating func exceed(at now: ContinuousClock.Instant = .now) -> Bool {
    if let start = self.start, start.duration(to: now) < Self.time {
      self.count += 1
    } else {
      (self.start, self.count) = (now, 1)
    }
    return self.count > Self.most
  }
}

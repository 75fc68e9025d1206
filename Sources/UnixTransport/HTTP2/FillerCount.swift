/// Counts the frames that carry nothing, of which a client that means well sends few: keepalive's pings, and those by which
/// gRPC measures the bandwidth (CVE-2019-9512, 9515, 9518).
struct FillerCount {
  /// So many are taken in half a minute.
  private static let most = 200
  private static let time = Duration.seconds(30)

  private var count = 0
  private var start: ContinuousClock.Instant?

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

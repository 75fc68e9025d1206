import Connectivity

/// The times of a socket's consecutive timeouts. Each is twice as long as the one before it (RFC
/// 6298), so the times of all timeouts follow from the running timer.
extension SocketReport {
  /// Returns the number of consecutive timeouts that happened after a change. Without a running
  /// timer, the times are unknown and all timeouts count.
  func timeouts(after change: Instant, at now: Instant) -> Int {
    guard let nextTimeout else { return self.timeouts }
    var (count, length) = (0, self.timeout)
    var time = now.advanced(by: nextTimeout - length)
    while count < self.timeouts, time > change {
      count += 1
      length = length / 2
      time = time.advanced(by: .zero - length)
    }
    return count
  }

  /// Returns when the data that began to time out was first sent.
  func timesOutSince(at now: Instant) -> Instant {
    let first = self.timeout / (1 << min(self.timeouts, 16))
    let running = self.nextTimeout ?? self.timeout
    return now.advanced(by: running - self.timeout - (self.timeout - first))
  }
}

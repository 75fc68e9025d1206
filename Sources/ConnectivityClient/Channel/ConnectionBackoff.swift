internal import GRPCNIOTransportHTTP2Posix

/// Decides when the next attempt to connect may start, as in gRPC's connection-backoff document.
///
/// A pause is measured from the start of the previous attempt. The first pause is exact; jitter
/// spreads the later ones.
///
/// Implements rule C4.
struct ConnectionBackoff: Sendable {
  /// The minimum duration of an attempt, however short the pauses are (MIN_CONNECT_TIMEOUT).
  static let minAttempt: Duration = .seconds(20)

  private let config: HTTP2ClientTransport.Config.Backoff
  /// The last pause without jitter, or `nil` before the first.
  private var last: Duration?

  init(_ config: HTTP2ClientTransport.Config.Backoff) { self.config = config }

  /// Returns the minimum time between the start of an attempt and the start of the next.
  ///
  /// - Parameter random: A number between -1 and 1.
  mutating func next(random: Double) -> Duration {
    guard let last = self.last else {
      self.last = self.config.initial
      return self.config.initial
    }
    let pause = min(last * self.config.multiplier, self.config.max)
    self.last = pause
    return pause + pause * (self.config.jitter * random)
  }

  /// The maximum duration of the next attempt: its pause, but at least ``minAttempt``.
  var maxAttempt: Duration {
    let pause = self.last.map { min($0 * self.config.multiplier, self.config.max) }
    return max(pause ?? self.config.initial, Self.minAttempt)
  }

  /// Starts over, because the server has answered.
  mutating func reset() { self.last = nil }
}

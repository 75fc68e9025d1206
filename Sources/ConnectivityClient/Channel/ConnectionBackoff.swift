internal import GRPCNIOTransportHTTP2Posix

/// When the next attempt to connect may start: gRPC's connection-backoff document.
///
/// A pause is measured from the start of the attempt before it. The first is exact, later ones are spread by the jitter.
struct ConnectionBackoff: Sendable {
  /// An attempt is given at least this long, however short the pauses are (MIN_CONNECT_TIMEOUT).
  static let shortestAttempt: Duration = .seconds(20)

  private let config: HTTP2ClientTransport.Config.Backoff
  /// The last pause, without its jitter; `nil` before the first.
  private var last: Duration?

  init(_ config: HTTP2ClientTransport.Config.Backoff) { self.config = config }

  /// The least time between the start of an attempt and that of the next.
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

  /// How long the next attempt may take: as long as its pause, and no less than ``shortestAttempt``.
  var longestAttempt: Duration {
    let pause = self.last.map { min($0 * self.config.multiplier, self.config.max) }
    return max(pause ?? self.config.initial, Self.shortestAttempt)
  }

  /// The server answered: the next failure is the first.
  mutating func reset() { self.last = nil }
}

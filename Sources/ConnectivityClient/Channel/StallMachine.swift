/// A state machine that decides whether a connection has stalled (W4).
///
/// Silence alone does not prove a stall, because the server may be slow. Data that is
/// unacknowledged after two timeouts does. If all data is acknowledged, one PING is sent, which
/// must be acknowledged too.
///
/// The socket is read only while calls run, a second after the last byte, and once for each silence
/// unless data is unacknowledged. A connection that waits for a server has no timer.
struct StallMachine: Sendable {
  typealias Instant = ContinuousClock.Instant

  enum Input: Sendable {
    /// A call has started on the connection.
    case called
    /// The peer sent something. `isBusy` means that calls are running.
    case received(isBusy: Bool)
    /// The answer to ``Action/sample(after:)``.
    case sampled(Sample)
  }

  /// A reading of the socket.
  struct Sample: Sendable {
    /// The number of calls that are running.
    var calls: Int
    /// The socket's state, or `nil` if the system does not report it.
    var socket: SocketState?
  }

  /// The state of sent data, from `tcp_info`.
  struct SocketState: Hashable, Sendable {
    /// Whether the peer has not acknowledged all data.
    var hasUnacknowledgedData: Bool
    /// The number of retransmission timeouts in a row.
    var timeouts: Int
    /// The time until the next timeout.
    var timeout: Duration
  }

  enum Action: Hashable, Sendable {
    /// Read the socket after this time.
    case sample(after: Duration)
    case ping
    /// The connection takes no more calls.
    case stalled
    /// The peer of a stalled connection answers again.
    case recovered
  }

  /// The silence after which the socket is examined.
  static let minSilence = Duration.seconds(1)
  /// The minimum time between PINGs, because gRPC servers close connections that send too many.
  static let pingInterval = Duration.seconds(60)
  /// The number of timeouts that show a stall. Two may also occur if the round-trip time jumps to 1
  /// s. ``minSilence`` excludes most of these cases.
  private static let minTimeouts = 2
  private static let sampleIntervals = Duration.milliseconds(100)...Duration.seconds(1)

  private var isStalled = false
  /// Whether a reading of the socket is scheduled.
  private var isWatching = false
  private var lastPing: Instant?
  /// When the silence began: with the last byte, or the first call after a pause.
  private var silentSince: Instant?

  mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .called:
      if self.isWatching || self.isStalled { return [] }
      self.silentSince = now
      return self.sample(after: Self.minSilence)
    case .received(let isBusy):
      self.silentSince = now
      let recovered: [Action] = self.isStalled ? [.recovered] : []
      self.isStalled = false
      return recovered + (self.isWatching || !isBusy ? [] : self.sample(after: Self.minSilence))
    case .sampled(let sample):
      self.isWatching = false
      return self.examine(sample, at: now)
    }
  }

  private mutating func examine(_ sample: Sample, at now: Instant) -> [Action] {
    guard !self.isStalled, let socket = sample.socket, let silentSince = self.silentSince,
      sample.calls > 0 || socket.hasUnacknowledgedData
    else { return [] }
    let rest = Self.minSilence - silentSince.duration(to: now)
    if rest > .zero { return self.sample(after: rest) }
    if socket.hasUnacknowledgedData {
      guard socket.timeouts >= Self.minTimeouts else { return self.lookAgain(socket) }
      self.isStalled = true
      return [.stalled]
    }
    if let lastPing, lastPing.duration(to: now) < Self.pingInterval { return [] }
    self.lastPing = now
    return [.ping] + self.lookAgain(socket)
  }

  private mutating func lookAgain(_ socket: SocketState) -> [Action] {
    let (lower, upper) = (Self.sampleIntervals.lowerBound, Self.sampleIntervals.upperBound)
    return self.sample(after: min(max(socket.timeout, lower), upper))
  }

  private mutating func sample(after pause: Duration) -> [Action] {
    self.isWatching = true
    return [.sample(after: pause)]
  }
}

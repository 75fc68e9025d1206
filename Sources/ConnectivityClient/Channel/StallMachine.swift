/// A state machine that decides whether a connection has stalled (W4).
///
/// Silence alone does not prove a stall, because the server may be slow. Data that is
/// unacknowledged after two timeouts does. If all data is acknowledged, one PING is sent, which
/// must be acknowledged too. After one timeout new calls wait, because a live peer usually answers
/// within the second that follows.
///
/// The socket is read only while calls run, a second after the last byte, and once for each silence
/// unless data is unacknowledged. A call that begins in a silence reads it, too. A connection that
/// waits for a server has no timer.
struct StallMachine: Sendable {
  typealias Instant = ContinuousClock.Instant

  enum Input: Sendable {
    /// A call has started on the connection.
    case called
    /// The peer sent something. `isBusy` means that calls are running.
    case received(isBusy: Bool)
    /// The answer to ``Action/sample(after:)``.
    case sampled(Sample)
    /// A call is about to start in a silence.
    case calling(Sample)
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
    /// New calls wait for the peer's next answer, or for another connection.
    case hold
    /// The connection takes no more calls.
    case stalled
    /// The peer of a connection that holds calls, or has stalled, answers again.
    case recovered
  }

  /// The silence after which the socket is examined.
  static let minSilence = Duration.seconds(1)
  /// Linux's shortest timeout (`TCP_RTO_MIN`). A call that begins earlier reads nothing.
  static let minTimeout = Duration.milliseconds(200)
  /// gRPC servers close connections that send too many PINGs.
  static let pingInterval = Duration.seconds(60)
  /// The number of timeouts that show a stall. Two may also occur if the round-trip time jumps to 1
  /// s. ``minSilence`` excludes most of these cases.
  private static let minTimeouts = 2
  private static let sampleIntervals = Duration.milliseconds(100)...Duration.seconds(1)

  private var isHolding = false
  private var isStalled = false
  /// Whether a reading of the socket is scheduled.
  private var isWatching = false
  /// Whether a call has started since the last byte.
  private var isAwaiting = false
  private var lastPing: Instant?
  /// When the silence began: with the last byte, or the first call after a pause.
  private var silentSince: Instant?

  /// Whether a call that begins now must read the socket first, because the first timeout may have
  /// passed.
  func isSilent(calls: Int, at now: Instant) -> Bool {
    guard self.isAwaiting || calls > 0, let silentSince = self.silentSince else { return false }
    return silentSince.duration(to: now) >= Self.minTimeout
  }

  mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .called:
      self.isAwaiting = true
      if self.isWatching || self.isStalled { return [] }
      self.silentSince = now
      return self.sample(after: Self.minSilence)
    case .received(let isBusy):
      (self.silentSince, self.isAwaiting) = (now, false)
      return self.recover()
        + (self.isWatching || !isBusy ? [] : self.sample(after: Self.minSilence))
    case .sampled(let sample):
      self.isWatching = false
      return sample.socket.map { self.examine($0, calls: sample.calls, at: now) } ?? []
    case .calling(let sample):
      guard let socket = sample.socket, socket.hasUnacknowledgedData, socket.timeouts > 0 else {
        return []
      }
      self.isHolding = true
      return [.hold] + (self.isWatching || self.isStalled ? [] : self.sampleAgain(socket))
    }
  }

  private mutating func examine(_ socket: SocketState, calls: Int, at now: Instant) -> [Action] {
    let recovered = socket.hasUnacknowledgedData ? [] : self.recover()
    guard !self.isStalled, let silentSince = self.silentSince,
      calls > 0 || socket.hasUnacknowledgedData
    else { return recovered }
    let rest = Self.minSilence - silentSince.duration(to: now)
    if rest > .zero { return recovered + self.sample(after: rest) }
    if socket.hasUnacknowledgedData {
      guard socket.timeouts >= Self.minTimeouts else { return self.sampleAgain(socket) }
      self.isStalled = true
      return [.stalled]
    }
    if let lastPing, lastPing.duration(to: now) < Self.pingInterval { return recovered }
    self.lastPing = now
    return recovered + [.ping] + self.sampleAgain(socket)
  }

  private mutating func recover() -> [Action] {
    defer { (self.isHolding, self.isStalled) = (false, false) }
    return self.isHolding || self.isStalled ? [.recovered] : []
  }

  private mutating func sampleAgain(_ socket: SocketState) -> [Action] {
    let (lower, upper) = (Self.sampleIntervals.lowerBound, Self.sampleIntervals.upperBound)
    return self.sample(after: min(max(socket.timeout, lower), upper))
  }

  private mutating func sample(after pause: Duration) -> [Action] {
    self.isWatching = true
    return [.sample(after: pause)]
  }
}

/// Decides whether a connection has stalled, and whether its calls end, as a value (W4, W8): it
/// receives inputs and returns actions.
///
/// Silence alone does not prove a stall, because the server may be slow. Data that is
/// unacknowledged after two timeouts does. If all data is acknowledged, one PING is sent, which
/// must be acknowledged too. After one timeout new calls wait, because a live peer usually answers
/// within the second that follows.
///
/// The socket is read only while calls run, a second after the last byte, and once for each silence
/// unless data is unacknowledged. A call that begins in a silence also reads the socket. A
/// connection that only waits for its server has no timer.
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
    /// Whether the channel allows the calls to end.
    var mayEnd = false
    /// When a connection to the same server by another link was last heard, or `nil` without one.
    var heardElsewhere: Instant?
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
    /// The number of packets that were retransmitted since the connection was made.
    var retransmissions: Int
    /// The smoothed round-trip time.
    var roundTrip: Duration
  }

  enum Action: Hashable, Sendable {
    /// Read the socket after this time.
    case sample(after: Duration)
    case ping
    /// New calls wait for the peer's next answer, or for another connection.
    case hold
    /// The connection takes no more calls.
    case stalled
    /// The peer answers again, after the connection held calls or stalled.
    case recovered
    /// The running calls end (W8). Nothing was received for the given time.
    case end(SocketState, silence: Duration)
  }

  /// The silence after which the socket is examined.
  static let minSilence = Duration.seconds(1)
  /// Linux's shortest timeout (`TCP_RTO_MIN`). A call that begins earlier does not read the socket.
  static let minTimeout = Duration.milliseconds(200)
  /// gRPC servers close connections that send too many PINGs.
  static let pingInterval = Duration.seconds(60)
  /// How long calls must have received nothing before they end.
  static let minCallSilence = Duration.seconds(5)
  /// If the round-trip time jumps to 1 s, two timeouts may also occur. The second of silence
  /// excludes most of these cases.
  private static let minTimeouts = 2
  private static let minTimeoutsToEnd = 3
  private static let sampleIntervals = Duration.milliseconds(100)...Duration.seconds(1)

  private var isHolding = false
  private var isStalled = false
  /// Whether a reading of the socket is scheduled.
  private var isWatching = false
  /// Whether a call has started since the last byte.
  private var isAwaiting = false
  private var lastPing: Instant?
  private var lastCall: Instant?
  /// When the silence began: with the last byte, or the first call after a pause.
  private var silentSince: Instant?
  /// When a reading last showed that the peer had acknowledged something since the last timeout.
  private var lastAnswer: Instant?
  /// The known numbers of packets that were retransmitted before the silence, and until the last
  /// reading.
  private var (formerRetransmissions, lastRetransmissions) = (0, 0)
  /// Whether calls may end. If so, the socket of a stalled connection is read.
  private let endsCalls: Bool

  init(endsCalls: Bool) { self.endsCalls = endsCalls }

  /// Whether a call that begins now must read the socket first, because the first timeout may have
  /// passed.
  func isSilent(calls: Int, at now: Instant) -> Bool {
    guard self.isAwaiting || calls > 0, let silentSince = self.silentSince else { return false }
    return silentSince.duration(to: now) >= Self.minTimeout
  }

  mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .called:
      // Before the call, the peer had nothing to send.
      if !self.isStalled, !self.isAwaiting || !self.isWatching { self.silentSince = now }
      (self.isAwaiting, self.lastCall) = (true, now)
      if self.isWatching || self.isStalled && !self.endsCalls { return [] }
      return self.sample(after: Self.minSilence)
    case .received(let isBusy):
      (self.silentSince, self.isAwaiting) = (now, false)
      self.formerRetransmissions = self.lastRetransmissions
      return self.recover()
        + (self.isWatching || !isBusy ? [] : self.sample(after: Self.minSilence))
    case .sampled(let sample):
      self.isWatching = false
      return sample.socket.map { self.examine($0, sample, at: now) } ?? []
    case .calling(let sample):
      guard let socket = sample.socket, socket.hasUnacknowledgedData, socket.timeouts > 0 else {
        return []
      }
      self.isHolding = true
      return [.hold] + (self.isWatching || self.isStalled ? [] : self.sampleAgain(socket))
    }
  }

  private mutating func examine(
    _ socket: SocketState, _ sample: Sample, at now: Instant
  ) -> [Action] {
    // An acknowledgement resets the timeouts.
    let isAnswered = !socket.hasUnacknowledgedData || socket.timeouts == 0
    self.lastRetransmissions = socket.retransmissions
    if isAnswered {
      (self.formerRetransmissions, self.lastAnswer) = (socket.retransmissions, now)
    }
    let recovered = isAnswered ? self.recover() : []
    guard let silentSince = self.silentSince, sample.calls > 0 || socket.hasUnacknowledgedData
    else { return recovered }
    if self.isStalled { return self.judge(socket, sample, silentSince, at: now) }
    let rest = Self.minSilence - silentSince.duration(to: now)
    if rest > .zero { return recovered + self.sample(after: rest) }
    if socket.hasUnacknowledgedData {
      guard socket.timeouts >= Self.minTimeouts else {
        return recovered + self.sampleAgain(socket)
      }
      self.isStalled = true
      return [.stalled] + self.judge(socket, sample, silentSince, at: now)
    }
    if let lastPing, lastPing.duration(to: now) < Self.pingInterval { return recovered }
    self.lastPing = now
    return recovered + [.ping] + self.sampleAgain(socket)
  }

  /// Decides whether the calls on the stalled connection end (W8).
  private mutating func judge(
    _ socket: SocketState, _ sample: Sample, _ silentSince: Instant, at now: Instant
  ) -> [Action] {
    guard self.endsCalls, sample.calls > 0 else { return [] }
    // During an upload, the peer may only acknowledge data.
    let unanswered = max(silentSince, self.lastAnswer ?? silentSince)
    let rest =
      Self.minCallSilence - max(unanswered, self.lastCall ?? unanswered).duration(to: now)
    if rest > .zero { return self.sample(after: Self.sampleInterval(rest)) }
    // A timeout counts only if it retransmitted something. Data that still waits in this machine
    // proves nothing.
    let timeouts = min(socket.timeouts, socket.retransmissions - self.formerRetransmissions)
    let isContrast = sample.heardElsewhere.map { $0 > unanswered } ?? false
    guard timeouts >= Self.minTimeoutsToEnd, isContrast, sample.mayEnd else {
      return self.sampleAgain(socket)
    }
    return [.end(socket, silence: silentSince.duration(to: now))]
  }

  private mutating func recover() -> [Action] {
    defer { (self.isHolding, self.isStalled) = (false, false) }
    return self.isHolding || self.isStalled ? [.recovered] : []
  }

  private mutating func sampleAgain(_ socket: SocketState) -> [Action] {
    self.sample(after: Self.sampleInterval(socket.timeout))
  }

  private static func sampleInterval(_ time: Duration) -> Duration {
    min(max(time, self.sampleIntervals.lowerBound), self.sampleIntervals.upperBound)
  }

  private mutating func sample(after pause: Duration) -> [Action] {
    self.isWatching = true
    return [.sample(after: pause)]
  }
}

internal import Connectivity
internal import NIOCore
private import Synchronization

/// Watches a connection for stalls, as ``StallMachine`` decides. Used only on the connection's
/// thread, except ``called()`` and ``isSilent``.
///
/// Implements rules W4 and W8.
final class StallWatch: Sendable {
  enum Event: Sendable {
    case hold
    case stalled
    case recovered
    /// The running calls end (W8).
    case end(SocketTestimony)
  }

  private struct State {
    var machine: StallMachine
    var timer: Scheduled<Void>?
    /// Whether the connection is closed, so that no timer may start.
    var isOver = false
  }

  private let channel: any NIOCore.Channel
  private let calls: @Sendable () -> Int
  private let mayEnd: @Sendable () -> Bool
  private let heardElsewhere: @Sendable () -> ContinuousClock.Instant?
  private let ping: @Sendable () -> Void
  private let onEvent: @Sendable (Event) -> Void
  private let state: Mutex<State>

  /// - Parameters:
  ///   - calls: Returns the number of calls that are running.
  ///   - endsCalls: Whether calls may ever end (W8).
  ///   - mayEnd: Returns whether the calls that are running may end.
  ///   - heardElsewhere: Returns when a connection to the same server by another link was last
  ///     heard, or `nil` without one.
  ///   - ping: Sends a PING. Called on the channel's thread.
  ///   - onEvent: Called on the channel's thread.
  init(
    _ channel: any NIOCore.Channel, calls: @escaping @Sendable () -> Int, endsCalls: Bool,
    mayEnd: @escaping @Sendable () -> Bool,
    heardElsewhere: @escaping @Sendable () -> ContinuousClock.Instant?,
    ping: @escaping @Sendable () -> Void, onEvent: @escaping @Sendable (Event) -> Void
  ) {
    self.channel = channel
    self.calls = calls
    self.mayEnd = mayEnd
    self.heardElsewhere = heardElsewhere
    self.state = Mutex(State(machine: StallMachine(endsCalls: endsCalls)))
    self.ping = ping
    self.onEvent = onEvent
  }

  /// Records that a call has started. May be called on any thread.
  func called() { self.handle(.called) }

  /// Whether a call that begins now must call ``calling()`` first. May be read on any thread.
  var isSilent: Bool {
    let calls = self.calls()
    return self.state.withLock { $0.machine.isSilent(calls: calls, at: .now) }
  }

  /// Reads the socket for a call that is about to begin.
  func calling() { self.handle(.calling(self.readSocket())) }

  /// Records that the peer sent something.
  func received() { self.handle(.received(isBusy: self.calls() > 0)) }

  /// Ends the watch, because the connection is closed.
  func end() {
    self.state.withLock { state in
      state.isOver = true
      return state.timer.take()
    }?.cancel()
  }

  private func handle(_ input: StallMachine.Input) {
    for action in self.state.withLock({ $0.machine.handle(input, at: .now) }) {
      switch action {
      case .sample(let pause):
        let timer = self.channel.eventLoop.scheduleTask(in: TimeAmount(pause)) { self.sample() }
        let isOver = self.state.withLock { state in
          if !state.isOver { state.timer = timer }
          return state.isOver
        }
        if isOver { timer.cancel() }
      case .ping: self.ping()
      case .hold: self.onEvent(.hold)
      case .stalled: self.onEvent(.stalled)
      case .recovered: self.onEvent(.recovered)
      case .end(let socket, let silence):
        self.onEvent(
          .end(
            SocketTestimony(
              lastHeard: .zero - silence, roundTrip: socket.roundTrip, timeouts: socket.timeouts,
              hasUnacknowledgedData: socket.hasUnacknowledgedData)))
      }
    }
  }

  private func sample() { self.handle(.sampled(self.readSocket())) }

  private func readSocket() -> StallMachine.Sample {
    StallMachine.Sample(
      calls: self.calls(), mayEnd: self.mayEnd(), heardElsewhere: self.heardElsewhere(),
      socket: ChannelSocket(channel: self.channel).sentData)
  }
}

extension ChannelSocket {
  /// The state of sent data, or `nil` if the system does not report it. Also `nil` if the
  /// connection has several subflows, because `tcp_info` describes only the first one.
  fileprivate var sentData: StallMachine.SocketState? {
    if self.isMultipath, self.subflows.map({ $0.count > 1 }) ?? true { return nil }
    return self.tcpInformation?.state
  }

  /// The connection's `tcp_info`, or `nil` if the system does not have it.
  var tcpInformation: TCPInformation? {
    #if os(Linux)
      return self.option(6, 11, TCPInformation())  // IPPROTO_TCP, TCP_INFO
    #else
      return nil
    #endif
  }
}

/// The beginning of `struct tcp_info` (linux/tcp.h).
struct TCPInformation: BitwiseCopyable, Sendable {
  private var state8: UInt8 = 0
  private var congestionState: UInt8 = 0
  private var retransmits: UInt8 = 0
  private var probes: UInt8 = 0
  private var backoff: UInt8 = 0
  private var options: UInt8 = 0
  private var windowScales: UInt8 = 0
  private var limits: UInt8 = 0
  /// The retransmission timeout, in microseconds.
  private var timeout: UInt32 = 0
  private var acknowledgementTimeout: UInt32 = 0
  private var segmentSizes: (UInt32, UInt32) = (0, 0)
  /// The number of unacknowledged packets.
  private var unacknowledged: UInt32 = 0
  private var packets: (UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0)
  /// Times in milliseconds. The first one is the time since the last packet with data was sent.
  private var times: (UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0)
  /// The sizes of path and window, the round-trip time in microseconds, and others.
  private var metrics: (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32) =
    (0, 0, 0, 0, 0, 0, 0, 0)
  private var receiver: (UInt32, UInt32) = (0, 0)
  /// The number of all retransmitted packets, SYNs included.
  private(set) var totalRetransmissions: UInt32 = 0

  init() {}

  private static let synSent: UInt8 = 2

  /// Whether two SYNs or two timeouts got no answer.
  var isUnanswered: Bool {
    let timeouts = max(self.retransmits, self.backoff)
    return timeouts >= (self.state8 == Self.synSent ? 1 : 2)
  }

  /// The state of sent data. The number of timeouts is the higher of two counters, because each of
  /// them misses some timeouts.
  var state: StallMachine.SocketState {
    StallMachine.SocketState(
      hasUnacknowledgedData: self.unacknowledged > 0,
      timeouts: Int(max(self.retransmits, self.backoff)),
      timeout: .microseconds(Int64(self.timeout)) - .milliseconds(Int64(self.times.0)),
      retransmissions: Int(self.totalRetransmissions),
      roundTrip: .microseconds(Int64(self.metrics.2)))
  }
}

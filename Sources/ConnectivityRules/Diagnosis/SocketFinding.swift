package import Connectivity

/// The behaviour of one TCP socket between two samples.
///
/// Implements rule Q7.
package struct SocketFinding: Hashable, Sendable {
  package enum Behaviour: Hashable, Sendable {
    /// Nothing is in flight, and the peer was last heard this long ago.
    case idle(Duration)
    /// The peer has not answered yet, and it is too early to say more.
    case waiting
    /// The peer was heard between the samples. `isLossy`: data was sent again meanwhile, and
    /// arrived. `isResending`: data was sent again, meanwhile or before, and may not have arrived
    /// yet.
    case heard(isLossy: Bool, isResending: Bool = false)
    /// The peer does not answer. `isFull`: the socket holds at least one full segment.
    case silent(isFull: Bool)
    /// This machine does not send the connection's data.
    case heldBack
    /// The timer has expired, but nothing that was sent again is in flight. Either this machine did
    /// not let it out, or the neighbour's MAC address is unknown.
    case notSentAgain(isFull: Bool)
  }

  package var behaviour: Behaviour
  package var host: IPAddress
  package var port: UInt16
  package var source: IPAddress
  package var sourcePort: UInt16
  /// The index of the link that the socket is bound to, or 0.
  package var link: UInt32
  package var user: UInt32
  /// The number of the user's account: all users that one person may act as.
  package var person: UInt32
  /// Whether the question is about the socket. Other sockets serve as comparison.
  package var isSubject: Bool
  /// Whether the peer opened the connection. Clients come and go, so their silence says nothing.
  package var isIncoming = false

  /// Compares two samples of a socket. Returns `nil` for a socket that does not testify: one that
  /// no process has open, one without `tcp_info` (as in TIME_WAIT), one within this machine, or one
  /// with a silent peer that has closed its window.
  ///
  /// - Parameter before: The state at the earlier sample, or `nil` if the socket is new, or was
  ///   quiet (``SocketSample/isQuiet``).
  package init?(
    _ before: SocketSample.TCPState?, _ after: SocketSample, person: UInt32, isSubject: Bool
  ) {
    guard after.inode != 0, after.source != after.host, !after.host.isLoopback,
      let behaviour = Behaviour(before, after)
    else { return nil }
    self.init(behaviour, after, person: person, isSubject: isSubject)
  }

  init(
    _ behaviour: Behaviour, _ sample: SocketSample, person: UInt32, isSubject: Bool = true
  ) {
    self.behaviour = behaviour
    (self.host, self.port) = (sample.host, sample.port)
    (self.source, self.sourcePort) = (sample.source, sample.sourcePort)
    (self.link, self.user) = (sample.link, sample.user)
    (self.person, self.isSubject) = (person, isSubject)
  }
}

extension SocketSample {
  /// Whether nothing is in flight and the peer was not heard recently. Servers have many such
  /// sockets, and they say nothing about the way.
  package var isQuiet: Bool {
    guard let tcp = self.tcp else { return false }
    return !tcp.isConnecting && tcp.inFlight == 0 && tcp.unsent == 0
      && tcp.silence > Diagnosis.recent
  }
}

extension SocketSample.TCPState {
  /// Whether data that was sent again since an earlier state is known to have arrived. This is not
  /// known if the kernel's timer has expired and nothing new was acknowledged since. The peer may
  /// acknowledge small segments, while large ones are lost.
  fileprivate func hasRepaired(since former: Self) -> Bool {
    self.timeouts == 0 && self.resent &- former.resent > self.sentAgain
  }
}

extension SocketFinding.Behaviour {
  /// The minimum number of timeouts in a row after which a connection is silent.
  private static let minTimeouts = 2
  /// The time between the samples.
  private static let interval = Duration.seconds(1)

  fileprivate init?(_ former: SocketSample.TCPState?, _ after: SocketSample) {
    guard let state = after.tcp else { return nil }
    let isHeard =
      former.map { $0.received != state.received }
      ?? (state.received > 0 && state.silence <= Self.interval)
    let isFull = after.queued >= state.segmentSize
    let isProbing = after.timer == SocketSample.probeTimer && state.inFlight == 0
    if isProbing, state.unsent > 0, let window = state.window, window > 0, !state.isConnecting {
      // A full queue of a link also holds data back, but the timer does not double then.
      if state.backoff > 0 {
        self = .heldBack
        return
      }
    }
    if isHeard {
      let isResent = former.map { $0.resent < state.resent } ?? false
      let isLossy = isResent && former.map { state.hasRepaired(since: $0) } ?? false
      // A timer that expired earlier, and does not run any more, is a sign of loss as well.
      let hasTimeouts = state.timeouts > 0 || former.map { $0.timeouts > 0 } ?? false
      self = .heard(isLossy: isLossy, isResending: (isResent || hasTimeouts) && !isLossy)
    } else if isProbing, state.window == 0 {
      return nil
    } else if state.isConnecting {
      guard state.timeouts > 0 else {
        self = .waiting
        return
      }
      self = state.sentAgain == 0 ? .notSentAgain(isFull: false) : .silent(isFull: false)
    } else if state.inFlight > 0 {
      guard state.timeouts >= Self.minTimeouts, state.silence >= state.timeout else {
        self = .waiting
        return
      }
      self = state.sentAgain == 0 ? .notSentAgain(isFull: isFull) : .silent(isFull: isFull)
    } else {
      self = state.unsent > 0 ? .waiting : .idle(state.silence)
    }
  }
}

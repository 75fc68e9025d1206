import Connectivity
import ConnectivityRules

/// A TCP connection of a client: the fate of its packets, and its socket's report.
///
/// Bytes are the truth here (I0). An active connection sends and receives continuously while its
/// packets arrive. Nothing comes from connd's rules.
struct ModelConnection {
  struct Kind {
    /// Whether it carries traffic continuously, or never.
    var isActive: Bool
    /// The link that netfilter sends its packets by, or `nil` if they follow the lookup.
    var markedLink: UInt32?
    /// Whether packets wait in a queue of this machine for eight seconds after each fault, also if
    /// the path is back.
    var isQueued = false
    /// Whether the peer's retransmissions still arrive when its own packets are lost.
    var hearsCopies: Bool
    var roundTrip: Duration
    /// How its owner asks its peer when it must (E4).
    var question = PeerQuestion.none
    /// Whether its owner is stopped, and asks nothing.
    var isStopped = false

    /// A peer beyond the local network has more time (E1).
    var minAnswerTime: Duration {
      self.roundTrip < .milliseconds(2) ? .milliseconds(200) : .seconds(1)
    }
  }

  let kind: Kind
  /// Its addresses and ports.
  let question: Destination
  /// The link that it was made on, if it depends on one, and the network there.
  private let link: UInt32?
  private let network: UInt8?

  private var isCarried = true
  private var carriedSince: Instant
  /// Since when nothing new arrives, or `nil` while it carries traffic.
  private var silentSince: Instant?
  private var aliveSince: Instant
  /// How long it carried traffic before that.
  private var aliveBefore = Duration.zero
  /// How often it sent again before that.
  private var resentBefore = 0
  /// When the next keepalive probe is sent, and when those before it were.
  private var nextProbe: Instant?
  private var probes: [Instant] = []
  /// When the probes' answers arrive.
  private var probeAnswers: [Instant] = []

  init(_ question: Destination, _ kind: Kind, in network: ModelNetwork, at now: Instant) {
    self.question = question
    self.kind = kind
    let link = kind.markedLink ?? network.path(to: question).chain.first?.index
    // A source address on no link follows any route to the destination.
    let isTied = kind.markedLink != nil || question.source.flatMap(network.owner) != nil
    self.link = isTied ? link : nil
    self.network = self.link.flatMap { network[$0]?.network }
    (self.carriedSince, self.aliveSince) = (now, now)
    self.follow(network, at: now)
  }

  // MARK: - Traffic

  /// Processes a state of the network.
  mutating func follow(_ network: ModelNetwork, at now: Instant) {
    self.settle(at: now)
    let isCarried = self.carries(network)
    guard isCarried != self.isCarried else { return }
    self.isCarried = isCarried
    if isCarried {
      self.carriedSince = now
      // Nothing was sent in between.
      if self.silentSince == now { self.resume(at: now) }
    } else if self.silentSince == nil {
      self.silentSince = now
      self.aliveBefore += self.aliveSince.duration(to: now)
    }
  }

  /// Whether a packet sent now reaches the peer, and is answered.
  private func carries(_ network: ModelNetwork) -> Bool {
    guard case .route(let route) = network.route(to: self.question) else { return false }
    if route.kind == .local { return true }
    if self.kind.markedLink == nil {
      let path = network.path(to: self.question)
      guard path.status == .satisfied else { return false }
      guard let link = self.link else { return true }
      // Another link or network has another router with its own address translation.
      return path.chain.first?.index == link && network[link]?.network == self.network
    }
    return network.link(self.link)?.state == .up && network[self.link]?.network == self.network
  }

  /// Processes an answer that has come in between.
  private mutating func settle(at now: Instant) {
    if let probe = self.nextProbe, !self.isProbeQueued(at: now) {
      self.nextProbe = nil
      self.probes.append(max(probe, self.endOfProbeQueue))
      if self.isCarried {
        self.probeAnswers.append(
          max(probe, self.endOfProbeQueue).advanced(by: self.kind.roundTrip))
      }
    }
    if !self.kind.isActive, let last = self.probeAnswers.last(where: { $0 <= now }) {
      self.aliveSince = max(self.aliveSince, last)
    }
    if let answer = self.answer, answer <= now { self.resume(at: answer) }
  }

  private mutating func resume(at time: Instant) {
    self.resentBefore += self.resent(at: time)
    (self.silentSince, self.aliveSince) = (nil, time)
  }

  private func settled(at now: Instant) -> Self {
    var settled = self
    settled.settle(at: now)
    return settled
  }

  /// When the peer's answer to the first successful retransmission arrives.
  private var answer: Instant? {
    guard self.isCarried else { return nil }
    return self.expiry(from: self.firstSending)?.advanced(by: self.kind.roundTrip)
  }

  /// When a retransmission can leave this machine and reach the peer.
  private var firstSending: Instant { max(self.carriedSince, self.endOfQueue) }

  /// When its packets no longer wait in a queue of this machine.
  private var endOfQueue: Instant {
    guard let silentSince, self.kind.isQueued else { return self.carriedSince }
    return silentSince.advanced(by: .seconds(8))
  }

  /// The number of timeouts at which something was sent, since it is silent.
  private func resent(at now: Instant) -> Int {
    guard let silentSince else { return 0 }
    guard self.kind.isQueued else { return self.timeouts(at: now) }
    let unsent = self.timeouts(at: min(now, silentSince.advanced(by: .milliseconds(7999))))
    return self.timeouts(at: now) - unsent
  }

  /// The owner asks the peer by a keepalive probe, which waits until the socket has been idle for a
  /// second. Data that is sent all the time leaves no room for one.
  mutating func ask(at now: Instant) {
    self.settle(at: now)
    guard !self.kind.isStopped, !self.kind.isActive, self.nextProbe == nil else { return }
    self.nextProbe = max(now, self.aliveSince.advanced(by: .seconds(1)))
  }

  /// The number of probes in a row without an answer.
  private func unansweredProbes(at now: Instant) -> Int {
    let lastAnswer = self.probeAnswers.last { $0 <= now }?.advanced(by: .zero - self.kind.roundTrip)
    return self.probes.count { $0 > lastAnswer ?? Instant(sinceStart: .seconds(-1)) }
  }

  /// When a probe no longer waits in a queue of this machine.
  private var endOfProbeQueue: Instant {
    guard self.kind.isQueued else { return Instant(sinceStart: .zero) }
    return max(self.carriedSince, self.silentSince ?? self.carriedSince).advanced(by: .seconds(8))
  }

  /// Whether the next probe is not sent yet, or waits in a queue of this machine.
  private func isProbeQueued(at now: Instant) -> Bool {
    self.nextProbe.map { max($0, self.endOfProbeQueue) > now } ?? false
  }

  // MARK: - Timeouts

  /// The first retransmission timeout.
  private var firstTimeout: Duration { self.kind.roundTrip + .milliseconds(200) }

  /// When the retransmission timer next expires, at that moment or later.
  private func expiry(from time: Instant) -> Instant? {
    guard let silentSince else { return nil }
    var (expiry, timeout) = (silentSince.advanced(by: self.firstTimeout), self.firstTimeout)
    while expiry < time {
      timeout *= 2
      expiry = expiry.advanced(by: timeout)
    }
    return expiry
  }

  private func timeouts(at now: Instant) -> Int {
    guard let silentSince else { return 0 }
    var (count, next, timeout) = (0, silentSince.advanced(by: self.firstTimeout), self.firstTimeout)
    while next <= now {
      timeout *= 2
      (count, next) = (count + 1, next.advanced(by: timeout))
    }
    return count
  }

  // MARK: - The socket's report

  func report(at now: Instant) -> SocketReport {
    let socket = self.settled(at: now)
    guard socket.kind.isActive else {
      let queued = socket.nextProbe.map { $0 <= now } ?? false ? 1 : 0
      return SocketReport(
        silence: socket.aliveSince.duration(to: now), dataSilence: .seconds(3600),
        roundTrip: socket.kind.roundTrip, timeout: socket.firstTimeout,
        segments: UInt32(socket.probes.count + queued),
        probes: socket.unansweredProbes(at: now) + queued,
        acknowledgements: UInt32(socket.probeAnswers.count { $0 <= now }),
        queued: UInt32(queued))
    }
    guard let silentSince = socket.silentSince else {
      let alive = socket.aliveBefore + socket.aliveSince.duration(to: now)
      return SocketReport(
        silence: .zero, progress: Self.octets(alive), inFlight: 10,
        roundTrip: socket.kind.roundTrip,
        hasUnacknowledgedData: true, resent: UInt64(socket.resentBefore),
        nextTimeout: socket.firstTimeout)
    }
    let lastHeard = socket.kind.hearsCopies ? socket.lastCopy(at: now) : silentSince
    let next = socket.expiry(from: now.advanced(by: .nanoseconds(1)))
    return SocketReport(
      silence: lastHeard.duration(to: now), dataSilence: silentSince.duration(to: now),
      progress: Self.octets(socket.aliveBefore), inFlight: 10,
      roundTrip: socket.kind.roundTrip, timeouts: socket.timeouts(at: now),
      timeout: socket.firstTimeout * (1 << min(socket.timeouts(at: now), 16)),
      hasUnacknowledgedData: true,
      resent: UInt64(socket.resentBefore + socket.resent(at: now)),
      nextTimeout: next.map { now.duration(to: $0) })
  }

  /// When the peer last retransmitted unacknowledged data.
  private func lastCopy(at now: Instant) -> Instant {
    guard let silentSince else { return now }
    var (last, timeout) = (silentSince, Duration.milliseconds(70))
    while last.advanced(by: timeout) <= now {
      last = last.advanced(by: timeout)
      timeout *= 2
    }
    return last
  }

  private static func octets(_ alive: Duration) -> UInt64 {
    UInt64(Instant(sinceStart: alive).milliseconds)
  }

  // MARK: - Queries by the invariants

  /// Whether it is idle, and packets have reached the peer for four seconds.
  ///
  /// - Parameter isQueued: Whether that includes packets that first wait in a queue.
  func isIdleAndCarried(isQueued: Bool = false, at now: Instant) -> Bool {
    let socket = self.settled(at: now)
    if socket.kind.isQueued, !isQueued { return false }
    return !socket.kind.isActive && socket.isCarried
      && socket.carriedSince.duration(to: now) > .seconds(4)
  }

  /// When connd must know that no probe was answered since a moment, or `nil` without one.
  func isProbed(since time: Instant, at now: Instant) -> Instant? {
    let socket = self.settled(at: now)
    if socket.kind.isQueued { return nil }
    return socket.probes.first { $0 >= time }.map { probe in
      let answer = max(socket.kind.minAnswerTime, socket.kind.roundTrip + .milliseconds(200))
      // connd looks in doubling pauses whether it was sent. If the probe answered an earlier
      // question, the next one comes two seconds after that.
      return probe.advanced(by: time.duration(to: probe) + answer + .milliseconds(2500))
    }
  }

  /// Whether it carries traffic.
  func isAlive(at now: Instant) -> Bool {
    let socket = self.settled(at: now)
    return socket.kind.isActive && socket.silentSince == nil
  }

  /// Whether the answer to a packet is in transit.
  func isAnswered(at now: Instant) -> Bool {
    let socket = self.settled(at: now)
    guard socket.isCarried, let sent = socket.expiry(from: socket.firstSending) else {
      return false
    }
    return sent <= now
  }

  /// Whether the path is back, but its packets wait in a queue of this machine since it was lost.
  func isWaiting(at now: Instant) -> Bool {
    let socket = self.settled(at: now)
    guard socket.isCarried, socket.kind.isQueued, socket.silentSince != nil else { return false }
    return socket.resent(at: now) == 0
  }

  /// When something new last arrived, at the earliest by its handshake.
  func lastNews(at now: Instant) -> Instant {
    let socket = self.settled(at: now)
    return socket.kind.isActive ? socket.silentSince ?? now : socket.aliveSince
  }

  /// When connd must know the answer to what was sent again after a moment, or `nil` while nothing
  /// waits for an answer.
  func isAsked(since time: Instant, at now: Instant) -> Instant? {
    let socket = self.settled(at: now)
    let start = socket.kind.isQueued ? max(time, socket.endOfQueue) : time
    guard socket.silentSince != nil, let once = socket.expiry(from: start),
      let twice = socket.expiry(from: once.advanced(by: .nanoseconds(1)))
    else { return nil }
    // A peer that is heard but acknowledges nothing has six seconds, as in E2.
    let least: Duration = socket.kind.hearsCopies ? .seconds(7) : .seconds(1)
    return max(twice, time.advanced(by: least)).advanced(
      by: max(socket.firstTimeout, socket.kind.minAnswerTime) + socket.kind.roundTrip * 4
        + .milliseconds(500))
  }

  /// When the retransmission timer expires at that moment or later, after something was sent again
  /// twice, or `nil` while it carries traffic.
  ///
  /// - Parameter first: When connd has queried the socket first.
  func lateTimeout(from time: Instant, after first: Instant, at now: Instant) -> Instant? {
    let socket = self.settled(at: now)
    guard socket.kind.isActive, socket.silentSince != nil else { return nil }
    let start = socket.kind.isQueued ? max(first, socket.endOfQueue) : first
    guard let once = socket.expiry(from: start.advanced(by: .nanoseconds(1))),
      let twice = socket.expiry(from: once.advanced(by: .nanoseconds(1)))
    else { return nil }
    return socket.expiry(from: max(time, twice))
  }
}

internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// The life of a channel (C1 to C5) as a value: it is told what happened and says what to do.
///
/// One connection is used at a time. Connections that were invalidated, drained or superseded are no business of this
/// machine any more. An attempt to connect and the connection that comes of it have the same ID.
struct ChannelMachine: Sendable {
  typealias Instant = ContinuousClock.Instant
  typealias CallID = UInt64
  typealias ConnectionID = UInt64

  enum Action: Sendable {
    /// Start an attempt that lasts no longer than this.
    case connect(ConnectionID, atMost: Duration)
    /// Call ``wake(now:)`` then.
    case wake(at: Instant)
    /// These calls may go out on the connection.
    case resume([CallID], on: ConnectionID)
    case fail([CallID], RPCError)
    case report(ConnectivityState)
  }

  private enum State {
    case idle
    case connecting(ConnectionID, started: Instant)
    case ready(ConnectionID, started: Instant)
    case transientFailure
    case shutdown
  }

  private var state = State.idle
  private var backoff: ConnectionBackoff
  /// No attempt starts before this.
  private var earliest: Instant?
  /// The network changed for the better while an attempt was under way: if that fails, it says nothing of the next.
  private var hasNews = false
  /// The connection has no path for the moment (I10): calls wait for what becomes of it.
  private var isSuspended = false
  /// When ``wake(now:)`` will be called, as was asked for.
  private var alarm: Instant?
  /// Calls that wait for a connection, in their order; `true` where they wait for it through failures as well
  /// (wait-for-ready).
  private var waiting: [(id: CallID, forReady: Bool)] = []
  private var lastConnection: ConnectionID = 0

  init(_ backoff: HTTP2ClientTransport.Config.Backoff) {
    self.backoff = ConnectionBackoff(backoff)
  }

  var connectivity: ConnectivityState {
    switch self.state {
    case .idle: .idle
    case .connecting: .connecting
    case .ready: .ready
    case .transientFailure: .transientFailure
    case .shutdown: .shutdown
    }
  }

  /// The connection that calls go out on.
  var ready: ConnectionID? {
    if case .ready(let id, _) = self.state, !self.isSuspended { id } else { nil }
  }

  /// Whether the attempt is still the one that calls wait for.
  func isConnecting(_ id: ConnectionID) -> Bool {
    if case .connecting(id, _) = self.state { true } else { false }
  }

  // MARK: Calls

  /// A call needs a connection and waits for it.
  mutating func wait(_ call: CallID, forReady: Bool, now: Instant) -> [Action] {
    switch self.state {
    case .ready(let id, _) where !self.isSuspended:
      return [.resume([call], on: id)]
    case .shutdown:
      return [.fail([call], Self.shutdownError)]
    case .connecting, .ready:
      self.waiting.append((call, forReady))
      return []
    case .idle, .transientFailure:
      self.waiting.append((call, forReady))
      return self.connectWhenAllowed(now)
    }
  }

  /// A call waits no longer.
  mutating func cancel(_ call: CallID) {
    self.waiting.removeAll { $0.id == call }
  }

  // MARK: Connections

  /// The server sent its SETTINGS. Nothing follows where the attempt was given up meanwhile.
  mutating func connected(_ id: ConnectionID) -> [Action] {
    guard case .connecting(id, let started) = self.state else { return [] }
    self.state = .ready(id, started: started)
    (self.isSuspended, self.hasNews) = (false, false)
    self.backoff.reset()
    return [.report(.ready)] + self.resumeAll(on: id)
  }

  private mutating func resumeAll(on id: ConnectionID) -> [Action] {
    defer { self.waiting = [] }
    return [.resume(self.waiting.map(\.id), on: id)]
  }

  /// The connection lost its path, and may get it back; or has it back.
  mutating func suspend(_ id: ConnectionID, _ isSuspended: Bool) -> [Action] {
    guard case .ready(id, _) = self.state, isSuspended != self.isSuspended else { return [] }
    self.isSuspended = isSuspended
    return isSuspended || self.waiting.isEmpty ? [] : self.resumeAll(on: id)
  }

  /// The attempt failed.
  ///
  /// - Parameters:
  ///   - atOnce: The next call may try again without a pause: nobody was bothered on the network (C5, C8).
  ///   - refused: Calls that may use none of the ways that there are: they wait no longer (C8).
  ///   - spared: Calls for which nothing was tried, for they came when it was decided that nobody may use a way. Another attempt
  ///     is made for them.
  mutating func failed(
    _ id: ConnectionID, _ error: RPCError, atOnce: Bool, refused: [CallID: RPCError] = [:],
    spared: Set<CallID> = [], now: Instant, random: Double
  ) -> [Action] {
    guard case .connecting(id, let started) = self.state else { return [] }
    self.state = .transientFailure
    self.waiting.removeAll { refused[$0.id] != nil }
    let calls = self.waiting.filter { !$0.forReady && !spared.contains($0.id) }.map(\.id)
    self.waiting.removeAll { calls.contains($0.id) }
    let next = started + self.backoff.next(random: random)
    // Who waits through failures is spared a busy loop.
    self.earliest = atOnce && self.waiting.isEmpty || !spared.isEmpty ? nil : next
    if self.hasNews {
      self.hasNews = false
      self.earliest = nil
      self.backoff.reset()
    }
    return [.report(.transientFailure)]
      + refused.sorted { $0.key < $1.key }.map { .fail([$0.key], $0.value) }
      + [.fail(calls, error)] + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// The connection broke under its calls.
  mutating func lost(_ id: ConnectionID, now: Instant) -> [Action] {
    guard case .ready(id, let started) = self.state else { return [] }
    self.state = .transientFailure
    // A server that hangs up on everybody is asked once in a while, all others at once.
    self.earliest = started + self.backoff.next(random: 0)
    self.backoff.reset()
    return [.report(.transientFailure)]
      + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// The connection takes no more calls, in good order: it was idle for long, or the server is going away.
  ///
  /// - Parameter wasUsed: A call went out on it. A server that says farewell right after its welcome is asked again only once
  ///   in a while.
  mutating func closed(_ id: ConnectionID, wasUsed: Bool, now: Instant) -> [Action] {
    guard case .ready(id, let started) = self.state else { return [] }
    self.state = .idle
    self.earliest = wasUsed ? nil : started + self.backoff.next(random: 0)
    self.backoff.reset()
    return [.report(.idle)] + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// The network of the connection, or of the attempt, is gone: the next call makes a new one at once (C3).
  mutating func invalidated(_ id: ConnectionID, now: Instant) -> [Action] {
    switch self.state {
    case .ready(id, _), .connecting(id, _):
      self.state = .transientFailure
      self.earliest = nil
      self.backoff.reset()
      return [.report(.transientFailure)]
        + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
    case .idle, .connecting, .ready, .transientFailure, .shutdown:
      return []
    }
  }

  // MARK: Time and the network

  /// A path became satisfied, or another one: whatever failed before may work now (C4).
  mutating func pathSatisfied(now: Instant) -> [Action] {
    switch self.state {
    case .transientFailure:
      self.earliest = nil
      self.backoff.reset()
      return self.waiting.isEmpty ? [] : self.connectWhenAllowed(now)
    case .connecting:
      self.hasNews = true
      return []
    case .idle, .ready, .shutdown:
      return []
    }
  }

  /// The time that was asked for has come; too early or too late does no harm.
  mutating func wake(now: Instant) -> [Action] {
    self.alarm = nil
    switch self.state {
    case .idle, .transientFailure: return self.waiting.isEmpty ? [] : self.connectWhenAllowed(now)
    case .connecting, .ready, .shutdown: return []
    }
  }

  mutating func shutdown() -> [Action] {
    if case .shutdown = self.state { return [] }
    self.state = .shutdown
    let calls = self.waiting.map(\.id)
    self.waiting = []
    return [.report(.shutdown), .fail(calls, Self.shutdownError)]
  }

  private mutating func connectWhenAllowed(_ now: Instant) -> [Action] {
    if let earliest = self.earliest, earliest > now {
      // One timer for all calls that wait.
      if self.alarm == earliest { return [] }
      self.alarm = earliest
      return [.wake(at: earliest)]
    }
    self.lastConnection += 1
    self.earliest = nil
    self.hasNews = false
    self.state = .connecting(self.lastConnection, started: now)
    return [
      .report(.connecting),
      .connect(self.lastConnection, atMost: self.backoff.longestAttempt),
    ]
  }

  static let shutdownError = RPCError(
    code: .unavailable, message: "The channel is shut down.")
}

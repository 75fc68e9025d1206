internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// The state machine of a channel (C1 to C5): a value that receives events and returns actions.
///
/// One connection is used at a time. Connections that were invalidated, drained or superseded no
/// longer concern the machine. An attempt to connect and the resulting connection have the same ID.
///
/// A silent connection (W4) takes no new calls. New calls wait for an attempt beside it, or until
/// the connection recovers. Calls that run on a stalled connection also cause attempts. While calls
/// use the other way, a trial may return them to the default way (W7).
struct ChannelMachine: Sendable {
  typealias Instant = ContinuousClock.Instant
  typealias CallID = UInt64
  typealias ConnectionID = UInt64

  enum Action: Sendable {
    /// Start an attempt, limited to this duration.
    case connect(ConnectionID, atMost: Duration)
    /// Call ``wake(isBusy:now:)`` at this instant.
    case wake(at: Instant)
    /// These calls may use the connection.
    case resume([CallID], on: ConnectionID)
    case fail([CallID], RPCError)
    /// These calls wait for connectivity: no connection can be used or made for the moment.
    case tellWaiting([CallID])
    /// The connection takes no more calls. Calls in flight continue.
    case retire(ConnectionID)
    case report(ConnectivityState)
  }

  /// The connection that calls use.
  struct Current {
    var id: ConnectionID
    var started: Instant
    /// Whether the connection currently has no path (I10). Calls wait until the path is back or
    /// lost.
    var isSuspended = false
    /// Whether the peer is silent after a timeout (W4). Calls wait until it answers, or until an
    /// attempt beside the connection ends.
    var holdsCalls = false
    /// When the connection stalled, or `nil` if it has not.
    var stalledSince: Instant?
    /// The trial of the default way beside this connection.
    var trial: (id: ConnectionID, started: Instant)?

    var takesCalls: Bool { !self.isSuspended && !self.holdsCalls }
  }

  enum State {
    case idle
    /// `beside` is the silent connection that the attempt may replace.
    case connecting(ConnectionID, started: Instant, beside: Current?)
    case ready(Current)
    case transientFailure
    case shutdown
  }

  var state = State.idle
  private var backoff: ConnectionBackoff
  /// Before this instant, no attempt starts and no connection holds calls.
  private(set) var earliest: Instant?
  /// Whether the network improved during the attempt. If so, a failure does not predict the next
  /// attempt.
  private var hasNews = false
  /// The instant of the ``wake(isBusy:now:)`` that waiting calls need.
  private var alarm: Instant?
  /// The waiting calls, in order. `forReady` means that the call waits through failures
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

  /// The connection that calls use, or `nil` if none is ready.
  var ready: ConnectionID? {
    if case .ready(let current) = self.state, current.takesCalls { current.id } else { nil }
  }

  /// The connection in use, even if calls wait for its path, or `nil` without one.
  var current: ConnectionID? {
    if case .ready(let current) = self.state { current.id } else { nil }
  }

  /// Whether the attempt may still become the connection: calls wait for it, or it is the trial.
  func isConnecting(_ id: ConnectionID) -> Bool {
    switch self.state {
    case .connecting(id, _, _): true
    case .ready(let current): current.trial?.id == id
    case .idle, .connecting, .transientFailure, .shutdown: false
    }
  }

  /// Returns the silent connection beside which the attempt runs, or `nil` without one.
  func silentConnection(beside id: ConnectionID) -> Current? {
    if case .connecting(id, _, let silent) = self.state { silent } else { nil }
  }

  // MARK: Calls

  /// Adds a call that waits for a connection.
  mutating func wait(_ call: CallID, forReady: Bool, now: Instant) -> [Action] {
    switch self.state {
    case .ready(let current) where current.takesCalls:
      return [.resume([call], on: current.id)]
    case .ready(let current) where !current.isSuspended:
      self.waiting.append((call, forReady))
      return self.connect(beside: current, now)
    case .shutdown:
      return [.fail([call], Self.shutdownError)]
    case .connecting:
      self.waiting.append((call, forReady))
      return []
    case .ready:
      self.waiting.append((call, forReady))
      return [.tellWaiting([call])]
    case .idle, .transientFailure:
      self.waiting.append((call, forReady))
      return self.connectWhenAllowed(now)
    }
  }

  /// Removes a call that no longer waits.
  mutating func cancel(_ call: CallID) {
    self.waiting.removeAll { $0.id == call }
  }

  // MARK: Connections

  /// Handles the server's SETTINGS. Has no effect if the attempt was given up in the meantime.
  mutating func connected(_ id: ConnectionID) -> [Action] {
    switch self.state {
    case .connecting(id, let started, let silent):
      self.state = .ready(Current(id: id, started: started))
      self.hasNews = false
      self.earliest = nil
      self.backoff.reset()
      return [.report(.ready)] + self.resumeAll(on: id) + Self.retire(silent)
    case .ready(let former):
      guard let trial = former.trial, trial.id == id else { return [] }
      self.state = .ready(Current(id: id, started: trial.started))
      return self.resumeAll(on: id) + Self.retire(former)
    case .idle, .connecting, .transientFailure, .shutdown:
      return []
    }
  }

  mutating func resumeAll(on id: ConnectionID) -> [Action] {
    defer { self.waiting = [] }
    return self.waiting.isEmpty ? [] : [.resume(self.waiting.map(\.id), on: id)]
  }

  private static func retire(_ current: Current?) -> [Action] {
    current.map { [.retire($0.id)] } ?? []
  }

  /// Suspends calls while the connection has no path, and resumes them when the path is back.
  mutating func suspend(_ id: ConnectionID, _ isSuspended: Bool, now: Instant) -> [Action] {
    switch self.state {
    case .ready(var current) where current.id == id:
      current.isSuspended = isSuspended
      self.state = .ready(current)
      if current.takesCalls { return self.resumeAll(on: id) }
      return isSuspended || self.waiting.isEmpty ? [] : self.connect(beside: current, now)
    case .connecting(let attempt, let started, var silent?) where silent.id == id:
      silent.isSuspended = isSuspended
      self.state = .connecting(attempt, started: started, beside: silent)
      return []
    case .idle, .connecting, .ready, .transientFailure, .shutdown:
      return []
    }
  }

  // MARK: Ends

  /// Handles a failed attempt.
  ///
  /// - Parameters:
  ///   - atOnce: Whether the next call may retry without a pause, because nothing was sent on the
  ///     network (C5, C8).
  ///   - refused: Calls that stop waiting, because they may use none of the available paths (C8).
  ///   - spared: Calls that arrived after the decision that no waiting call could use a path.
  ///     Another attempt is made for them.
  mutating func failed(
    _ id: ConnectionID, _ error: RPCError, atOnce: Bool, refused: [CallID: RPCError] = [:],
    spared: Set<CallID> = [], now: Instant, random: Double
  ) -> [Action] {
    guard case .connecting(id, let started, let silent) = self.state else { return [] }
    self.waiting.removeAll { refused[$0.id] != nil }
    let refusals = refused.sorted { $0.key < $1.key }.map { Action.fail([$0.key], $0.value) }
    var next = started + self.backoff.next(random: random)
    if self.hasNews {
      (self.hasNews, next) = (false, now)
      self.backoff.reset()
    }
    if let silent {
      // Waiting calls use the silent connection. The next attempt is for all that run on it.
      self.earliest = next
      return refusals + self.goBack(to: silent) + [.wake(at: next)]
    }
    self.state = .transientFailure
    let calls = self.waiting.filter { !$0.forReady && !spared.contains($0.id) }.map(\.id)
    self.waiting.removeAll { calls.contains($0.id) }
    // Calls that wait through failures must not cause a busy loop.
    self.earliest = atOnce && self.waiting.isEmpty || !spared.isEmpty ? nil : next
    return [.report(.transientFailure)] + refusals
      + [.fail(calls, error)] + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// Handles a connection that broke while calls were using it.
  mutating func lost(_ id: ConnectionID, now: Instant) -> [Action] {
    self.forgetSilent(id)
    guard case .ready(let current) = self.state, current.id == id else { return [] }
    self.state = .transientFailure
    // Reconnect immediately, unless the server closes every connection: then the backoff applies.
    self.earliest = current.started + self.backoff.next(random: 0)
    self.backoff.reset()
    return [.report(.transientFailure)]
      + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// Forgets a silent connection that has ended. Calls keep waiting for the attempt beside it.
  private mutating func forgetSilent(_ id: ConnectionID) {
    guard case .connecting(let attempt, let started, let silent?) = self.state, silent.id == id
    else { return }
    self.state = .connecting(attempt, started: started, beside: nil)
  }

  /// Handles the orderly end of a connection: it was idle for too long, or the server is going
  /// away.
  ///
  /// - Parameter wasUsed: Whether a call used the connection. If not, the backoff applies, as for
  ///   GOAWAY right after SETTINGS.
  mutating func closed(_ id: ConnectionID, wasUsed: Bool, now: Instant) -> [Action] {
    self.forgetSilent(id)
    guard case .ready(let current) = self.state, current.id == id else { return [] }
    self.state = .idle
    self.earliest = wasUsed ? nil : current.started + self.backoff.next(random: 0)
    self.backoff.reset()
    return [.report(.idle)] + (self.waiting.isEmpty ? [] : self.connectWhenAllowed(now))
  }

  /// Handles the loss of the connection's or attempt's network. The next call reconnects
  /// immediately (C3). An attempt beside a silent connection starts over.
  mutating func invalidated(_ id: ConnectionID, now: Instant) -> [Action] {
    self.forgetSilent(id)
    var silent: Current?
    switch self.state {
    case .ready(let current) where current.id == id: break
    case .connecting(id, _, let beside): silent = beside
    case .idle, .connecting, .ready, .transientFailure, .shutdown: return []
    }
    self.state = .transientFailure
    self.earliest = nil
    self.backoff.reset()
    return [.report(.transientFailure)]
      + (silent == nil && self.waiting.isEmpty ? [] : self.connect(beside: silent, now))
  }

  // MARK: Time and the network

  /// Handles a path that became satisfied or was replaced. An attempt that failed before may
  /// succeed now (C4).
  mutating func pathSatisfied(isBusy: Bool, now: Instant) -> [Action] {
    switch self.state {
    case .ready, .transientFailure:
      self.earliest = nil
      self.backoff.reset()
      return self.retry(isBusy: isBusy, now)
    case .connecting:
      self.hasNews = true
      return []
    case .idle, .shutdown:
      return []
    }
  }

  /// Handles a wake-up. Early or late calls do no harm.
  ///
  /// - Parameter isBusy: Whether calls use the current connection.
  mutating func wake(isBusy: Bool, now: Instant) -> [Action] {
    self.alarm = nil
    return self.retry(isBusy: isBusy, now)
  }

  /// Starts an attempt if calls wait for one, or use a stalled connection.
  private mutating func retry(isBusy: Bool, _ now: Instant) -> [Action] {
    switch self.state {
    case .idle, .transientFailure: self.waiting.isEmpty ? [] : self.connectWhenAllowed(now)
    case .ready: isBusy ? self.connectBesideStalled(now) : []
    case .connecting, .shutdown: []
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
      let reported = Action.tellWaiting(self.waiting.map(\.id))
      // One timer serves all waiting calls.
      if self.alarm == earliest { return [reported] }
      self.alarm = earliest
      return [.wake(at: earliest), reported]
    }
    self.earliest = nil
    return self.connect(beside: nil, now)
  }

  mutating func connect(beside silent: Current?, _ now: Instant) -> [Action] {
    let id = self.newConnection()
    self.hasNews = false
    var silent = silent
    // The new attempt replaces the trial.
    silent?.trial = nil
    self.state = .connecting(id, started: now, beside: silent)
    return [.report(.connecting), .connect(id, atMost: self.backoff.maxAttempt)]
  }

  mutating func newConnection() -> ConnectionID {
    self.lastConnection += 1
    return self.lastConnection
  }

  static let shutdownError = RPCError(
    code: .unavailable, message: "The channel is shut down.")
}

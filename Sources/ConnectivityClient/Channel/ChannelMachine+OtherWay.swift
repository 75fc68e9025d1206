// Silent connections (W4), and the return from the other way (W7).
extension ChannelMachine {
  /// Handles a timeout on a silent connection. The next call starts an attempt beside that
  /// connection, and waits. Has no effect during the backoff after a failed attempt.
  mutating func holdCalls(on id: ConnectionID, now: Instant) {
    guard case .ready(var current) = self.state, current.id == id, self.mayConnect(now) else {
      return
    }
    current.holdsCalls = true
    self.state = .ready(current)
  }

  /// Whether the backoff is over.
  private func mayConnect(_ now: Instant) -> Bool { self.earliest ?? now <= now }

  /// Handles a stall. If calls use the connection, starts an attempt beside it once the backoff is
  /// over. Otherwise the next call does.
  mutating func stalled(_ id: ConnectionID, isBusy: Bool, now: Instant) -> [Action] {
    self.holdCalls(on: id, now: now)
    switch self.state {
    case .ready(var current) where current.id == id:
      current.stalledSince = now
      self.state = .ready(current)
      return isBusy ? self.connectBesideStalled(now) : []
    case .connecting(let attempt, let started, var silent?) where silent.id == id:
      silent.stalledSince = now
      self.state = .connecting(attempt, started: started, beside: silent)
      return []
    case .idle, .connecting, .ready, .transientFailure, .shutdown:
      return []
    }
  }

  /// Starts an attempt beside the connection in use if that has stalled, and the backoff is over.
  mutating func connectBesideStalled(_ now: Instant) -> [Action] {
    guard case .ready(let current) = self.state, current.stalledSince != nil, !current.isSuspended,
      self.mayConnect(now)
    else { return [] }
    return self.connect(beside: current, now)
  }

  /// Handles connd's advice that the connection is silent (E2). If calls use it, starts an attempt
  /// beside it immediately, because connd compares both connections (contrast, E2). Has no effect
  /// during the backoff after an attempt that failed.
  mutating func silent(_ id: ConnectionID, isBusy: Bool, now: Instant) -> [Action] {
    guard isBusy, case .ready(let current) = self.state, current.id == id, !current.isSuspended,
      current.trial == nil, self.mayConnect(now)
    else { return [] }
    return self.stalled(id, isBusy: isBusy, now: now)
  }

  /// Handles an answer from the peer of a silent connection. Waiting calls use that connection
  /// again.
  mutating func recovered(_ id: ConnectionID) -> [Action] {
    switch self.state {
    case .ready(var current) where current.id == id:
      (current.holdsCalls, current.stalledSince) = (false, nil)
      self.state = .ready(current)
      return current.takesCalls ? self.resumeAll(on: id) : []
    case .connecting(_, _, var silent?) where silent.id == id:
      silent.stalledSince = nil
      return self.goBack(to: silent)
    case .idle, .connecting, .ready, .transientFailure, .shutdown: return []
    }
  }

  /// Gives up the attempt beside a silent connection. That connection takes calls again.
  mutating func goBack(to silent: Current) -> [Action] {
    var current = silent
    current.holdsCalls = false
    self.state = .ready(current)
    return [.report(.ready)] + (current.takesCalls ? self.resumeAll(on: current.id) : [])
  }

  /// Starts an attempt by the default way, beside the connection in use (W7).
  ///
  /// - Returns: The trial's ID, or `nil` if no connection is in use or another trial is running.
  mutating func beginTrial(now: Instant) -> ConnectionID? {
    guard case .ready(var current) = self.state, current.trial == nil else { return nil }
    let id = self.newConnection()
    current.trial = (id, now)
    self.state = .ready(current)
    return id
  }

  /// Ends a trial that failed, or that connected only after a retransmission.
  mutating func trialFailed(_ id: ConnectionID) {
    guard case .ready(var current) = self.state, current.trial?.id == id else { return }
    current.trial = nil
    self.state = .ready(current)
  }
}

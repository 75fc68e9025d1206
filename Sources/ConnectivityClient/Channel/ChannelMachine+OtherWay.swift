// Stalled connections (W4), and the return from the other way (W7).
extension ChannelMachine {
  /// Marks a connection as stalled. The next call starts an attempt beside it (W4).
  mutating func stalled(_ id: ConnectionID) {
    guard case .ready(var current) = self.state, current.id == id else { return }
    current.isStalled = true
    self.state = .ready(current)
  }

  /// Handles connd's advice that the connection is silent (E2). If calls run on it, starts an
  /// attempt beside it immediately, because connd compares both connections (contrast, E2).
  mutating func silent(_ id: ConnectionID, isBusy: Bool, now: Instant) -> [Action] {
    guard isBusy, case .ready(var current) = self.state, current.id == id, !current.isSuspended,
      current.trial == nil
    else { return [] }
    current.isStalled = true
    return self.connect(beside: current, now)
  }

  /// Handles an answer from the peer of a stalled connection. Waiting calls use that connection
  /// again.
  mutating func recovered(_ id: ConnectionID) -> [Action] {
    switch self.state {
    case .ready(var current) where current.id == id:
      current.isStalled = false
      self.state = .ready(current)
      return current.takesCalls ? self.resumeAll(on: id) : []
    case .connecting(_, _, let stalled?) where stalled.id == id: return self.goBack(to: stalled)
    case .idle, .connecting, .ready, .transientFailure, .shutdown: return []
    }
  }

  /// Gives up the attempt beside a stalled connection, which takes calls again.
  mutating func goBack(to stalled: Current) -> [Action] {
    var current = stalled
    current.isStalled = false
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

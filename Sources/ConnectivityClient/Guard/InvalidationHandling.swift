internal import Connectivity
internal import ConnectivityMonitor
internal import Logging

/// How a channel handles an invalidation of its connection.
@nonexhaustive public enum InvalidationHandling: Sendable {
  /// Calls in flight fail immediately with `UNAVAILABLE`, and the connection is closed (C2). This
  /// is the default.
  case destroy
  /// Calls in flight continue as long as they can, and new calls use a new connection. If the
  /// connection's address, link or network is gone, the connection is destroyed.
  case drain
  /// Calls the closure each time. It runs on a thread of the library or NIO and must not block.
  case custom(@Sendable (InvalidationError) -> Action)

  /// The action for one connection.
  @nonexhaustive public enum Action: Hashable, Sendable {
    /// The connection's calls fail with `UNAVAILABLE`.
    case destroy
    /// The connection's calls continue, and new calls use a new connection.
    case drain
    /// The connection stays in use.
    case keep
  }

  /// Returns the action for an invalidation. Unless a closure decides, advice keeps the connection,
  /// and `drain` does not destroy it.
  func action(for invalidation: InvalidationError) -> Action {
    switch (self, invalidation.severity) {
    case (.custom(let choose), _): choose(invalidation)
    case (_, .advise): .keep
    case (_, .drain): .drain
    case (.drain, .destroy): invalidation.isSurvivable ? .drain : .destroy
    case (.destroy, .destroy): .destroy
    }
  }
}

extension Logger {
  /// Logs that a connection is dead or in doubt.
  func log(
    _ invalidation: InvalidationError, cause: String, _ action: InvalidationHandling.Action,
    of connection: Metadata
  ) {
    self.info(
      "the connection is no longer viable",
      metadata: connection.merging([
        "reason": "\(invalidation.reason.rawValue)",
        "severity": "\(invalidation.severity.rawValue)", "cause": "\(cause)",
        "action": "\(action)",
      ]) { $1 })
  }
}

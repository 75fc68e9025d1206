package import Connectivity

extension FlowEvent {
  /// Creates the announcement of a verdict.
  ///
  /// - Parameter path: The current path to the remote address.
  package static func invalidation(
    _ verdict: FlowTracker.Verdict, _ cause: ChangeCause, _ path: KernelPath
  ) -> Self {
    .invalidation(
      InvalidationError(
        reason: verdict.reason, severity: verdict.severity, cause: cause, path: path,
        socket: verdict.evidence.map { SocketTestimony($0) }))
  }

  /// The advice to move to the path of a new connection, instead of the end of the flow (I12).
  package var asMigration: Self {
    guard case .invalidation(var invalidation) = self else { return self }
    (invalidation.severity, invalidation.migrates) = (.advise, true)
    return .invalidation(invalidation)
  }
}

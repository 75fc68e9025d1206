internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore

/// Implements rule C8.
extension Connection {
  /// Checks whether a call may use the connection's network.
  ///
  /// - Parameter deadline: When the call ends.
  /// - Throws: `RPCError` if the call may not use it (C8).
  func check(
    _ access: NetworkAccess, until deadline: ContinuousClock.Instant?
  ) async throws(RPCError) {
    if self.isLocal { return }
    if self.path == nil {
      // The connection was made without connd's answer, because connd did not answer in time.
      let maxWait = ConnectionGuard.maxWait(isRestricted: true)
      let rest = deadline.map { ContinuousClock.now.duration(to: $0) } ?? maxWait
      _ = await self.flow?.answer(within: min(maxWait, rest))
    }
    if let refusal = access.refusal(of: self.path ?? .unknown) { throw RPCError(refusal) }
  }
}

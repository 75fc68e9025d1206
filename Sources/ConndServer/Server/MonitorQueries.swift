import GRPCCore
import UnixTransport

/// Sends clients' queries to the monitor thread.
struct MonitorQueries: Sendable {
  let monitor: Monitor
  let limiter: ConnectionLimiter

  /// Sends a query and waits for the answer, unless the client cancels.
  func answer<Answer: Sendable>(
    for caller: PeerCredentials, _ kind: @Sendable (Reply<Answer>) -> KernelQuery.Kind
  ) async throws -> Answer {
    try await self.admitted(for: caller) { try await self.admittedAnswer(for: caller, kind) }
  }

  /// Runs work that counts as one pending query of the caller.
  ///
  /// - Throws: RESOURCE_EXHAUSTED if the caller has too many.
  func admitted<Answer>(
    for caller: PeerCredentials, _ work: () async throws -> Answer
  ) async throws -> Answer {
    let charge = try self.limiter.chargeQuestion(to: caller)
    defer { withExtendedLifetime(charge) {} }
    return try await work()
  }

  /// Sends a query that is part of already admitted work.
  func admittedAnswer<Answer: Sendable>(
    for caller: PeerCredentials, _ kind: @Sendable (Reply<Answer>) -> KernelQuery.Kind
  ) async throws -> Answer {
    let answer = try await self.reply(to: caller, kind)
    // Preparing the answers of all users' calls would delay the exit.
    if self.monitor.isStopping { throw RPCError.stopping }
    return answer
  }

  /// Sends a query that changes something. The caller learns what was done even if connd is
  /// stopping.
  func change<Answer: Sendable>(
    for caller: PeerCredentials, _ kind: @Sendable (Reply<Answer>) -> KernelQuery.Kind
  ) async throws -> Answer {
    try await self.admitted(for: caller) { try await self.reply(to: caller, kind) }
  }

  private func reply<Answer: Sendable>(
    to caller: PeerCredentials, _ kind: @Sendable (Reply<Answer>) -> KernelQuery.Kind
  ) async throws -> Answer {
    let id = KernelQuery.nextID()
    let answer = await withRPCCancellationHandler {
      await self.monitor.ask {
        .query(KernelQuery(id: id, account: caller.account, kind: kind($0)))
      }
    } onCancelRPC: {
      self.monitor.submit(.drop(id, of: caller.account))
    }
    guard let answer else { throw RPCError.stopping }
    return answer
  }
}

extension DiscretionaryTask {
  /// The network that running work uses. The work yields when it may no longer use the network. Any
  /// number of tasks can wait until the run is over. Tasks that still wait then are cancelled.
  public struct Network: Sendable {
    let gate: NetworkGate
    let config: Config

    /// Waits at a safe point until the work may continue. Returns immediately if it may continue
    /// now.
    ///
    /// - Throws: `CancellationError` if the task was cancelled or the run is over;
    ///   ``DiscretionaryTask/ExpiredError``.
    public func wait(isolation: isolated (any Actor)? = #isolation) async throws {
      try await self.gate.wait(for: .free)
    }

    /// Runs `operation`. Cancels it when the network may no longer be used, and restarts it when
    /// the network may be used again. For work without safe points, such as one long download.
    ///
    /// Losing the network without a replacement does not cancel `operation`: its connections report
    /// that themselves. If `operation` fails because a forbidden network replaced its network, it
    /// is also restarted. Therefore `operation` must tolerate restarts. Its gRPC calls do not start
    /// on forbidden networks (C8), so nothing is sent there during a change. Other connections need
    /// a rule of their own (``ConnectivityGuardHandler/Config/access``).
    ///
    /// - Returns: The result of `operation`.
    /// - Throws: The error of `operation` on a network that it may use; `CancellationError` if the
    ///   task was cancelled while it waited; ``DiscretionaryTask/ExpiredError``.
    public func restarting<Result: Sendable>(
      _ operation: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
      while true {
        try await self.gate.wait(for: .free)
        let end = await self.attempt(operation)
        do {
          return try end.result.get()
        } catch {
          if Task.isCancelled { throw error }
          guard try await self.mayNotBeUsed(end.wasCancelled, error) else { throw error }
        }
      }
    }

    private func attempt<Result: Sendable>(
      _ operation: @escaping @Sendable () async throws -> Result
    ) async -> (result: Swift.Result<Result, any Error>, wasCancelled: Bool) {
      let access = self.gate.isOpenForGood ? .unrestricted : self.config.allowed
      return await withTaskGroup(of: Swift.Result<Result, any Error>?.self) { group in
        group.addTask {
          await withCallSettings {
            $0.access = $0.access.intersection(access)
          } operation: {
            do { return .success(try await operation()) } catch { return .failure(error) }
          }
        }
        group.addTask {
          try? await self.gate.wait(for: .forbidden)
          return nil
        }
        var result = Swift.Result<Result, any Error>.failure(CancellationError())
        var wasCancelled = false
        var isFirst = true
        for await end in group {
          if let end { result = end } else { wasCancelled = isFirst }
          isFirst = false
          group.cancelAll()
        }
        return (result, wasCancelled)
      }
    }

    /// Returns whether work failed because it may not, or may no longer, use its network.
    ///
    /// The work's connections may learn of a change before the gate does, so connd is queried
    /// again. If connd's path forbids the work, waits until the gate has received a new path, too.
    private func mayNotBeUsed(_ wasCancelled: Bool, _ error: any Error) async throws -> Bool {
      let news = self.gate.news
      if wasCancelled || self.gate.isForbidden { return true }
      let path = await self.config.monitor.unlimited.currentPath
      switch self.config.verdict(on: path) {
      case .forbidden: break
      // A call was refused because connd was not running. connd may run again.
      case .free:
        return self.config.allowed.whenUnknown == .refuse
          && NetworkUnavailableError.Reason(of: error) == .unknown
      case .absent(let refusal): guard refusal?.reason == .unknown else { return false }
      }
      try await self.gate.wait(for: .news(since: news))
      return true
    }
  }
}

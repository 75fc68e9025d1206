extension DiscretionaryTask {
  /// The network of work that is under way, which yields when it may no longer be used. For any number of tasks at a time, until
  /// the run is over: who waits for it then is cancelled.
  public struct Network: Sendable {
    let gate: NetworkGate
    let configuration: Configuration

    /// A safe point of the work: returns at once where it may go on, else when it may.
    ///
    /// - Throws: `CancellationError` where the task was cancelled, or the run is over; ``DiscretionaryTask/Expired``.
    public func wait(isolation: isolated (any Actor)? = #isolation) async throws {
      try await self.gate.wait(for: .free)
    }

    /// Runs `operation`, and cancels it when the network may no longer be used; when it may again, it is begun anew. For work
    /// without safe points of its own, such as one long download.
    ///
    /// A network that is lost, and none that comes instead, does not cancel it: its connections say what becomes of them. But where
    /// `operation` fails because its network made room for one that it may not use, it is begun anew as well. It must bear
    /// that, as far as it has come. gRPC calls in it are not even started where they may not be (C8), so that nothing is sent in the
    /// moment of a change; other connections say so themselves (``ConnectivityGuardHandler/Configuration/access``).
    ///
    /// - Returns: What `operation` returns.
    /// - Throws: What `operation` throws on a network that it may use; `CancellationError` where the task was cancelled while it
    ///   waits; ``DiscretionaryTask/Expired``.
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
          guard try await self.mayNotBeUsed(end.wasCancelled) else { throw error }
        }
      }
    }

    private func attempt<Result: Sendable>(
      _ operation: @escaping @Sendable () async throws -> Result
    ) async -> (result: Swift.Result<Result, any Error>, wasCancelled: Bool) {
      let access = self.gate.isOpenForGood ? .unrestricted : self.configuration.allowed
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

    /// Whether work that has failed did so on a network that it may not use, or may no longer.
    ///
    /// Its connections may have heard of that before the gate: connd is asked anew, and what it says of another path, the gate
    /// hears as well.
    private func mayNotBeUsed(_ wasCancelled: Bool) async throws -> Bool {
      let news = self.gate.news
      if wasCancelled || self.gate.isForbidden { return true }
      let path = await self.configuration.monitor.unlimited.currentPath
      guard case .forbidden = self.configuration.verdict(on: path) else { return false }
      try await self.gate.wait(for: .news(since: news))
      return true
    }
  }
}

internal import Connectivity
internal import GRPCCore
private import NIOCore
private import Synchronization

// Connections for calls.
extension Channel {
  /// Returns the ready connection, or `nil` if none is ready. The call must release the connection.
  func readyConnection() -> Connection? {
    let (connection, isAway) = self.state.withLock { state -> (Connection?, Bool) in
      guard let id = state.machine.ready, let connection = state.connections[id] else {
        return (nil, false)
      }
      connection.hold()
      return (connection, state.otherWay != nil)
    }
    guard isAway, let connection else { return connection }
    return self.staysAway(on: connection) ? connection : nil
  }

  /// Whether a call that got the connection has to wait again, because the peer is silent (W4).
  func holdsCalls(_ connection: Connection) async -> Bool {
    guard await connection.examine() else { return false }
    return self.state.withLock { $0.machine.ready != connection.id }
  }

  /// Returns the connection, and makes one if necessary. The call must release the connection.
  ///
  /// - Parameters:
  ///   - options: Whether the call waits through failures.
  ///   - settings: The networks that the call may use (C8), and the closure to call if the call
  ///     waits.
  ///   - deadline: When the call ends, even while it waits. If the method may be retried, gRPC's
  ///     own executors check the deadline only once there is a stream.
  ///   - log: Records that the call has to wait.
  /// - Throws: `RPCError` if no connection could be made in time; `CancellationError`.
  func connection(
    _ options: CallOptions, _ settings: CallSettings, until deadline: ContinuousClock.Instant?,
    _ log: CallLog?
  ) async throws -> Connection {
    let call = self.state.withLock { state in
      state.lastCall += 1
      return state.lastCall
    }
    log?.waiting()
    let forReady = options.waitForReady ?? false
    let alarm = deadline.map { deadline in
      self.settings.eventLoop.scheduleTask(
        in: TimeAmount(ContinuousClock.now.duration(to: deadline))
      ) {
        self.giveUp(call, Self.waitedTooLong)
      }
    }
    defer { alarm?.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { waiter in
        self.update { state in
          state.waiters[call] = Waiter(
            continuation: waiter, access: settings.access, onWait: settings.onWait)
          return state.machine.wait(call, forReady: forReady, now: .now)
            + (state.hasNoPath ? [.tellWaiting([call])] : [])
        }
        // The call may have been cancelled, or its deadline passed, before it started to wait.
        if Task.isCancelled { self.giveUp(call, CancellationError()) }
        if let deadline, deadline <= .now { self.giveUp(call, Self.waitedTooLong) }
      }
    } onCancel: {
      self.giveUp(call, CancellationError())
    }
  }

  private static let waitedTooLong = RPCError(
    code: .deadlineExceeded, message: "The call waited for a connection until its deadline.")

  private func giveUp(_ call: UInt64, _ error: any Error) {
    let waiter = self.state.withLock { state in
      state.machine.cancel(call)
      let waiter = state.waiters.removeValue(forKey: call)
      // The attempt continues, for later calls with the same access rules.
      if let waiter { state.lastAccess = waiter.access }
      return waiter
    }
    waiter?.continuation.resume(throwing: error)
  }

  /// Retires a connection on which gRPC's transport refused to start a call.
  func refused(_ connection: Connection) {
    connection.drain()
    self.update { $0.closed(connection) }
  }
}

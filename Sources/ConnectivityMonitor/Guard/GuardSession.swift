private import ConnectivityProtocol
internal import GRPCCore
private import Synchronization

/// Maintains the stream of a ``FlowGuard`` to connd, by the rules described there: connects,
/// registers flows, reads events, and reconnects.
package final class GuardSession: Sendable {
  private struct State {
    var flows = GuardedFlows()
    /// Wakes the task that sends requests in the current stream, or the one that waits for a flow.
    var wake: AsyncStream<Void>.Continuation?
  }

  private let socket: String
  private let connector: Connector
  private let state = Mutex(State())

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  package init(socket: String, through connector: Connector) {
    self.socket = socket
    self.connector = connector
  }

  package func change(_ body: (inout GuardedFlows) -> Void) {
    let wake = self.state.withLock { state in
      body(&state.flows)
      return state.wake
    }
    wake?.yield()
  }

  /// A receiver of events. The next event is not read before it returns. If it throws, the guard
  /// ends.
  package typealias Receiver = @Sendable (GuardEvent) async throws -> Void

  /// Runs until the task is cancelled.
  ///
  /// - Throws: `CancellationError`, or the error of the receiver.
  package func run(_ tell: @escaping Receiver) async throws {
    try await self.connector.repeating(at: self.socket) {
      try await self.report(self.state.withLock { $0.flows.rested() }, to: tell)
      try await self.waitForFlow()
      try await self.connection(tell)
    } lost: { error in
      let (event, pause) = self.state.withLock { $0.flows.lost(error) }
      if let event { try await tell(event) }
      return pause
    }
  }

  private func report(_ event: GuardEvent?, to tell: Receiver) async throws {
    if let event { try await Connector.ReceiverError.marking { try await tell(event) } }
  }

  /// Waits until there is a flow. Only a change of the flows wakes the task.
  private func waitForFlow() async throws {
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    self.state.withLock { $0.wake = wake }
    wake.yield()
    for await _ in changes where self.state.withLock({ !$0.flows.isEmpty }) { return }
    throw CancellationError()
  }

  /// Maintains one connection until it ends.
  private func connection(_ tell: @escaping Receiver) async throws {
    // One pending wake-up covers all changes that are made before the task runs.
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    try await self.connector.withCall(
      Connectivity_V1_Connectivity.Method.Guard.descriptor, at: self.socket
    ) { call in
      self.state.withLock { state in
        state.flows.connecting()
        state.wake = wake
      }
      wake.yield()
      try await withThrowingTaskGroup(of: Void.self) { group in
        defer { group.cancelAll() }
        group.addTask {
          for await _ in changes {
            for request in self.state.withLock({ $0.flows.pendingRequests() }) {
              try await call.send(request)
            }
          }
        }
        try await call.receive {
          try await self.report(self.state.withLock { $0.flows.accepted() }, to: tell)
        } _: { message in
          for event in try self.state.withLock({ try $0.flows.received(message) }) {
            // Remove the flows, because a connd in another network namespace cannot guard them.
            if case .absent(.elsewhere) = event { wake.yield() }
            try await self.report(event, to: tell)
          }
        }
      }
    }
  }
}

internal import ConnectivityProtocol
internal import GRPCCore
private import Synchronization

/// Maintains the stream to connd of a ``FlowGuard``, by the rules described there: connects,
/// registers and reads, and reconnects.
package final class GuardSession: Sendable {
  private struct State {
    var flows = GuardedFlows()
    /// Wakes the task that sends requests in the current stream, or the one that waits for a flow.
    var wake: AsyncStream<Void>.Continuation?
  }

  private let socket: String
  private let connector: any Connector
  private let state = Mutex(State())

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  package init(socket: String, through connector: any Connector) {
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

  /// Receives the events. The next event is not read before it returns. If it throws, the guard
  /// ends.
  package typealias Receiver = @Sendable (GuardEvent) async throws -> Void

  /// Runs until it is cancelled.
  ///
  /// - Throws: `CancellationError`, or the error of the receiver.
  package func run(_ tell: @escaping Receiver) async throws {
    while true {
      try await self.waitForFlow()
      let error = await self.connection(tell)
      let (event, pause) = self.state.withLock { $0.flows.lost(error) }
      if let event { try await tell(event) }
      try await Task.sleep(for: pause)
      if let event = self.state.withLock({ $0.flows.rested() }) { try await tell(event) }
    }
  }

  /// Returns when there is a flow. Only a change of the flows wakes it.
  private func waitForFlow() async throws {
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    self.state.withLock { $0.wake = wake }
    wake.yield()
    for await _ in changes where self.state.withLock({ !$0.flows.isEmpty }) { return }
    throw CancellationError()
  }

  /// Maintains one connection until it ends, and returns the reason.
  private func connection(_ tell: @escaping Receiver) async -> any Error {
    // One pending wake-up covers all changes until then.
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    do {
      try await self.connector.withClient(of: self.socket) { connd in
        self.state.withLock { state in
          state.flows.connecting()
          state.wake = wake
        }
        wake.yield()
        try await connd.guard { writer in
          for await _ in changes {
            try await writer.write(contentsOf: self.state.withLock { $0.flows.requests() })
          }
        } onResponse: { response in
          _ = try response.accepted.get()
          if let event = self.state.withLock({ $0.flows.accepted() }) {
            try await tell(event)
          }
          for try await message in response.messages {
            if let event = try self.state.withLock({ try $0.flows.received(message) }) {
              // Remove the flows, because a connd in another network namespace cannot guard them.
              if case .absent(.elsewhere) = event { wake.yield() }
              try await tell(event)
            }
          }
        }
      }
      return ConndError.notThere("connd ended the stream")
    } catch {
      return await self.connector.reading(error, of: self.socket)
    }
  }
}

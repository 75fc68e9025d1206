internal import ConnectivityProtocol
private import EventLoopExecutor
internal import GRPCCore
private import Synchronization

/// Has connd watch connections: one stream for many flows, kept up across restarts of connd.
///
/// 1. Each flow is answered: by its path, or by an invalidation or a refusal, with which it is guarded no longer.
/// 2. A connection that is lost is told once, tried again after 100 ms, then in growing pauses of at most 2 s. connd
///    is told of all flows anew, with the paths that it named before, and answers each anew: what changed meanwhile
///    is not lost.
/// 3. Where there is no flow, nobody looks for connd: a guard that has no connection then makes none, and waits without
///    a timer. That connd is not there, if that was told, is taken back (`resumed`), and told again if the next flow
///    finds it so. A connection that there is stays.
/// 4. Events are fetched as they are asked for; ``add(_:id:)`` and ``remove(_:)`` never wait.
///
/// It ends with its last reference.
package final class FlowGuard: Sendable {
  private let keeper: Keeper
  private let events: Handoff<GuardEvent>
  private let task: Task<Void, Never>

  /// - Parameter socket: The path of connd's socket.
  package init(socket: String = SocketPath.default) {
    let keeper = Keeper(socket: socket)
    let events = Handoff<GuardEvent>()
    self.keeper = keeper
    self.events = events
    self.task = Task(executorPreference: EventLoopTaskExecutor(ClientThread.eventLoop)) {
      try? await keeper.run(events)
      events.finish()
    }
  }

  deinit {
    self.task.cancel()
    self.events.finish()
  }

  /// Guards a flow; does nothing where the id names one already.
  ///
  /// - Parameter id: What the caller calls it, until it is destroyed, refused or removed. One that was removed is
  ///   better not used again: what connd said of the flow before may be on its way.
  package func add(_ flow: Flow, id: UInt64) {
    self.keeper.change { $0.add(flow, id: id) }
  }

  /// Guards a flow no longer. An event that was on its way may still come.
  package func remove(_ id: UInt64) {
    self.keeper.change { $0.remove(id) }
  }

  /// The next event; `nil` when the task was cancelled, which ends the guard. At most one task may wait.
  package func next() async -> GuardEvent? {
    await self.events.next()
  }
}

/// Connects, tells and reads, and connects again.
private final class Keeper: Sendable {
  private struct State {
    var flows = GuardedFlows()
    /// Wakes who tells connd, in the stream that there is; or who waits for a flow.
    var wake: AsyncStream<Void>.Continuation?
  }

  private let socket: String
  private let state = Mutex(State())

  init(socket: String) { self.socket = socket }

  func change(_ body: (inout GuardedFlows) -> Void) {
    let wake = self.state.withLock { state in
      body(&state.flows)
      return state.wake
    }
    wake?.yield()
  }

  /// - Throws: `CancellationError`, nothing else.
  func run(_ events: Handoff<GuardEvent>) async throws {
    while true {
      try await self.waitForFlow()
      let error = await self.connection(events)
      let (event, pause) = self.state.withLock { $0.flows.lost(error) }
      if let event { try await events.send(event) }
      try await Task.sleep(for: pause)
      if let event = self.state.withLock({ $0.flows.rested() }) { try await events.send(event) }
    }
  }

  /// Returns when there is a flow. Nothing but a change of the flows wakes it.
  private func waitForFlow() async throws {
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    self.state.withLock { $0.wake = wake }
    wake.yield()
    for await _ in changes where self.state.withLock({ !$0.flows.isEmpty }) { return }
    throw CancellationError()
  }

  /// Keeps up one connection to its end, and returns why it ended.
  private func connection(_ events: Handoff<GuardEvent>) async -> any Error {
    // One waiting wake-up stands for all changes until then.
    let (changes, wake) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    defer { wake.finish() }
    do {
      try SocketProbe.connect(to: self.socket)
      self.state.withLock { state in
        state.flows.connecting()
        state.wake = wake
      }
      wake.yield()
      try await withConnection(to: self.socket) { connd in
        try await connd.guard { writer in
          for await _ in changes {
            try await writer.write(contentsOf: self.state.withLock { $0.flows.requests() })
          }
        } onResponse: { response in
          _ = try response.accepted.get()
          if let event = self.state.withLock({ $0.flows.accepted() }) {
            try await events.send(event)
          }
          for try await message in response.messages {
            if let event = try self.state.withLock({ try $0.flows.received(message) }) {
              try await events.send(event)
            }
          }
        }
      }
      return ConndError.notThere("connd ended the stream")
    } catch {
      return ConndError.reading(error)
    }
  }
}

import DequeModule
package import GRPCCore
import Synchronization

/// The output of a stream, as the call's task writes it and the peer accepts it. Safe to use from
/// any thread.
///
/// A task that writes faster than the peer reads must wait. If its account already uses too much
/// memory, writing fails.
final class MessageOutbox: MessageSource, Sendable {
  /// The number of pending bytes above which the task waits.
  private static let maxBytes = 16 << 10

  private struct State {
    var messages: Deque<[UInt8]> = []
    var size = 0
    /// The size of the last message taken, which may not have been sent yet.
    var takenSize = 0
    /// Set when no more is written.
    var status: Status?
    /// Whether the peer accepts no more.
    var isClosed = false
    /// The task that waits for room.
    var waiting: CheckedContinuation<Void, Never>?

    mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
      defer { self.waiting = nil }
      return self.waiting
    }
  }

  private let state = Mutex(State())
  /// Called when there is something to take.
  private let onWrite: @Sendable () -> Void
  private let memory: CallMemory?

  init(countedBy memory: CallMemory? = nil, onWrite: @escaping @Sendable () -> Void) {
    self.memory = memory
    self.onWrite = onWrite
  }

  // MARK: The task's side

  /// Returns when there is room for more.
  func write(_ message: [UInt8]) async throws {
    let isFull = try self.state.withLock { state in
      guard !state.isClosed else { throw RPCError.streamIsClosed }
      try self.count(state.size + state.takenSize + message.count)
      state.messages.append(message)
      state.size += message.count
      return state.size > Self.maxBytes
    }
    self.onWrite()
    if isFull { try await self.waitForRoom() }
  }

  private func count(_ bytes: Int) throws(RPCError) {
    do throws(Refusal) {
      try self.memory?.set(.answers, to: bytes)
    } catch {
      throw RPCError(code: .resourceExhausted, message: error.message)
    }
  }

  /// Ends the output.
  func end(_ status: Status) {
    self.state.withLock { state in
      if state.status == nil { state.status = status }
    }
    self.onWrite()
  }

  private func waitForRoom() async throws {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mustWait = self.state.withLock { state in
          guard state.size > Self.maxBytes, !state.isClosed, !Task.isCancelled else { return false }
          state.waiting = continuation
          return true
        }
        if !mustWait { continuation.resume() }
      }
    } onCancel: {
      self.state.withLock { $0.takeWaiting() }?.resume()
    }
    try Task.checkCancellation()
  }

  // MARK: The stream's side

  func next() -> NextMessage {
    let (next, waiting) = self.state.withLock {
      state -> (NextMessage, CheckedContinuation<Void, Never>?) in
      let message = state.messages.popFirst()
      state.takenSize = message?.count ?? 0
      state.size -= state.takenSize
      // This cannot fail, because the size only shrinks.
      try? self.count(state.size + state.takenSize)
      guard let message else {
        return (state.status.map { .end($0) } ?? .later, state.takeWaiting())
      }
      return (.message(message), state.size > Self.maxBytes ? nil : state.takeWaiting())
    }
    waiting?.resume()
    return next
  }

  func close() {
    let waiting = self.state.withLock { state in
      (state.isClosed, state.messages, state.size, state.takenSize) = (true, [], 0, 0)
      return state.takeWaiting()
    }
    waiting?.resume()
  }
}

extension Status {
  package init(_ error: RPCError) {
    self.init(code: Code(error.code), message: error.message)
  }
}

extension RPCError {
  static let streamIsClosed = RPCError(code: .cancelled, message: "the other end has gone")
}

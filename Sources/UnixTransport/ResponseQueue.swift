import DequeModule
package import GRPCCore
import Synchronization

/// The response of a call, as its task writes it and its client takes it. Safe to use from any thread.
///
/// A task that writes more than the client takes waits.
final class ResponseQueue: ClosableRPCWriterProtocol, MessageSource {
  typealias Element = RPCResponsePart<[UInt8]>

  /// So many bytes may wait for the client before the task does.
  private static let most = 16 << 10

  private struct State {
    var messages: Deque<[UInt8]> = []
    var size = 0
    var status: Status?
    var hasBegun = false
    /// The client takes nothing more.
    var isClosed = false
    /// The task that waits for room.
    var waiting: CheckedContinuation<Void, Never>?

    mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
      defer { self.waiting = nil }
      return self.waiting
    }
  }

  private let state = Mutex(State())
  private let stream: ServerStream
  private let reactor: Reactor

  init(_ stream: ServerStream, _ reactor: Reactor) {
    self.stream = stream
    self.reactor = reactor
  }

  // MARK: The task's side

  func write(_ part: Element) async throws {
    switch part {
    case .metadata:
      self.state.withLock { $0.hasBegun = true }
      self.reactor.run { self.stream.respond(from: self) }
    case .message(let message):
      let isFull = try self.state.withLock { state in
        guard !state.isClosed else { throw RPCError.clientHasGone }
        state.messages.append(message)
        state.size += message.count
        return state.size > Self.most
      }
      self.reactor.run { self.stream.resume() }
      if isFull { try await self.waitForRoom() }
    case .status(let status, _):
      let hasBegun = self.state.withLock { state in
        state.status = status
        return state.hasBegun
      }
      self.reactor.run {
        if hasBegun { self.stream.resume() } else { self.stream.end(status) }
      }
    }
  }

  func write(contentsOf parts: some Sequence<Element>) async throws {
    for part in parts { try await self.write(part) }
  }

  /// gRPC has written a status before.
  func finish() async {}

  func finish(throwing error: any Error) async {
    let status = (error as? RPCError).map { Status($0) }
    self.reactor.run {
      self.stream.end(status ?? Status(code: .unknown, message: "\(error)"))
    }
  }

  private func waitForRoom() async throws {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mustWait = self.state.withLock { state in
          guard state.size > Self.most, !state.isClosed, !Task.isCancelled else { return false }
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
      guard let message = state.messages.popFirst() else {
        return (state.status.map { .end($0) } ?? .later, state.takeWaiting())
      }
      state.size -= message.count
      return (.message(message), state.size > Self.most ? nil : state.takeWaiting())
    }
    waiting?.resume()
    return next
  }

  func close() {
    let waiting = self.state.withLock { state in
      (state.isClosed, state.messages, state.size) = (true, [], 0)
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
  static let clientHasGone = RPCError(code: .cancelled, message: "the client has gone")
}

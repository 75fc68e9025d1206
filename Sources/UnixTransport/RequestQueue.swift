import GRPCCore
import Synchronization

/// The requests of a call, as its task reads them. Safe to use from any thread.
///
/// What is not read stays as the bytes that came, and the client may not send more than the stream's window of them.
final class RequestQueue: AsyncSequence, Sendable {
  typealias Element = RPCRequestPart<[UInt8]>
  typealias Failure = any Error

  fileprivate struct State {
    var reader: MessageReader
    var hasBegun = false
    var isOver = false
    var error: RPCError?
    /// The task that waits for the next request.
    var waiting: CheckedContinuation<Void, Never>?

    mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
      defer { self.waiting = nil }
      return self.waiting
    }
  }

  private let state: Mutex<State>
  /// Told how many bytes are still unread when something was.
  private let onRead: @Sendable (_ unread: Int) -> Void

  init(longest: Int, onRead: @escaping @Sendable (_ unread: Int) -> Void) {
    self.state = Mutex(State(reader: MessageReader(longest: longest)))
    self.onRead = onRead
  }

  // MARK: The stream's side

  /// - Returns: how many bytes are unread, as `RequestSink` says: none while they do not make up a request.
  func append(_ data: UnsafeRawBufferPointer) throws(MessageReader.Fault) -> Int {
    let (unread, waiting) = try self.state.withLock {
      (state) throws(MessageReader.Fault) -> (Int, CheckedContinuation<Void, Never>?) in
      try state.reader.append(data)
      guard state.reader.isReady else { return (0, nil) }
      return (state.reader.unread, state.takeWaiting())
    }
    waiting?.resume()
    return unread
  }

  /// Nothing more comes: all has come, or the call is over.
  func finish(throwing error: RPCError? = nil) {
    let waiting = self.state.withLock { state in
      state.isOver = true
      state.error = state.error ?? error
      return state.takeWaiting()
    }
    waiting?.resume()
  }

  // MARK: The task's side

  struct AsyncIterator: AsyncIteratorProtocol {
    let queue: RequestQueue

    func next() async throws -> Element? { try await self.queue.next() }

    func next(isolation: isolated (any Actor)?) async throws(any Error) -> Element? {
      try await self.queue.next()
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(queue: self) }

  fileprivate enum Step {
    case part(Element, unread: Int?)
    case wait
    case over
  }

  private func next() async throws -> Element? {
    while true {
      switch try self.state.withLock({ try $0.step() }) {
      case .part(let part, let unread):
        if let unread { self.onRead(unread) }
        return part
      case .over: return nil
      case .wait: await self.wait()
      }
      try Task.checkCancellation()
    }
  }

  private func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mustWait = self.state.withLock { state in
          guard !state.isOver, !state.reader.isReady, !Task.isCancelled else { return false }
          state.waiting = continuation
          return true
        }
        if !mustWait { continuation.resume() }
      }
    } onCancel: {
      self.state.withLock { $0.takeWaiting() }?.resume()
    }
  }
}

extension RequestQueue.State {
  fileprivate mutating func step() throws -> RequestQueue.Step {
    if !self.hasBegun {
      self.hasBegun = true
      return .part(.metadata([:]), unread: nil)
    }
    if let error { throw error }
    do throws(MessageReader.Fault) {
      if let message = try self.reader.next() {
        let unread = self.reader.isReady ? self.reader.unread : 0
        return .part(.message(message), unread: unread)
      }
    } catch {
      throw RPCError(code: .resourceExhausted, message: "a request is too long, or compressed")
    }
    return self.isOver ? .over : .wait
  }
}

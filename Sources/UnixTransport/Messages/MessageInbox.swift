import GRPCCore
import Synchronization

/// The input of a stream, as the call's task reads it. Safe to use from any thread.
///
/// Unread input stays as raw bytes, at most as many as the stream's window allows.
final class MessageInbox: Sendable {
  /// The events that a task reads, in this order.
  enum Event {
    /// The peer has begun.
    case begin
    case message([UInt8])
    /// The peer sends no more. Has a status if the peer is a server.
    case end(Status?)
  }

  fileprivate struct State {
    var reader: MessageReader
    /// The size of the last message. The task may use that message until it reads another message.
    var lastSize = 0
    var hasBegun: Bool
    var isBeginRead = false
    /// Set when no more input can arrive.
    var end: Result<Status?, RPCError>?
    var isEndRead = false
    /// The waiting task.
    var waiting: CheckedContinuation<Void, Never>?

    mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
      defer { self.waiting = nil }
      return self.waiting
    }
  }

  private let state: Mutex<State>
  /// Called after a message was read, with the number of unread bytes and of bytes in memory.
  private let onRead: @Sendable (_ unread: Int, _ kept: Int) -> Void

  /// - Parameter maxLength: The maximum size of a message in bytes.
  init(
    maxLength: Int, hasBegun: Bool, onRead: @escaping @Sendable (_ unread: Int, _ kept: Int) -> Void
  ) {
    self.state = Mutex(State(reader: MessageReader(maxLength: maxLength), hasBegun: hasBegun))
    self.onRead = onRead
  }

  /// The memory for unread bytes and the last message.
  var kept: Int { self.state.withLock { $0.kept } }

  // MARK: The stream's side

  func begin() {
    let waiting = self.state.withLock { state in
      state.hasBegun = true
      return state.takeWaiting()
    }
    waiting?.resume()
  }

  /// - Returns: The number of unread bytes. Zero while they do not form a complete message, so that
  ///   more can arrive.
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

  /// Ends the input. Input so far can still be read, unless the end is an error. Only the first end
  /// counts.
  func finish(_ end: Result<Status?, RPCError> = .success(nil)) {
    let waiting = self.state.withLock { state in
      if state.end == nil { state.end = end }
      return state.takeWaiting()
    }
    waiting?.resume()
  }

  // MARK: The task's side

  /// Returns the next event, or `nil` after the end. Only one task may wait.
  func next() async throws -> Event? {
    while true {
      let (step, unread, kept) = try self.state.withLock {
        let (step, unread) = try $0.step()
        return (step, unread, $0.kept)
      }
      if let unread { self.onRead(unread, kept) }
      switch step {
      case .event(let event): return event
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
          guard !state.hasNews, !Task.isCancelled else { return false }
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

extension MessageInbox.State {
  fileprivate enum Step {
    case event(MessageInbox.Event)
    case wait
    case over
  }

  /// The last message counts twice, because a task keeps the message's bytes and the decoded
  /// message.
  fileprivate var kept: Int { self.reader.kept + 2 * self.lastSize }

  fileprivate var hasNews: Bool {
    self.hasBegun && !self.isBeginRead || self.end != nil || self.reader.isReady
  }

  fileprivate mutating func step() throws -> (Step, unread: Int?) {
    if case .failure(let error) = self.end { throw error }
    if self.hasBegun, !self.isBeginRead {
      self.isBeginRead = true
      return (.event(.begin), nil)
    }
    do throws(MessageReader.Fault) {
      if let message = try self.reader.next() {
        self.lastSize = message.count
        return (.event(.message(message)), self.reader.isReady ? self.reader.unread : 0)
      }
    } catch {
      throw RPCError(code: .resourceExhausted, message: "a message is too long, or compressed")
    }
    guard case .success(let status) = self.end else { return (.wait, nil) }
    if self.isEndRead { return (.over, nil) }
    self.isEndRead = true
    return (.event(.end(status)), nil)
  }
}

/// An inbox in the form that gRPC reads: parts of a request or response.
struct InboxParts<Part: Sendable>: AsyncSequence, Sendable {
  typealias Element = Part
  typealias Failure = any Error

  let inbox: MessageInbox
  let part: @Sendable (MessageInbox.Event) -> Part?

  struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let parts: InboxParts

    func next() async throws -> Part? { try await self.next(isolation: nil) }

    func next(isolation: isolated (any Actor)?) async throws(any Error) -> Part? {
      try await self.parts.inbox.next().flatMap(self.parts.part)
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(parts: self) }
}

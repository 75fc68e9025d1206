import GRPCCore
import Synchronization

/// What comes in a stream, as the call's task reads it. Safe to use from any thread.
///
/// What is not read stays as the bytes that came, and the other end may not send more than the stream's window of them.
final class MessageInbox: Sendable {
  /// What a task reads, in this order.
  enum Event {
    /// The other end has begun.
    case begin
    case message([UInt8])
    /// It sends no more; its status, if it is a server.
    case end(Status?)
  }

  fileprivate struct State {
    var reader: MessageReader
    var hasBegun: Bool
    var isBeginRead = false
    /// Set when nothing more comes.
    var end: Result<Status?, RPCError>?
    var isEndRead = false
    /// The task that waits.
    var waiting: CheckedContinuation<Void, Never>?

    mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
      defer { self.waiting = nil }
      return self.waiting
    }
  }

  private let state: Mutex<State>
  /// Called when a message was read, with the bytes that are still unread, and those that are kept.
  private let onRead: @Sendable (_ unread: Int, _ kept: Int) -> Void

  /// - Parameter longest: how many bytes a message may have.
  init(
    longest: Int, hasBegun: Bool, onRead: @escaping @Sendable (_ unread: Int, _ kept: Int) -> Void
  ) {
    self.state = Mutex(State(reader: MessageReader(longest: longest), hasBegun: hasBegun))
    self.onRead = onRead
  }

  /// The memory that unread bytes use.
  var kept: Int { self.state.withLock { $0.reader.kept } }

  // MARK: The stream's side

  func begin() {
    let waiting = self.state.withLock { state in
      state.hasBegun = true
      return state.takeWaiting()
    }
    waiting?.resume()
  }

  /// - Returns: how many bytes are unread; none while they do not make up a message, which then takes more of them.
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

  /// Nothing more comes; what came can still be read, unless it is an error. The first end counts.
  func finish(_ end: Result<Status?, RPCError> = .success(nil)) {
    let waiting = self.state.withLock { state in
      if state.end == nil { state.end = end }
      return state.takeWaiting()
    }
    waiting?.resume()
  }

  // MARK: The task's side

  /// The next event; `nil` after the end. One task may wait.
  func next() async throws -> Event? {
    while true {
      let (step, unread, kept) = try self.state.withLock {
        let (step, unread) = try $0.step()
        return (step, unread, $0.reader.kept)
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

/// An inbox as gRPC reads it: in parts of a request or of a response.
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

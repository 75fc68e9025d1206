import Connectivity
import DequeModule
import LinuxSupport
import Synchronization
import UnixTransport

/// The queue in which the monitor loop leaves events for a client of `Guard`. It never blocks.
protocol FlowMailbox: Sendable {
  /// The number of the client's stream.
  var number: UInt64 { get }
  /// The client's account.
  var account: Account { get }
  func post(_ messages: [GuardMailbox.Message])
  /// Notes that the client has removed a flow. The request needs no answer, and pending messages
  /// about the flow are obsolete.
  func removed(_ flow: UInt64)
  /// Notes that a request needs no answer.
  func handled()
  /// Ends the mailbox because the client has disconnected or connd is stopping.
  func finish()
}

extension FlowMailbox {
  func handled() {}

  func answer(_ id: UInt64, _ event: FlowEvent, generation: UInt64) {
    self.post([.init(id: id, event: event, generation: generation, isAnswer: true)])
  }
}

/// The pending messages for a client of `Guard`.
///
/// The monitor thread posts without blocking. A client that does not read costs a bounded amount of
/// memory: at most the last path and the end of each flow. The account's outstanding requests limit
/// the number of answers. Safe to use from any thread.
final class GuardMailbox: FlowMailbox {
  struct Message: Sendable {
    var id: UInt64
    var event: FlowEvent
    /// The generation of the last published change.
    var generation: UInt64
    /// When the client's time to ask its peer ends, or `nil` if it need not ask (E4).
    var askedUntil: WallTime?
    /// Whether the message answers a request. Earlier messages with the same ID are about another
    /// flow.
    var isAnswer = false
  }

  /// The notification that a flow is no longer viable, or in doubt.
  struct Notice: Hashable, Sendable {
    var reason: Invalidation.Reason
    var severity: Invalidation.Severity
    var moment = Moment()
  }

  private struct State {
    var messages: Deque<Message> = []
    /// The number of messages above which the messages of each flow are merged.
    var limit = GuardMailbox.maxMessages
    /// The number of accepted requests without a sent answer.
    var requests = 0
    /// The number of answers among the messages that ``GuardMailbox/next()`` returned last. These
    /// answers may not have been sent yet.
    var taken = 0
    /// A request is accepted while `requests` is below this number.
    var acceptsBelow = GuardMailbox.maxMessages
    var isFinished = false
    var lastNotice: Notice?
    /// The tasks that wait for messages, and for room for another request.
    var waiting: CheckedContinuation<Void, Never>?
    var asking: CheckedContinuation<Void, Never>?
  }

  let number: UInt64
  let account: Account
  private let memory: CallMemory?
  private let state = Mutex(State())

  /// - Parameter memory: Accounts for the memory of requests until their answers are sent, if not
  ///   `nil`.
  init(_ number: UInt64, of account: Account = .unknown, _ memory: CallMemory? = nil) {
    self.number = number
    self.account = account
    self.memory = memory
  }

  /// The maximum memory of a request until its answer is sent, in bytes: the registration with a
  /// known path, then a path. Each call may use this much without admission (``CallMemory/free``).
  static let costOfRequest = 2048

  /// The number of pending messages above which the messages of each flow are merged.
  private static let maxMessages = 256

  /// The last notice about any of the client's flows.
  var lastNotice: Notice? { self.state.withLock { $0.lastNotice } }

  /// The number of messages that wait for the client.
  var waitingMessages: Int { self.state.withLock { $0.messages.count } }

  func post(_ messages: [Message]) {
    let notice = messages.lazy.reversed().compactMap(\.event.invalidation).first.map {
      Notice(reason: $0.reason, severity: $0.severity)
    }
    let waiting = self.state.withLock { state in
      state.messages += messages
      if let notice { state.lastNotice = notice }
      if state.messages.count > state.limit {
        state.messages = Self.joined(state.messages)
        state.limit = max(Self.maxMessages, state.messages.count * 3 / 2)
      }
      defer { state.waiting = nil }
      return state.waiting
    }
    waiting?.resume()
  }

  func finish() {
    let (waiting, asking) = self.state.withLock { state in
      state.isFinished = true
      self.memory?.close()
      defer { (state.waiting, state.asking) = (nil, nil) }
      return (state.waiting, state.asking)
    }
    waiting?.resume()
    asking?.resume()
  }

  /// Waits for the next messages and returns them, or `nil` if there will be none. Only one task
  /// may wait.
  func next() async -> [Message]? {
    while true {
      let (messages, asking, isFinished) = self.state.withLock { state in
        self.release(state.taken, &state)
        state.taken = state.messages.count { $0.isAnswer }
        defer { (state.messages, state.asking) = ([], nil) }
        return (Array(state.messages), state.asking, state.isFinished)
      }
      asking?.resume()
      if !messages.isEmpty { return messages }
      if isFinished || Task.isCancelled { return nil }
      await self.wait(\.waiting) { $0.messages.isEmpty }
    }
  }

  /// Waits until one more request can be accepted, which depends on how many answers the client has
  /// read. Call it before reading the request, because the message takes more memory than its
  /// result.
  ///
  /// - Returns: `false` if the mailbox has ended.
  func accept() async -> Bool {
    while true {
      let isAccepted: Bool? = self.state.withLock { state in
        if state.isFinished { return false }
        return self.reserve(&state) ? true : nil
      }
      if let isAccepted { return isAccepted }
      if Task.isCancelled { return false }
      await self.wait(\.asking) { $0.requests >= $0.acceptsBelow }
    }
  }

  /// - Returns: `false` if the client must read answers first.
  private func reserve(_ state: inout State) -> Bool {
    state.acceptsBelow = Self.maxMessages
    guard state.requests < Self.maxMessages else { return false }
    do throws(UnixTransport.Refusal) {
      try self.memory?.set(.requests, to: (state.requests + 1) * Self.costOfRequest)
    } catch {
      state.acceptsBelow = state.requests
      return false
    }
    state.requests += 1
    return true
  }

  private func release(_ requests: Int, _ state: inout State) {
    guard requests > 0 else { return }
    state.requests -= requests
    try? self.memory?.set(.requests, to: state.requests * Self.costOfRequest)
  }

  func removed(_ flow: UInt64) {
    let asking = self.state.withLock { state in
      var answers = 1
      state.messages.removeAll { message in
        guard message.id == flow, !message.isRefusal else { return false }
        answers += message.isAnswer ? 1 : 0
        return true
      }
      self.release(answers, &state)
      defer { state.asking = nil }
      return state.asking
    }
    asking?.resume()
  }

  func handled() {
    let asking = self.state.withLock { state in
      self.release(1, &state)
      defer { state.asking = nil }
      return state.asking
    }
    asking?.resume()
  }

  /// Waits while the condition holds, until the continuation is resumed or the task is cancelled.
  private func wait(
    _ place: any WritableKeyPath<State, CheckedContinuation<Void, Never>?> & Sendable,
    while mustWait: @Sendable (borrowing State) -> Bool
  ) async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = self.state.withLock { state in
          if state.isFinished || Task.isCancelled || !mustWait(state) { return true }
          state[keyPath: place] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      self.finish()
    }
  }

  /// Returns the last path and the most severe invalidation of each flow.
  private static func joined(_ messages: Deque<Message>) -> Deque<Message> {
    var last: [UInt64: Int] = [:]
    var kept: Deque<Message> = []
    for message in messages {
      guard !message.isAnswer, let earlier = last[message.id], !kept[earlier].isRefusal else {
        last[message.id] = kept.count
        kept.append(message)
        continue
      }
      let askedUntil = message.askedUntil ?? kept[earlier].askedUntil
      kept[earlier] = kept[earlier].joined(with: message)
      kept[earlier].askedUntil = kept[earlier].event.isLast ? nil : askedUntil
    }
    return kept
  }
}

extension GuardMailbox.Message {
  fileprivate var isRefusal: Bool { if case .refused = self.event { true } else { false } }

  /// Returns one message that replaces this message and a later message, both unread.
  fileprivate func joined(with later: Self) -> Self {
    switch (self.event, later.event) {
    case (.invalidation(let invalidation), .betterPathGone)
    where invalidation.reason == .betterPath && !invalidation.migrates:
      return self.with(later.event, later.generation)
    case (.invalidation(var invalidation), .path(let path)),
      (.invalidation(var invalidation), .betterPathGone(let path)):
      invalidation.path = path
      return self.with(.invalidation(invalidation), later.generation)
    // A move replaces the advice before it, and later advice does not undo the move (I12).
    case (.invalidation(let invalidation), .invalidation(var other))
    where invalidation.migrates || other.migrates:
      if other.severity != .destroy { (other.severity, other.migrates) = (.advise, true) }
      return self.with(.invalidation(other), later.generation)
    case (.invalidation(var invalidation), .invalidation(let other))
    where invalidation.severity > other.severity:
      invalidation.path = other.path
      return self.with(.invalidation(invalidation), later.generation)
    case (.betterPathGone, .path(let path)):
      return self.with(.betterPathGone(path), later.generation)
    default:
      return self.with(later.event, later.generation)
    }
  }

  private func with(_ event: FlowEvent, _ generation: UInt64) -> Self {
    var message = self
    message.event = event
    message.generation = generation
    return message
  }
}

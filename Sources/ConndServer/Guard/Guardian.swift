import Connectivity
import ConnectivityRules
import DequeModule
import Synchronization
import UnixTransport

/// Where the monitor's loop leaves what a client of `Guard` is to be told. It never waits.
protocol FlowMailbox: Sendable {
  /// The client's stream.
  var number: UInt64 { get }
  /// The client's account.
  var account: Account { get }
  func post(_ messages: [Guardian.Message])
  /// The client has removed a flow. The request needs no answer, and what was posted about the flow is of no more use.
  func removed(_ flow: UInt64)
  /// No more comes: the client has gone, or connd stops.
  func finish()
}

extension FlowMailbox {
  /// Answers a request.
  func answer(_ id: UInt64, _ event: Guardian.Event, generation: UInt64) {
    self.post([.init(id: id, event: event, generation: generation, isAnswer: true)])
  }
}

/// What a client of `Guard` is still to be told.
///
/// The monitor's thread posts and never waits. A client that does not read costs a bounded amount of memory: for each flow
/// at most the last path and what ended it, and the answers to as many requests as its account may have outstanding. Safe to
/// use from any thread.
final class Guardian: FlowMailbox {
  /// Indirect: a refusal, which anybody can provoke at will, takes a tenth of what a path does.
  indirect enum Event: Sendable {
    case flow(FlowTable.Event)
    case refused(Refusal)
  }

  /// Why a request was not accepted.
  struct Refusal: Sendable, Error {
    /// Of google.rpc.
    var code: UInt32
    var message: String

    /// - Parameter message: names the field.
    static func invalid(_ message: String) -> Refusal { Refusal(code: 3, message: message) }
    /// - Parameter message: names the limit.
    static func exhausted(_ message: String) -> Refusal { Refusal(code: 8, message: message) }
  }

  struct Message: Sendable {
    var id: UInt64
    var event: Event
    /// That of the last change published at the time.
    var generation: UInt64
    /// It answers a request: what came before is about another flow of that id.
    var isAnswer = false
  }

  /// That a flow is no longer viable, or in doubt.
  struct Notice: Hashable, Sendable {
    var reason: Invalidation.Reason
    var severity: Invalidation.Severity
    var moment = Moment()
  }

  private struct State {
    var messages: Deque<Message> = []
    /// With more messages than this, each flow's are joined.
    var limit = Guardian.most
    /// Requests that are accepted, and whose answers are not sent.
    var requests = 0
    /// How many of them were answered by the messages that were taken last, and may not be sent yet.
    var taken = 0
    /// A request is accepted while there are fewer of them than this.
    var acceptsBelow = Guardian.most
    var isFinished = false
    var lastNotice: Notice?
    /// Who waits for messages, and who waits for room.
    var waiting: CheckedContinuation<Void, Never>?
    var asking: CheckedContinuation<Void, Never>?
  }

  let number: UInt64
  let account: Account
  private let memory: CallMemory?
  private let state = Mutex(State())

  /// - Parameter memory: counts what requests cost until their answers are sent; if `nil`, nothing does.
  init(_ number: UInt64, of account: Account = .unknown, _ memory: CallMemory? = nil) {
    self.number = number
    self.account = account
    self.memory = memory
  }

  /// The memory that a request takes at most until its answer is sent: the registration with a known path, and then a path.
  /// A call may have one without asking (``CallMemory/free``).
  static let costOfRequest = 2048

  /// What is posted and not taken grows to this many messages, and then each flow's are joined.
  private static let most = 256

  /// What one of the flows was told last, beside paths.
  var lastNotice: Notice? { self.state.withLock { $0.lastNotice } }

  /// How many messages wait for the client.
  var waitingMessages: Int { self.state.withLock { $0.messages.count } }

  func post(_ messages: [Message]) {
    let notice = messages.lazy.reversed().compactMap(\.verdict).first.map {
      Notice(reason: $0.reason, severity: $0.severity)
    }
    let waiting = self.state.withLock { state in
      state.messages += messages
      if let notice { state.lastNotice = notice }
      if state.messages.count > state.limit {
        state.messages = Self.joined(state.messages)
        state.limit = max(Self.most, 2 * state.messages.count)
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

  /// The next messages; waits for one. `nil` when there will be none. One task may wait.
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

  /// Accepts one more request, as soon as the client has read enough of the answers to earlier ones. Call it before the
  /// request is read: a message takes more memory than what becomes of it.
  ///
  /// - Returns: `false` if it is over.
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

  /// - Returns: `false` if the client has to read answers first.
  private func reserve(_ state: inout State) -> Bool {
    state.acceptsBelow = Self.most
    guard state.requests < Self.most else { return false }
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

  /// Waits while the condition holds, until somebody resumes the continuation or the task is cancelled.
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

  /// Of each flow the last path, and the gravest invalidation.
  private static func joined(_ messages: Deque<Message>) -> Deque<Message> {
    var last: [UInt64: Int] = [:]
    var kept: Deque<Message> = []
    for message in messages {
      guard !message.isAnswer, let earlier = last[message.id], !kept[earlier].isRefusal else {
        last[message.id] = kept.count
        kept.append(message)
        continue
      }
      kept[earlier] = kept[earlier].joined(with: message)
    }
    return kept
  }
}

extension Guardian.Message {
  fileprivate var verdict: FlowTracker.Verdict? {
    guard case .flow(.invalidation(let verdict, _, _)) = self.event else { return nil }
    return verdict
  }

  fileprivate var isRefusal: Bool { if case .refused = self.event { true } else { false } }

  /// What a client that has read neither has to know.
  fileprivate func joined(with later: Self) -> Self {
    switch (self.event, later.event) {
    case (.flow(.invalidation(let verdict, _, _)), .flow(.betterPathGone))
    where verdict.reason == .betterPath:
      return self.with(later.event, later.generation)
    case (.flow(.invalidation(let verdict, let cause, _)), .flow(.path(let path))),
      (.flow(.invalidation(let verdict, let cause, _)), .flow(.betterPathGone(let path))):
      return self.with(.flow(.invalidation(verdict, cause, path)), later.generation)
    case (
      .flow(.invalidation(let verdict, let cause, _)), .flow(.invalidation(let other, _, let path))
    ) where verdict.severity > other.severity:
      return self.with(.flow(.invalidation(verdict, cause, path)), later.generation)
    case (.flow(.betterPathGone), .flow(.path(let path))):
      return self.with(.flow(.betterPathGone(path)), later.generation)
    default:
      return self.with(later.event, later.generation)
    }
  }

  private func with(_ event: Guardian.Event, _ generation: UInt64) -> Self {
    var message = self
    message.event = event
    message.generation = generation
    return message
  }
}

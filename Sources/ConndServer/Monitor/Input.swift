import Connectivity
import UnixTransport

/// What the monitor's thread is given to do, by whatever thread.
enum Input: Sendable {
  /// Everything is to be looked at with another configuration.
  case configure(Configuration, Reply<Void>)
  /// Whoever starts waits until the kernel was read for the first time, or could not be.
  case awaitFirstReading(Reply<Void>)
  case question(Question)
  /// Whoever asked waits no longer.
  case drop(Question.ID, of: Account)
  case count(Reply<MonitorLoop.Counts>)
  case unwatch(Destination, watcher: UInt64)
  case admit(any FlowMailbox, Reply<Void>)
  /// The client with this number has gone.
  case dismiss(UInt64)
  case flow(GuardRequest)
}

/// Takes the answer to an input, once; `nil` where connd stops before there is one. Safe to use from any thread.
struct Reply<Answer: Sendable>: Sendable {
  private let continuation: CheckedContinuation<Answer?, Never>?

  init(_ continuation: CheckedContinuation<Answer?, Never>?) {
    self.continuation = continuation
  }

  /// Nobody waits for the answer.
  static var unheard: Reply { Reply(nil) }

  func resume(returning answer: Answer?) { self.continuation?.resume(returning: answer) }
}

/// What came of asking the kernel.
typealias KernelAnswer<Answer> = Result<Answer, KernelUnavailable>

extension MonitorLoop {
  mutating func take(_ input: Input) {
    switch input {
    case .configure(let configuration, let reply):
      self.configure(configuration)
      reply.resume(returning: ())
    case .awaitFirstReading(let reply): reply.resume(returning: ())
    case .question(let question): self.questions.append(question, of: question.account)
    case .drop(let question, let account): self.drop(question, of: account)
    case .count(let reply): reply.resume(returning: self.counts)
    case .unwatch(let destination, let watcher): self.unwatch(destination, watcher)
    case .admit(let guardian, let reply):
      self.admit(guardian)
      reply.resume(returning: ())
    case .dismiss(let number): self.dismiss(number)
    case .flow(let request): self.enqueue(request)
    }
  }

  /// What there is at the moment.
  struct Counts: Sendable {
    var guardingClients: Int
    var guardedFlows: Int
    var watchedPaths: Int
    /// How many flows each client of `Guard` has, by its number.
    var flowsOfClients: [UInt64: Int]
  }

  private var counts: Counts {
    Counts(
      guardingClients: self.guardians.count, guardedFlows: self.engine.flows.count,
      watchedPaths: self.watchers.count, flowsOfClients: self.engine.flows.counts)
  }
}

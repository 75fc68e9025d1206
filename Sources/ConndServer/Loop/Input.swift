import Connectivity
import UnixTransport

/// A task for the monitor thread, submitted from any thread.
enum Input: Sendable {
  /// Applies another configuration and reads everything again.
  case configure(Configuration, Reply<Void>)
  /// Replies once the kernel has been read for the first time, or could not be read.
  case awaitFirstReading(Reply<Void>)
  case query(KernelQuery)
  /// The client is no longer waiting.
  case drop(KernelQuery.ID, of: Account)
  case count(Reply<MonitorLoop.Counts>)
  case unwatch(Destination, watcher: UInt64)
  case admit(any FlowMailbox, Reply<Void>)
  /// The client with this number has disconnected.
  case dismiss(UInt64)
  case flow(GuardRequest)
}

/// Delivers the answer to an input once, or `nil` if connd stops before there is one. Safe to use
/// from any thread.
struct Reply<Answer: Sendable>: Sendable {
  private let continuation: CheckedContinuation<Answer?, Never>?

  init(_ continuation: CheckedContinuation<Answer?, Never>?) {
    self.continuation = continuation
  }

  /// A reply that no caller waits for.
  static var unheard: Reply { Reply(nil) }

  func resume(returning answer: Answer?) { self.continuation?.resume(returning: answer) }
}

/// The answer of the kernel, or why it could not be asked.
typealias KernelAnswer<Answer> = Result<Answer, KernelUnavailable>

extension MonitorLoop {
  mutating func take(_ input: Input) {
    switch input {
    case .configure(let configuration, let reply):
      self.configure(configuration)
      reply.resume(returning: ())
    case .awaitFirstReading(let reply): reply.resume(returning: ())
    case .query(let query): self.queries.append(query, of: query.account)
    case .drop(let id, let account): self.drop(id, of: account)
    case .count(let reply): reply.resume(returning: self.counts)
    case .unwatch(let destination, let watcher): self.unwatch(destination, watcher)
    case .admit(let mailbox, let reply):
      self.admit(mailbox)
      reply.resume(returning: ())
    case .dismiss(let number): self.dismiss(number)
    case .flow(let request): self.enqueue(request)
    }
  }

  /// The current numbers of clients, flows and watched paths.
  struct Counts: Sendable {
    var guardingClients: Int
    var guardedFlows: Int
    var watchedPaths: Int
    /// The number of flows of each client of `Guard`, by client number.
    var flowsOfClients: [UInt64: Int]
  }

  private var counts: Counts {
    Counts(
      guardingClients: self.mailboxes.count, guardedFlows: self.engine.flows.count,
      watchedPaths: self.watchers.count, flowsOfClients: self.engine.flows.counts)
  }
}

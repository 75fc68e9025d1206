import Connectivity
import LinuxSupport

/// A task for the monitor thread, submitted from any thread.
enum Input: Sendable {
  /// Applies another configuration and reads everything again.
  case configure(Configuration, Reply<Void>)
  /// Replies once the kernel has been read for the first time, or could not be read.
  case awaitFirstReading(Reply<Void>)
  case query(KernelQuery)
  /// Drops a query because its client is not waiting any more.
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

/// The kernel's answer, or the reason why the query failed.
typealias KernelAnswer<Answer> = Result<Answer, KernelUnavailable>

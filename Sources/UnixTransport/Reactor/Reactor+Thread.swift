import Glibc
package import LinuxSupport
import Synchronization

// The thread that runs a reactor.
extension Reactor {
  /// Runs asynchronous code, and all tasks that it starts, on the calling thread, which becomes the
  /// reactor's. Returns when the code is done. Only the main function of a program calls it, once.
  package func runBlocking<Success: Sendable>(
    _ body: @escaping @Sendable () async throws -> Success
  ) throws -> Success {
    self.begin()
    defer { self.end() }
    let outcome = Outcome<Success>()
    Task(executorPreference: self) {
      do {
        let success = try await body()
        outcome.result.withLock { $0 = .success(success) }
      } catch {
        outcome.result.withLock { $0 = .failure(error) }
      }
    }
    while true {
      self.runJobs()
      if let result = outcome.result.withLock({ $0 }) { return try result.get() }
      self.wait()
    }
  }

  /// Returns a reactor that a new thread runs for as long as the process lives.
  ///
  /// - Throws: An error if no descriptors or threads are left.
  package static func onNewThread(named name: String) throws(SystemError) -> Reactor {
    let reactor = try Reactor()
    let isRunning = Thread.start(named: name) {
      reactor.begin()
      while true {
        reactor.runJobs()
        reactor.wait()
      }
    }
    guard isRunning else { throw SystemError() }
    return reactor
  }

  private final class Outcome<Success: Sendable>: Sendable {
    let result = Mutex<Result<Success, any Error>?>(nil)
  }
}

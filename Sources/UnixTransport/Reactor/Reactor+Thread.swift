import CLinux
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
      // Another thread may have run this while the reactor's waits.
      eventfd_write(self.bell, 1)
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

  /// Submits work. If the reactor's thread waits for descriptors, the calling thread runs that work
  /// in its place, except what takes long.
  package func runHere(_ submit: () -> Void) {
    let isIdle = self.queue.withLock { queue in
      guard queue.isWaiting, self.baton.take() else { return false }
      queue.isWaiting = false
      return true
    }
    submit()
    guard isIdle else { return }
    let owner = self.thread.exchange(UInt(pthread_self()), ordering: .relaxed)
    self.runJobs(for: Self.maxTurn)
    self.takeTurns()
    self.thread.store(owner, ordering: .relaxed)
    // Alarms that are due earlier also need another wait.
    let isDone = self.queue.withLock { queue in
      queue.isWaiting = queue.isEmpty && !self.hasTurns && !self.hasNewAlarm
      return queue.isWaiting
    }
    self.baton.pass()
    if !isDone { eventfd_write(self.bell, 1) }
  }

  /// Makes the calling thread the one that runs the reactor.
  func begin() {
    self.baton.await()
    self.thread.store(UInt(pthread_self()), ordering: .relaxed)
  }

  func end() {
    self.thread.store(0, ordering: .relaxed)
    self.baton.pass()
  }

  /// Runs the tasks of a user's calls on the reactor's thread, in the user's turn.
  final class Executor: TaskExecutor {
    let reactor: Reactor
    private let account: Account

    init(_ reactor: Reactor, of account: Account) {
      self.reactor = reactor
      self.account = account
    }

    func enqueue(_ job: consuming ExecutorJob) {
      self.reactor.add(.task(UnownedJob(job), self.asUnownedTaskExecutor()), of: self.account)
    }
  }

  private final class Outcome<Success: Sendable>: Sendable {
    let result = Mutex<Result<Success, any Error>?>(nil)
  }
}

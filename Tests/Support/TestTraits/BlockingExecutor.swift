import Glibc
import Synchronization

/// Threads that jobs may block. At most as many jobs run at once as there are threads.
final class BlockingExecutor: TaskExecutor {
  static let shared = BlockingExecutor(threads: 4)

  private let jobs = Mutex<[UnownedJob]>([])
  /// Counts the waiting jobs. Never destroyed, because the threads last as long as the process.
  private nonisolated(unsafe) let waiting: UnsafeMutablePointer<sem_t>

  private init(threads: Int) {
    self.waiting = .allocate(capacity: 1)
    sem_init(self.waiting, 0, 0)
    for _ in 0..<threads {
      var thread = pthread_t()
      let result = pthread_create(
        &thread, nil,
        { executor in
          guard let executor else { return nil }
          Unmanaged<BlockingExecutor>.fromOpaque(executor).takeRetainedValue().work()
          return nil
        }, Unmanaged.passRetained(self).toOpaque())
      precondition(result == 0, "no thread: errno \(result)")
      pthread_detach(thread)
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    self.jobs.withLock { $0.append(job) }
    sem_post(self.waiting)
  }

  private func work() {
    while true {
      guard sem_wait(self.waiting) == 0 else { continue }
      let job = self.jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      job?.runSynchronously(on: self.asUnownedTaskExecutor())
    }
  }
}

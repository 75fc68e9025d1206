internal import NIOCore

/// Runs tasks on a NIO thread, along with the connections that they serve.
///
/// Thus a message wakes one thread on its way from or to a socket, not two. It also avoids Swift's
/// own thread pool. On Linux that is libdispatch, which after its first use checks once a second
/// whether it has enough threads (`_dispatch_workq_monitor_pools` in src/event/workqueue.c). An
/// idle process must not wake up (D7).
///
/// Code that runs here must not block for long, because it stops everything else.
final class EventLoopTaskExecutor: TaskExecutor {
  private let eventLoop: any EventLoop

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    self.eventLoop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

extension EventLoop {
  /// Returns after a duration, in the machine's uptime. Unlike `Task.sleep` it needs no thread
  /// besides the loop's.
  ///
  /// - Throws: `CancellationError`.
  func sleep(for duration: Duration) async throws(CancellationError) {
    let alarm = self.scheduleTask(in: TimeAmount(duration)) {}
    do {
      try await withTaskCancellationHandler {
        try await alarm.futureResult.get()
      } onCancel: {
        alarm.cancel()
      }
    } catch {
      throw CancellationError()
    }
  }
}

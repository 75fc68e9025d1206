internal import NIOCore

/// Runs tasks on a thread of NIO's, beside the connections that they serve.
///
/// A message then wakes one thread on its way from or to a socket, not two. And nothing starts Swift's own pool of threads:
/// on Linux that is libdispatch's, which from its first use on looks once a second whether it has threads enough
/// (`_dispatch_workq_monitor_pools` of its src/event/workqueue.c), and idle is to mean idle (D7).
///
/// What runs here must not block for long: nothing else goes on meanwhile.
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
  /// Returns after the time, in the machine's uptime. Unlike `Task.sleep` it needs no thread but the loop's.
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

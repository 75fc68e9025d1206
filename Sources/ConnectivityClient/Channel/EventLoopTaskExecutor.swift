package import NIOCore

/// Runs tasks on the NIO thread of the connections that they serve. A message between a task and a
/// socket then wakes one thread, not two.
///
/// Code that runs here must not block for long, because it stops everything else.
package final class EventLoopTaskExecutor: TaskExecutor {
  private let eventLoop: any EventLoop

  package init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  package func enqueue(_ job: consuming ExecutorJob) {
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

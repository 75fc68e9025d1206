import NIOCore

/// Runs tasks on the thread that serves the socket: a change then wakes one thread on its way to a subscriber, not two.
///
/// What runs here must not block; nothing that answers a call does, since the kernel is asked on the monitor's thread.
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

import NIOCore

/// Runs all tasks on the thread that serves the socket.
///
/// A change then wakes one thread on its way to a subscriber, not two. And nothing starts Swift's own pool of threads:
/// on Linux that is libdispatch's, which from its first use on looks once a second whether it has threads enough
/// (`_dispatch_workq_monitor_pools` of its src/event/workqueue.c), and idle is to mean idle (D7).
///
/// What runs here must not block; nothing does, since the kernel is asked on the monitor's thread.
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

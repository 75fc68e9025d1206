import CLinux
import Glibc
import Synchronization

/// What is told when its descriptor is ready: that there may be something to read, room to write, or the end.
protocol Pollable: AnyObject {
  func ready()
}

/// Waits for descriptors on one thread, and runs there what is to be done when they are ready, beside Swift's tasks.
///
/// A change that is published then wakes one thread on its way to all subscribers. And nothing starts Swift's own pool of
/// threads: on Linux that is libdispatch's, which from its first use on looks once a second whether it has threads enough
/// (`_dispatch_workq_monitor_pools` of its src/event/workqueue.c), and idle is to mean idle (D7).
///
/// What runs here must not block for long: nothing else goes on meanwhile. Tasks and work may be handed over from any thread;
/// everything else belongs to the reactor's own.
package final class Reactor: TaskExecutor {
  private enum Job {
    case task(UnownedJob)
    case work(@Sendable () -> Void)
  }

  private struct Queue {
    var jobs: [Job] = []
    /// The thread waits for descriptors, and hears of jobs by the bell alone.
    var isWaiting = false
  }

  /// Work whose time has not come.
  private struct Alarm {
    var due: ContinuousClock.Instant
    var work: @Sendable () -> Void
  }

  private let queue = Mutex(Queue())
  private let epoll: CInt
  /// An eventfd that is never read: each time it is written is an edge.
  private let bell: CInt
  /// The thread that runs the reactor; 0 while none does.
  private let thread = Atomic<UInt>(0)

  // The thread's alone:
  private nonisolated(unsafe) var pollables: [CInt: any Pollable] = [:]
  private nonisolated(unsafe) var alarms: [Alarm] = []
  private nonisolated(unsafe) var unflushed: [HTTP2Connection] = []
  /// Where what is sent together is put together.
  nonisolated(unsafe) let scratch = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 48 << 10, alignment: 16)
  /// So few at a time: jobs, what was published among them, do not wait for many clients.
  private nonisolated(unsafe) let events = UnsafeMutableBufferPointer<epoll_event>.allocate(
    capacity: 16)

  /// - Throws: where there are no more descriptors to be had.
  package init() throws(SystemError) {
    self.epoll = epoll_create1(CInt(EPOLL_CLOEXEC))
    self.bell = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
    var event = epoll_event(
      events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(fd: self.bell))
    guard self.epoll >= 0, self.bell >= 0,
      epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.bell, &event) == 0
    else { throw SystemError() }
  }

  deinit {
    close(self.bell)
    close(self.epoll)
    self.events.deallocate()
    self.scratch.deallocate()
  }

  // MARK: Work

  package func enqueue(_ job: consuming ExecutorJob) {
    self.add(.task(UnownedJob(job)))
  }

  /// Does it on the reactor's thread, after what was handed over before.
  package func execute(_ work: @escaping @Sendable () -> Void) {
    self.add(.work(work))
  }

  /// Does it on the reactor's thread: at once where this is it.
  func run(_ work: @escaping @Sendable () -> Void) {
    if self.thread.load(ordering: .relaxed) == UInt(pthread_self()) {
      work()
    } else {
      self.execute(work)
    }
  }

  /// Does it after some time, in the machine's uptime. Called on the reactor's thread.
  package func execute(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    self.alarms.append(Alarm(due: .now.advanced(by: delay), work: work))
  }

  private func add(_ job: Job) {
    let isWaiting = self.queue.withLock { queue in
      queue.jobs.append(job)
      defer { queue.isWaiting = false }
      return queue.isWaiting
    }
    if isWaiting { eventfd_write(self.bell, 1) }
  }

  // MARK: Descriptors

  /// Tells of a descriptor that it can be read or has ended, until `forget`. Called on the reactor's thread.
  func watch(_ descriptor: CInt, _ pollable: any Pollable) throws(SystemError) {
    var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
    guard epoll_ctl(self.epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else { throw SystemError() }
    self.pollables[descriptor] = pollable
  }

  /// What is told of a descriptor beside its end.
  enum Readiness {
    case input, inputAndRoom, room
  }

  func watch(_ descriptor: CInt, for readiness: Readiness) {
    let events =
      switch readiness {
      case .input: EPOLLIN.rawValue
      case .inputAndRoom: EPOLLIN.rawValue | EPOLLOUT.rawValue
      case .room: EPOLLOUT.rawValue | EPOLLRDHUP.rawValue
      }
    var event = epoll_event(events: events, data: epoll_data_t(fd: descriptor))
    epoll_ctl(self.epoll, EPOLL_CTL_MOD, descriptor, &event)
  }

  func forget(_ descriptor: CInt) {
    epoll_ctl(self.epoll, EPOLL_CTL_DEL, descriptor, nil)
    self.pollables[descriptor] = nil
  }

  /// Flushes the connection before the thread waits again. Called on the reactor's thread.
  func flushSoon(_ connection: HTTP2Connection) {
    self.unflushed.append(connection)
  }

  // MARK: The thread

  /// Does something asynchronous on the calling thread, which becomes the reactor's, all tasks that it starts included, and
  /// returns when it is done: what the main function of a program needs. Called once.
  package func runBlocking<Success: Sendable>(
    _ body: @escaping @Sendable () async throws -> Success
  ) throws -> Success {
    self.thread.store(UInt(pthread_self()), ordering: .relaxed)
    defer { self.thread.store(0, ordering: .relaxed) }
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

  private final class Outcome<Success: Sendable>: Sendable {
    let result = Mutex<Result<Success, any Error>?>(nil)
  }

  /// Runs the jobs that there are, and those that they lead to, for some rounds: then it is the descriptors' turn.
  private func runJobs() {
    for _ in 0..<8 {
      let jobs = self.queue.withLock { queue in
        defer { queue.jobs = [] }
        return queue.jobs
      }
      if jobs.isEmpty { return }
      for job in jobs {
        switch job {
        case .task(let job): job.runSynchronously(on: self.asUnownedTaskExecutor())
        case .work(let work): work()
        }
      }
    }
  }

  /// Waits until a descriptor is ready, a job comes or an alarm is due, and deals with descriptors and alarms.
  private func wait() {
    let unflushed = self.unflushed
    self.unflushed = []
    for connection in unflushed { connection.flush() }
    // Some have more to send.
    let isBusy = !self.unflushed.isEmpty
    let hasJobs = self.queue.withLock { queue in
      queue.isWaiting = queue.jobs.isEmpty && !isBusy
      return !queue.jobs.isEmpty
    }
    let count = epoll_wait(
      self.epoll, self.events.baseAddress, CInt(self.events.count),
      hasJobs || isBusy ? 0 : self.timeout)
    self.queue.withLock { $0.isWaiting = false }
    for event in self.events.prefix(Int(max(0, count))) {
      // One that was closed in this turn, and whose number is another's by now, finds nothing to read.
      self.pollables[event.data.fd]?.ready()
    }
    if !self.alarms.isEmpty { self.ring() }
  }

  /// Until the first alarm, in milliseconds, rounded up; -1 for none.
  private var timeout: CInt {
    guard let due = self.alarms.map(\.due).min() else { return -1 }
    let milliseconds = ContinuousClock.now.duration(to: due) / .milliseconds(1)
    return CInt(clamping: Int(max(0, milliseconds).rounded(.up)))
  }

  private func ring() {
    let now = ContinuousClock.now
    let due = self.alarms.filter { $0.due <= now }.sorted { $0.due < $1.due }
    self.alarms.removeAll { $0.due <= now }
    for alarm in due { alarm.work() }
  }
}

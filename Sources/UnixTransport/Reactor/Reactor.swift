import CLinux
import Glibc
import Invariants
package import LinuxSupport
import Synchronization

/// An object that is called when its descriptor has input, room for output, or has ended.
protocol Pollable: AnyObject {
  /// The account that is charged for the handler's time. A handler without an account delays all
  /// clients, and is called immediately.
  var account: Account? { get }
  func ready()
}

/// Waits for descriptors on one thread, and runs their handlers there, along with Swift tasks.
///
/// Thus a published change wakes only one thread to reach all subscribers. The reactor also avoids
/// Swift's own thread pool. On Linux that is libdispatch, which after its first use checks once a
/// second whether it has enough threads (`_dispatch_workq_monitor_pools` in src/event/workqueue.c).
/// An idle connd must not wake up (D7).
///
/// Users take turns (``FairShare``): a user with much to read, do and send delays only itself.
/// Published changes wait only for the present turn or job. Then they are sent for up to 2 ms.
/// While many jobs of a user are waiting, nothing more is read from that user.
///
/// While the reactor's thread waits for descriptors, a thread with news runs the reactor in its
/// place, because waking a thread takes longer than sending the news to a few subscribers.
/// Code that runs here must not block for long, because it stops everything else. Tasks and work
/// may be submitted from any thread. Everything else belongs to the reactor's thread.
package final class Reactor: TaskExecutor {
  enum Job {
    case task(UnownedJob, UnownedTaskExecutor)
    case work(@Sendable () -> Void)
  }

  struct Queue {
    /// Work that runs before jobs.
    fileprivate(set) var news: [@Sendable () -> Void] = []
    /// The account `nil` means the program itself.
    fileprivate var jobs = FairShare<Account?, Job>()
    /// Whether the thread waits for descriptors, so that only the bell wakes it for jobs.
    var isWaiting = false

    var isEmpty: Bool { self.news.isEmpty && self.jobs.count == 0 }
  }

  /// Work that is due later.
  private struct Alarm {
    var due: ContinuousClock.Instant
    var work: @Sendable () -> Void
  }

  let queue = Mutex(Queue())
  /// Whether the queue has news, so that other work ends as soon as possible.
  private let newsFlag = Atomic(false)
  var hasNews: Bool { self.newsFlag.load(ordering: .relaxed) }
  private let epoll: CInt
  /// An eventfd that is never read, because each write triggers an edge.
  let bell: CInt
  /// The thread that runs the reactor now, or 0 if none does.
  let thread = Atomic<UInt>(0)
  /// Held while the reactor runs, and free while its thread waits for descriptors.
  let baton = Baton()

  // Used only on the reactor's thread, which `checkThread` verifies:
  private nonisolated(unsafe) var pollables: [CInt: any Pollable] = [:]
  private nonisolated(unsafe) var alarms: [AlarmID: Alarm] = [:]
  private nonisolated(unsafe) var lastAlarm: AlarmID = 0
  /// Whether an alarm was added since the thread began to wait.
  private(set) nonisolated(unsafe) var hasNewAlarm = false
  private nonisolated(unsafe) var socketWatch: SocketWatch?
  private nonisolated(unsafe) var turns = FairShare<Account, Turn>()
  var hasTurns: Bool { !self.turns.isEmpty }
  /// Descriptors that are ready but have not had their turn.
  private nonisolated(unsafe) var readyDescriptors: Set<CInt> = []
  /// The buffer in which output is combined.
  nonisolated(unsafe) let scratch = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 48 << 10, alignment: 16)
  /// The buffer for epoll's events. In a smaller one, descriptors that are always ready would delay
  /// the others.
  private nonisolated(unsafe) let events = UnsafeMutableBufferPointer<epoll_event>.allocate(
    capacity: 512)

  /// A user's work.
  private enum Turn {
    case ready(CInt)
    case flush(HTTP2Connection)
    case work(() -> Void)
  }

  /// - Throws: An error if no descriptors are left.
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
    self.add(.task(UnownedJob(job), self.asUnownedTaskExecutor()), of: nil)
  }

  /// Runs work on the reactor's thread, after the program's earlier work.
  package func execute(_ work: @escaping @Sendable () -> Void) {
    self.add(.work(work), of: nil)
  }

  /// Runs work before everything else, on the reactor's thread or on the calling one.
  package func executeNext(_ work: @escaping @Sendable () -> Void) {
    self.runHere {
      self.add { queue in
        queue.news.append(work)
        self.newsFlag.store(true, ordering: .relaxed)
      }
    }
  }

  /// Runs work on the reactor's thread, immediately if that is the current thread.
  func run(_ work: @escaping @Sendable () -> Void) {
    if self.thread.load(ordering: .relaxed) == UInt(pthread_self()) {
      work()
    } else {
      self.execute(work)
    }
  }

  /// Checks that the calling thread may use what belongs to the reactor's thread. Before the
  /// reactor runs and after it has ended, any thread may.
  package func checkThread(file: StaticString = #fileID, line: UInt = #line) {
    let thread = self.thread.load(ordering: .relaxed)
    invariant(
      thread == 0 || thread == UInt(pthread_self()), "this belongs to the reactor's thread",
      file: file, line: line)
  }

  package typealias AlarmID = UInt64

  /// Runs work after a delay, in the machine's uptime. Must be called on the reactor's thread.
  @discardableResult
  package func execute(
    after delay: Duration, _ work: @escaping @Sendable () -> Void
  ) -> AlarmID {
    self.checkThread()
    self.lastAlarm += 1
    self.alarms[self.lastAlarm] = Alarm(due: .now.advanced(by: delay), work: work)
    self.hasNewAlarm = true
    return self.lastAlarm
  }

  /// Cancels work that is due later. Must be called on the reactor's thread.
  func cancel(_ alarm: AlarmID) {
    self.checkThread()
    self.alarms[alarm] = nil
  }

  func add(_ job: Job, of account: Account?) {
    self.add { $0.jobs.append(job, of: account) }
  }

  private func add(_ append: (inout Queue) -> Void) {
    let isWaiting = self.queue.withLock { queue in
      append(&queue)
      defer { queue.isWaiting = false }
      return queue.isWaiting
    }
    if isWaiting { eventfd_write(self.bell, 1) }
  }

  // MARK: Descriptors

  /// Calls a pollable when its descriptor has input or has ended, until `forget`. Must be called on
  /// the reactor's thread.
  func watch(_ descriptor: CInt, _ pollable: any Pollable) throws(SystemError) {
    self.checkThread()
    var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
    guard epoll_ctl(self.epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else { throw SystemError() }
    self.pollables[descriptor] = pollable
  }

  /// The events of a descriptor to report, in addition to its end.
  enum Readiness {
    case input, inputAndRoom, room
  }

  func watch(_ descriptor: CInt, for readiness: Readiness) {
    self.checkThread()
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
    self.checkThread()
    epoll_ctl(self.epoll, EPOLL_CTL_DEL, descriptor, nil)
    self.pollables[descriptor] = nil
  }

  /// The sockets that tasks wait for. Must be used on the reactor's thread.
  var sockets: SocketWatch {
    self.checkThread()
    if let watch = self.socketWatch { return watch }
    let watch = SocketWatch(self)
    self.socketWatch = watch
    return watch
  }

  /// Flushes the connection before the thread waits again. Must be called on the reactor's thread.
  func flushSoon(_ connection: HTTP2Connection) {
    self.checkThread()
    self.turns.append(.flush(connection), of: connection.owningAccount)
  }

  /// Runs work in the user's turn. Must be called on the reactor's thread.
  func execute(inTurnOf account: Account, _ work: @escaping () -> Void) {
    self.checkThread()
    self.turns.append(.work(work), of: account)
  }

  // MARK: The thread

  /// How long jobs run before descriptors are handled, and how long descriptors are handled before
  /// jobs run.
  static let maxTurn = Duration.microseconds(200)
  /// How long news is sent before other work. Users that have lately used little come first.
  private static let maxSending = Duration.milliseconds(2)
  /// The number of a user's waiting jobs at which reading from that user stops.
  private static let manyJobs = 64
  /// The maximum time for jobs and news before descriptors and alarms are handled.
  private static let maxRun = Duration.milliseconds(4)

  /// Runs the waiting jobs, and new ones that they add, within the time limit.
  func runJobs(for limit: Duration = Reactor.maxRun) {
    var now = Thread.worked
    let last = now + limit
    var end = now + Self.maxTurn
    repeat {
      let (news, turn) = self.queue.withLock { queue in
        defer {
          queue.news = []
          self.newsFlag.store(false, ordering: .relaxed)
        }
        return (queue.news, queue.jobs.popFirst())
      }
      for work in news { work() }
      if !news.isEmpty {
        // Send what this work has produced before running jobs that follow from it.
        self.takeTurns(for: min(Self.maxSending, limit), untilNews: false)
        now = Thread.worked
        end = min(now + Self.maxTurn, last)
      }
      guard let turn else {
        if news.isEmpty { return }
        continue
      }
      switch turn.item {
      case .task(let job, let executor): job.runSynchronously(on: executor)
      case .work(let work): work()
      }
      let then = Thread.worked
      self.queue.withLock { $0.jobs.charge(then - now, to: turn.user) }
      now = then
    } while now < end
  }

  /// Waits until a descriptor is ready, a job arrives, or an alarm is due. Then handles descriptors
  /// and alarms.
  func wait() {
    self.takeTurns()
    let isBusy = self.hasTurns
    let jobs = self.queue.withLock { queue in
      let count = queue.news.count + queue.jobs.count
      queue.isWaiting = count == 0 && !isBusy
      return count
    }
    let timeout = jobs > 0 || isBusy ? 0 : self.timeout
    self.hasNewAlarm = false
    self.baton.pass()
    let count = epoll_wait(
      self.epoll, self.events.baseAddress, CInt(self.events.count), timeout)
    self.baton.await()
    self.queue.withLock { $0.isWaiting = false }
    for event in self.events.prefix(Int(max(0, count))) { self.becameReady(event.data.fd) }
    self.takeTurns()
    if !self.alarms.isEmpty { self.ring() }
  }

  private func becameReady(_ descriptor: CInt) {
    guard let pollable = self.pollables[descriptor] else { return }
    guard let account = pollable.account else { return pollable.ready() }
    // If the descriptor is not queued now, epoll reports it again.
    let jobs = self.queue.withLock { $0.jobs.count(of: account) }
    if jobs < Self.manyJobs, self.readyDescriptors.insert(descriptor).inserted {
      self.turns.append(.ready(descriptor), of: account)
    }
  }

  /// - Parameter untilNews: Whether news ends the turns early.
  func takeTurns(for time: Duration = Reactor.maxTurn, untilNews: Bool = true) {
    guard !self.turns.isEmpty else { return }
    var now = Thread.worked
    let end = now + time
    while now < end, !untilNews || !self.hasNews, let turn = self.turns.popFirst() {
      switch turn.item {
      case .ready(let descriptor):
        self.readyDescriptors.remove(descriptor)
        // If the descriptor was closed and its number reused in the meantime, the new descriptor
        // merely has nothing to read.
        self.pollables[descriptor]?.ready()
      case .flush(let connection): connection.flush()
      case .work(let work): work()
      }
      let then = Thread.worked
      self.turns.charge(then - now, to: turn.user)
      now = then
    }
  }

  /// The time until the first alarm in milliseconds, rounded up, or -1 without one.
  private var timeout: CInt {
    guard let due = self.alarms.values.lazy.map(\.due).min() else { return -1 }
    let milliseconds = ContinuousClock.now.duration(to: due) / .milliseconds(1)
    return CInt(clamping: Int(max(0, milliseconds).rounded(.up)))
  }

  private func ring() {
    let now = ContinuousClock.now
    let due = self.alarms.filter { $0.value.due <= now }.sorted { $0.value.due < $1.value.due }
    for (id, _) in due {
      // Earlier work may have cancelled the alarm.
      if let alarm = self.alarms.removeValue(forKey: id) { alarm.work() }
    }
  }
}

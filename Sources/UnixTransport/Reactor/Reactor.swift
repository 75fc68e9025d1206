import CLinux
import Glibc
import Synchronization

/// What is told when its descriptor is ready: that there may be something to read, room to write, or the end.
protocol Pollable: AnyObject {
  /// The account whose time it takes. If `nil`, it takes every client's, and is called immediately.
  var account: Account? { get }
  func ready()
}

/// Waits for descriptors on one thread, and runs there what is to be done when they are ready, beside Swift's tasks.
///
/// A change that is published then wakes one thread on its way to all subscribers. And nothing starts Swift's own pool of
/// threads: on Linux that is libdispatch's, which from its first use on looks once a second whether it has threads enough
/// (`_dispatch_workq_monitor_pools` of its src/event/workqueue.c), and idle is to mean idle (D7).
///
/// Users take turns (``FairShare``): who has much read, done and sent waits for himself. What is published waits for a fifth of a
/// millisecond of that at most, and as long for jobs; of a user nothing is read as long as many of his wait, which come of what was
/// read before.
///
/// What runs here must not block for long: nothing else goes on meanwhile. Tasks and work may be handed over from any thread;
/// everything else belongs to the reactor's own.
package final class Reactor: TaskExecutor {
  private enum Job {
    case task(UnownedJob, UnownedTaskExecutor)
    case work(@Sendable () -> Void)
  }

  private struct Queue {
    /// What goes before jobs.
    var news: [@Sendable () -> Void] = []
    /// `nil` stands for the program itself.
    var jobs = FairShare<Account?, Job>()
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
  private nonisolated(unsafe) var turns = FairShare<Account, Turn>()
  /// Descriptors that are ready, and whose turn has not come.
  private nonisolated(unsafe) var readyDescriptors: Set<CInt> = []
  /// Where what is sent together is put together.
  nonisolated(unsafe) let scratch = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 48 << 10, alignment: 16)
  private nonisolated(unsafe) let events = UnsafeMutableBufferPointer<epoll_event>.allocate(
    capacity: 64)

  /// What is to be done for a user.
  private enum Turn {
    case ready(CInt)
    case flush(HTTP2Connection)
    case work(() -> Void)
  }

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
    self.add(.task(UnownedJob(job), self.asUnownedTaskExecutor()), of: nil)
  }

  /// Runs the tasks of a user's calls on the reactor's thread, in his turn.
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

  /// Does it on the reactor's thread, after what the program has handed over before.
  package func execute(_ work: @escaping @Sendable () -> Void) {
    self.add(.work(work), of: nil)
  }

  /// Does it on the reactor's thread, before what else there is to be done.
  package func executeNext(_ work: @escaping @Sendable () -> Void) {
    self.add { $0.news.append(work) }
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

  private func add(_ job: Job, of account: Account?) {
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
    self.turns.append(.flush(connection), of: connection.owningAccount)
  }

  /// Does it when it is the user's turn. Called on the reactor's thread.
  func execute(inTurnOf account: Account, _ work: @escaping () -> Void) {
    self.turns.append(.work(work), of: account)
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

  /// How long jobs are run before it is the descriptors' turn, and those.
  private static let longestTurn = Duration.microseconds(200)
  /// With so many jobs of a user waiting nothing is read of him.
  private static let manyJobs = 64

  /// Runs the jobs that there are, and those that they lead to, as far as there is time.
  private func runJobs() {
    var now = ContinuousClock.now
    var end = now.advanced(by: Self.longestTurn)
    repeat {
      let (news, turn) = self.queue.withLock { queue in
        defer { queue.news = [] }
        return (queue.news, queue.jobs.popFirst())
      }
      for work in news { work() }
      if !news.isEmpty {
        // It goes out before what else is done about it.
        self.takeTurns()
        now = .now
        end = now.advanced(by: Self.longestTurn)
      }
      guard let turn else {
        if news.isEmpty { return }
        continue
      }
      switch turn.item {
      case .task(let job, let executor): job.runSynchronously(on: executor)
      case .work(let work): work()
      }
      let then = ContinuousClock.now
      self.queue.withLock { $0.jobs.charge(now.duration(to: then), to: turn.user) }
      now = then
    } while now < end
  }

  /// Waits until a descriptor is ready, a job comes or an alarm is due, and deals with descriptors and alarms.
  private func wait() {
    self.takeTurns()
    let isBusy = !self.turns.isEmpty
    let jobs = self.queue.withLock { queue in
      let count = queue.news.count + queue.jobs.count
      queue.isWaiting = count == 0 && !isBusy
      return count
    }
    let count = epoll_wait(
      self.epoll, self.events.baseAddress, CInt(self.events.count),
      jobs > 0 || isBusy ? 0 : self.timeout)
    self.queue.withLock { $0.isWaiting = false }
    for event in self.events.prefix(Int(max(0, count))) { self.becameReady(event.data.fd) }
    self.takeTurns()
    if !self.alarms.isEmpty { self.ring() }
  }

  private func becameReady(_ descriptor: CInt) {
    guard let pollable = self.pollables[descriptor] else { return }
    guard let account = pollable.account else { return pollable.ready() }
    // It is told again.
    let jobs = self.queue.withLock { $0.jobs.count(of: account) }
    if jobs < Self.manyJobs, self.readyDescriptors.insert(descriptor).inserted {
      self.turns.append(.ready(descriptor), of: account)
    }
  }

  private func takeTurns() {
    guard !self.turns.isEmpty else { return }
    var now = ContinuousClock.now
    let end = now.advanced(by: Self.longestTurn)
    while now < end, let turn = self.turns.popFirst() {
      switch turn.item {
      case .ready(let descriptor):
        self.readyDescriptors.remove(descriptor)
        // One that was closed meanwhile, and whose number is another's by now, finds nothing to read.
        self.pollables[descriptor]?.ready()
      case .flush(let connection): connection.flush()
      case .work(let work): work()
      }
      let then = ContinuousClock.now
      self.turns.charge(now.duration(to: then), to: turn.user)
      now = then
    }
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

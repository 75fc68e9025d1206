import CLinux
import Connectivity
import DequeModule
import Glibc
import Logging
import Netlink
import Systemd

/// The loop of the one thread that owns the kernel: wait, drain, read, compare, publish.
///
/// It never waits for a subscriber, and with nothing to do it does not wake: the only timeouts are the ends of holds and of
/// graces, systemd's watchdog where there is one, and the next attempt while the kernel cannot be asked.
struct MonitorLoop {
  let store: Store
  let statistics: Statistics
  let logger: Logger
  private let notifier: Notifier
  private let openKernel: (_ watching: Watched) throws(KernelUnavailable) -> NetlinkKernel

  var engine: Engine
  /// How many flows clients may have.
  var limits: Limits
  var refusals = LogThrottle()
  private var overruns = LogThrottle()
  private(set) var kernel: NetlinkKernel?
  private let history: HistoryFile
  var watchers: [Destination: [UInt64: AsyncStream<Path>.Continuation]] = [:]
  var lastWatcher: UInt64 = 0

  var guardians: [UInt64: Guardian] = [:]
  var requests: Deque<GuardRequest> = []
  /// The addresses that the kernel's filter lets routes pass for.
  var filtered: Set<IPAddress> = []
  /// How many of them nobody needs any more.
  var unneeded = 0
  private var sleep = SleepWatch()
  private var reopening = Reopening()
  private var watchdogDue: Instant?
  /// What was published, of which those who observe the store and the log have not heard.
  private var news: [(change: Change, status: Status)] = []

  init(
    _ configuration: Configuration, store: Store, statistics: Statistics, history: HistoryFile,
    notifier: Notifier, logger: Logger,
    openKernel: @escaping (_ watching: Watched) throws(KernelUnavailable) -> NetlinkKernel
  ) {
    self.store = store
    self.statistics = statistics
    self.history = history
    self.notifier = notifier
    self.logger = logger
    self.openKernel = openKernel
    self.limits = configuration.limits
    let snapshot = store.snapshot
    self.engine = Engine(configuration, restored: snapshot.generation > 0 ? snapshot : nil)
  }

  /// Opens the kernel and reads it for the first time.
  mutating func start() {
    self.history.rewrite(self.store.past)
    self.openKernelOrGiveUp(.start)
    self.answerWatchdog()
  }

  /// Waits until something happens, and deals with it: the kernel's messages first.
  ///
  /// - Parameter wakeUp: what ends the wait from outside.
  mutating func turn(_ wakeUp: WakeUp) {
    self.takeRequests()
    self.narrowFilter()
    self.tellOfNews()
    var descriptors = [
      pollfd(fd: wakeUp.fileDescriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: self.kernel?.fileDescriptor ?? -1, events: Int16(POLLIN), revents: 0),
      pollfd(fd: self.sleep.fileDescriptor, events: Int16(POLLIN), revents: 0),
    ]
    let count = poll(&descriptors, nfds_t(descriptors.count), self.timeout)
    let slept = self.sleep.check()
    if count > 0, descriptors[0].revents != 0 { wakeUp.clear() }
    if count > 0, descriptors[1].revents != 0 { self.drain() }
    if count > 0, descriptors[2].revents != 0 { self.sleep.rearm() }
    if let slept { self.step(.resumed(slept)) }

    let now = Instant.now()
    if self.kernel != nil, let deadline = self.engine.deadline, deadline <= now {
      self.step(.timer)
    }
    if self.kernel != nil, let deadline = self.engine.flowDeadline, deadline <= now {
      self.engine.lookAtOverdueFlows(at: now)
    }
    if let due = self.reopening.due, due <= now { self.openKernelOrGiveUp(.kernelBack) }
    if let due = self.watchdogDue, due <= now { self.answerWatchdog() }
    self.evaluateFlows()
  }

  /// For poll(2): -1 with nothing to wait for but descriptors.
  private var timeout: CInt {
    if !self.requests.isEmpty { return 0 }
    var due = [self.reopening.due, self.watchdogDue]
    // Without the kernel nothing can be looked at.
    if self.kernel != nil {
      if self.engine.isBusy { return 0 }
      due += [self.engine.deadline, self.engine.flowDeadline]
    }
    let next = due.compactMap { $0 }.min()
    return next.map { Instant.now().duration(to: $0).pollTimeout } ?? -1
  }

  mutating func drain() {
    guard let kernel = self.kernel else { return }
    var events: [KernelEvent] = []
    do throws(KernelUnavailable) {
      var mayHaveMore = true
      while mayHaveMore {
        events.removeAll(keepingCapacity: true)
        mayHaveMore = try kernel.drain(into: &events)
        self.statistics.count(events)
        self.log(events)
        if !events.isEmpty { self.step(.events(events)) }
      }
    } catch {
      self.lose(error)
    }
  }

  private mutating func log(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .overrun:
        // With a small buffer and much going on, the next one is there when this line is written.
        guard let suppressed = self.overruns.next(at: .now()) else { continue }
        self.logger.notice(
          "the kernel's messages came faster than they were read; reading anew",
          metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : nil)
      case .malformed(let text):
        self.logger.warning("a netlink message cannot be read", metadata: ["message": "\(text)"])
      default:
        self.logger.trace("netlink", metadata: ["event": "\(event)"])
      }
    }
  }

  /// Reads the kernel and publishes what has changed; then follows what single clients follow.
  mutating func step(_ occasion: Occasion) {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      let step = try self.engine.step(occasion, kernel: kernel, at: .now(), time: .now())
      self.publish(step.changes)
      self.statistics.count(step.occasion, published: step.changes.count)
      self.publish(try self.engine.follow(step, kernel: kernel))
      if self.engine.hasNewGateways { try self.watchGateways(kernel) }
    } catch {
      self.lose(error)
    }
  }

  private mutating func publish(_ changes: [Change]) {
    guard !changes.isEmpty else { return }
    do {
      let published = try changes.map { try Published($0) }
      self.history.append(published, past: { self.store.past })
      self.store.publish(published)
    } catch {
      self.logger.critical("a change cannot be serialised", metadata: ["error": "\(error)"])
    }
    let status = self.engine.snapshot.status
    self.news += changes.map { ($0, $0.snapshot?.status ?? status) }
  }

  /// Tells those who can wait until the flows of clients were looked at.
  mutating func tellOfNews() {
    guard !self.news.isEmpty else { return }
    for (change, status) in self.news {
      self.statistics.count(change)
      self.log(change, status)
    }
    self.news.removeAll(keepingCapacity: true)
    self.store.touch()
  }

  private func publish(_ paths: [(destination: Destination, path: Path)]) {
    for (destination, path) in paths {
      for watcher in (self.watchers[destination] ?? [:]).values { watcher.yield(path) }
    }
  }

  private func log(_ change: Change, _ status: Status) {
    guard self.logger.logLevel <= .notice else { return }
    var metadata: Logger.Metadata = [
      "generation": "\(change.generation)", "category": "\(status.category.rawValue)",
    ]
    metadata["interface"] = status.interface.map { "\($0)" }
    switch change {
    case .invalidation(let invalidation):
      metadata["interface"] = invalidation.scope.interface.map { "\($0)" }
      metadata["reason"] = "\(invalidation.reason.rawValue)"
      metadata["severity"] = "\(invalidation.severity.rawValue)"
      metadata["cause"] = "\(invalidation.cause.change)"
      self.logger.info("channels are not viable", metadata: metadata)
    case .transition(let transition):
      metadata["from"] = "\(transition.from.rawValue)"
      metadata["cause"] = "\(transition.cause.change)"
      metadata["bounced"] = transition.bounced ? "true" : nil
      self.logger.notice("the category is \(status.category.rawValue)", metadata: metadata)
    case .path(let path):
      metadata["cause"] = "\(path.cause.change)"
      self.logger.info("the path has changed", metadata: metadata)
    }
  }

  private mutating func answerWatchdog() {
    guard let interval = self.notifier.watchdogInterval else { return }
    self.notifier.watchdog()
    self.watchdogDue = Instant.now().advanced(by: interval)
  }
}

// MARK: - Without the kernel

extension MonitorLoop {
  /// When to try again to open the kernel: after a second, and then ever more rarely.
  fileprivate struct Reopening {
    var due: Instant?
    private var pause = Duration.seconds(1)

    mutating func failed(at now: Instant) {
      self.due = now.advanced(by: self.pause)
      self.pause = min(self.pause * 2, .seconds(60))
    }

    mutating func succeeded() {
      self = Reopening()
    }
  }

  private mutating func openKernelOrGiveUp(_ occasion: Occasion) {
    do throws(KernelUnavailable) {
      let watched = self.engine.watchedByKernel
      self.kernel = try self.openKernel(watched)
      self.filterIs(watched)
      self.step(occasion)
      if self.kernel != nil { self.reopening.succeeded() }
    } catch {
      self.lose(error)
    }
  }

  mutating func lose(_ error: KernelUnavailable) {
    self.kernel = nil
    self.statistics.kernelLosses.increment()
    self.reopening.failed(at: .now())
    self.logger.error(
      "the kernel cannot be asked: the category is unknown, applications should assume that they are online",
      metadata: ["error": "\(error)"])
    let lost = self.engine.lostKernel(error, at: .now(), time: .now())
    self.publish(lost.changes)
    self.publish(lost.paths)
  }
}

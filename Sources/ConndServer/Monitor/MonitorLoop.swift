import CLinux
import Connectivity
import Glibc
import Logging
import Systemd

/// The loop of the one thread that owns the kernel: wait, drain, read, compare, publish.
///
/// It never waits for a subscriber, and with nothing to do it does not wake: the only timeouts are the deadlines of held
/// gains, systemd's watchdog where there is one, and the next attempt while the kernel cannot be asked.
struct MonitorLoop {
  private let store: Store
  private let logger: Logger
  private let notifier: Notifier
  private let openKernel: (_ watching: [IPAddress]) throws(KernelUnavailable) -> NetlinkKernel

  private(set) var engine: Engine
  private(set) var kernel: NetlinkKernel?
  private let history: HistoryFile
  private var watchers: [Destination: [UInt64: AsyncStream<Path>.Continuation]] = [:]
  private var lastWatcher: UInt64 = 0

  private var deadline: Instant?
  private var reopening = Reopening()
  private var watchdogDue: Instant?

  init(
    _ configuration: Configuration, store: Store, history: HistoryFile, notifier: Notifier,
    logger: Logger,
    openKernel: @escaping (_ watching: [IPAddress]) throws(KernelUnavailable) -> NetlinkKernel
  ) {
    self.store = store
    self.history = history
    self.notifier = notifier
    self.logger = logger
    self.openKernel = openKernel
    let snapshot = store.snapshot
    self.engine = Engine(configuration, restored: snapshot.generation > 0 ? snapshot : nil)
  }

  /// Opens the kernel and reads it for the first time.
  mutating func start() {
    self.history.rewrite(self.store.past)
    self.openKernelOrGiveUp(.start)
    self.answerWatchdog()
  }

  /// Waits until something happens, and deals with it.
  ///
  /// - Parameter wakeUp: what ends the wait from outside.
  mutating func turn(_ wakeUp: WakeUp) {
    var descriptors = [
      pollfd(fd: wakeUp.fileDescriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: self.kernel?.fileDescriptor ?? -1, events: Int16(POLLIN), revents: 0),
    ]
    let due = [self.deadline, self.reopening.due, self.watchdogDue].compactMap { $0 }.min()
    let timeout = due.map { Instant.now().duration(to: $0).pollTimeout } ?? -1
    let count = poll(&descriptors, 2, timeout)
    if count > 0, descriptors[0].revents != 0 { wakeUp.clear() }
    if count > 0, descriptors[1].revents != 0 { self.drain() }

    let now = Instant.now()
    if let deadline = self.deadline, deadline <= now { self.step(.timer) }
    if let due = self.reopening.due, due <= now { self.openKernelOrGiveUp(.kernelBack) }
    if let due = self.watchdogDue, due <= now { self.answerWatchdog() }
  }

  private mutating func drain() {
    guard let kernel = self.kernel else { return }
    var events: [KernelEvent] = []
    do throws(KernelUnavailable) {
      var mayHaveMore = true
      while mayHaveMore {
        events.removeAll(keepingCapacity: true)
        mayHaveMore = try kernel.drain(into: &events)
        self.log(events)
        if !events.isEmpty { self.step(.events(events)) }
      }
    } catch {
      self.lose(error)
    }
  }

  private func log(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .overrun:
        self.logger.notice("the kernel's messages came faster than they were read; reading anew")
      case .malformed(let text):
        self.logger.warning("a netlink message cannot be read", metadata: ["message": "\(text)"])
      default:
        self.logger.trace("netlink", metadata: ["event": "\(event)"])
      }
    }
  }

  /// Reads the kernel and publishes what has changed.
  private mutating func step(_ occasion: Occasion) {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      self.publish(
        try self.engine.step(occasion, kernel: kernel, at: .now(), time: .now()))
    } catch {
      self.lose(error)
    }
  }

  private mutating func publish(_ step: Engine.Step) {
    self.deadline = step.deadline
    if let change = step.change {
      do {
        let published = try Published(change)
        self.history.append(published, past: { self.store.past })
        self.store.publish(published)
      } catch {
        self.logger.critical(
          "a change cannot be serialised", metadata: ["error": "\(error)"])
      }
      self.log(change)
    }
    for (destination, path) in step.paths {
      for watcher in (self.watchers[destination] ?? [:]).values { watcher.yield(path) }
    }
  }

  private func log(_ change: Change) {
    let status = change.snapshot.status
    var metadata: Logger.Metadata = [
      "generation": "\(change.generation)", "category": "\(status.category.rawValue)",
    ]
    metadata["interface"] = status.interface.map { "\($0)" }
    switch change {
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
      self.kernel = try self.openKernel(self.engine.watchedAddresses)
      self.step(occasion)
      if self.kernel != nil { self.reopening.succeeded() }
    } catch {
      self.lose(error)
    }
  }

  private mutating func lose(_ error: KernelUnavailable) {
    self.kernel = nil
    self.reopening.failed(at: .now())
    self.logger.error(
      "the kernel cannot be asked: the category is unknown, applications should assume that they are online",
      metadata: ["error": "\(error)"])
    self.publish(self.engine.lostKernel(error, at: .now(), time: .now()))
  }
}

// MARK: - What others ask of the thread

extension MonitorLoop {
  /// Takes another configuration and looks at everything with its eyes.
  mutating func configure(_ configuration: Configuration) {
    self.engine.configure(configuration)
    self.updateFilter()
    self.step(.configuration)
  }

  /// Follows a destination: the stream yields its path now, and then each new one, of which a slow reader gets the last.
  ///
  /// - Returns: the stream, and the number under which `unwatch` ends it.
  mutating func watch(_ destination: Destination) -> (AsyncStream<Path>, UInt64) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Path.self, bufferingPolicy: .bufferingNewest(1))
    self.lastWatcher += 1
    let isNew = self.watchers[destination] == nil
    self.watchers[destination, default: [:]][self.lastWatcher] = continuation
    // First the filter, then the reading: what changes in between is told.
    self.engine.watch(destination, path: .unknown)
    if isNew { self.updateFilter() }
    let path = self.path(to: destination)
    self.engine.watch(destination, path: path)
    continuation.yield(path)
    return (stream, self.lastWatcher)
  }

  mutating func unwatch(_ destination: Destination, _ watcher: UInt64) {
    self.watchers[destination]?.removeValue(forKey: watcher)?.finish()
    guard self.watchers[destination]?.isEmpty == true else { return }
    self.watchers[destination] = nil
    self.engine.unwatch(destination)
    self.updateFilter()
  }

  /// Ends all streams of `watch`: connd is stopping.
  mutating func endWatches() {
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
  }

  private mutating func path(to destination: Destination) -> Path {
    guard let kernel = self.kernel else { return .unknown }
    do throws(KernelUnavailable) {
      return try self.engine.reader.path(to: destination, from: kernel)
    } catch {
      self.lose(error)
      return .unknown
    }
  }

  private mutating func updateFilter() {
    do throws(KernelUnavailable) {
      try self.kernel?.watch(self.engine.watchedAddresses)
    } catch {
      self.lose(error)
    }
  }
}

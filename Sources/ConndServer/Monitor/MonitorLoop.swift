import CLinux
import Connectivity
import Glibc
import Logging
import Netlink
import Systemd

/// The loop of the one thread that owns the kernel: wait, drain, read, compare, publish.
///
/// It never waits for a subscriber, and with nothing to do it does not wake: the only timeouts are the deadlines of held
/// gains, systemd's watchdog where there is one, and the next attempt while the kernel cannot be asked.
struct MonitorLoop {
  private let store: Store
  private let logger: Logger
  private let notifier: Notifier
  private let openKernel: (_ watching: Watched) throws(KernelUnavailable) -> NetlinkKernel

  private(set) var engine: Engine
  private(set) var kernel: NetlinkKernel?
  private let history: HistoryFile
  private var watchers: [Destination: [UInt64: AsyncStream<Path>.Continuation]] = [:]
  private var lastWatcher: UInt64 = 0

  private var guardians: [UInt64: Guardian] = [:]
  private var registrations: [FlowTable.Registration] = []
  /// The kernel's filter lets pass what concerns flows that are not guarded any more.
  private var isFilterWide = false
  private var sleep = SleepWatch()
  private var reopening = Reopening()
  private var watchdogDue: Instant?

  init(
    _ configuration: Configuration, store: Store, history: HistoryFile, notifier: Notifier,
    logger: Logger,
    openKernel: @escaping (_ watching: Watched) throws(KernelUnavailable) -> NetlinkKernel
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

  /// Waits until something happens, and deals with it: the kernel's messages first.
  ///
  /// - Parameter wakeUp: what ends the wait from outside.
  mutating func turn(_ wakeUp: WakeUp) {
    self.register()
    if self.isFilterWide, !self.engine.isBusy { self.updateFilter() }
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
    var due = [self.reopening.due, self.watchdogDue]
    // Without the kernel nothing can be looked at.
    if self.kernel != nil {
      if self.engine.isBusy { return 0 }
      due += [self.engine.deadline, self.engine.flowDeadline]
    }
    let next = due.compactMap { $0 }.min()
    return next.map { Instant.now().duration(to: $0).pollTimeout } ?? -1
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

  /// Reads the kernel and publishes what has changed; then follows what single clients follow.
  private mutating func step(_ occasion: Occasion) {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      let step = try self.engine.step(occasion, kernel: kernel, at: .now(), time: .now())
      self.publish(step.changes)
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
    for change in changes { self.log(change) }
  }

  private func publish(_ paths: [(destination: Destination, path: Path)]) {
    for (destination, path) in paths {
      for watcher in (self.watchers[destination] ?? [:]).values { watcher.yield(path) }
    }
  }

  private func log(_ change: Change) {
    let status = self.engine.snapshot.status
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
      self.kernel = try self.openKernel(self.engine.watchedByKernel)
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
    let lost = self.engine.lostKernel(error, at: .now(), time: .now())
    self.publish(lost.step.changes)
    self.publish(lost.paths)
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

  /// Ends all streams of `watch` and of `Guard`: connd is stopping.
  mutating func endStreams() {
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
    for guardian in self.guardians.values { guardian.finish() }
    self.guardians = [:]
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
    self.isFilterWide = false
    do throws(KernelUnavailable) {
      try self.kernel?.watch(self.engine.watchedByKernel)
    } catch {
      self.lose(error)
    }
  }

  /// Has the filter let pass what concerns the gateways in use, and looks at what may have come before it did.
  private mutating func watchGateways(_ kernel: NetlinkKernel) throws(KernelUnavailable) {
    try kernel.watch(self.engine.watchedByKernel)
    let missed = try self.engine.filterIsSet(kernel)
    if !missed.isEmpty { self.step(.events(missed)) }
  }
}

// MARK: - Flows

extension MonitorLoop {
  /// The flows of a client's stream, and of all of them: what is more is refused.
  static let mostFlows = (ofOneStream: 16_384, inAll: 131_072)

  mutating func admit(_ guardian: Guardian) {
    self.guardians[guardian.number] = guardian
  }

  mutating func dismiss(_ guardian: Guardian) {
    guard self.guardians.removeValue(forKey: guardian.number) != nil else { return }
    guardian.finish()
    self.registrations.removeAll { $0.key.guardian == guardian.number }
    let flows = self.engine.guardedFlows(of: guardian.number)
    guard flows > 0 else { return }
    self.engine.removeFlows(of: guardian.number)
    self.isFilterWide = true
    self.logger.debug(
      "a client's flows are let go",
      metadata: ["flows": "\(flows)", "left": "\(self.engine.guardedFlows)"])
  }

  /// Guards a flow from the next turn on: many that come together cost one change of the filter.
  mutating func add(_ registration: FlowTable.Registration) {
    guard let guardian = self.guardians[registration.key.guardian] else { return }
    let isPending = self.registrations.contains { $0.key == registration.key }
    if isPending || self.engine.isGuarded(registration.key) {
      self.answer(
        guardian, registration.key.id,
        .refused(.init(code: 3, message: "add.id: flow \(registration.key.id) is guarded already")))
    } else if let limit = self.exceededLimit(registration.key.guardian) {
      self.answer(guardian, registration.key.id, .refused(.init(code: 8, message: limit)))
    } else {
      self.registrations.append(registration)
    }
  }

  mutating func removeFlow(_ key: FlowTable.Key) {
    guard let guardian = self.guardians[key.guardian] else { return }
    self.register()
    guard self.engine.isGuarded(key) else {
      self.answer(
        guardian, key.id,
        .refused(.init(code: 3, message: "remove.id: no flow \(key.id) is guarded")))
      return
    }
    self.engine.removeFlow(key)
    self.isFilterWide = true
    guardian.answered()
  }

  private func exceededLimit(_ guardian: UInt64) -> String? {
    let waiting = self.registrations.count { $0.key.guardian == guardian }
    if self.engine.guardedFlows(of: guardian) + waiting >= Self.mostFlows.ofOneStream {
      return "add: a stream guards at most \(Self.mostFlows.ofOneStream) flows"
    }
    if self.engine.guardedFlows + self.registrations.count >= Self.mostFlows.inAll {
      return "add: connd guards at most \(Self.mostFlows.inAll) flows"
    }
    return nil
  }

  /// Begins to guard what was added since the last turn.
  private mutating func register() {
    guard !self.registrations.isEmpty else { return }
    let registrations = self.registrations
    self.registrations = []
    // First the filter, then the reading: what changes in between is told.
    let addresses = registrations.map(\.flow.destination.address)
    do throws(KernelUnavailable) {
      guard let kernel = self.kernel else { throw KernelUnavailable.notOpen }
      try kernel.watch(self.engine.watchedByKernel.and(addresses))
      for registration in registrations {
        let event = try self.engine.guardFlow(registration, from: kernel, at: .now())
        guard let guardian = self.guardians[registration.key.guardian] else { continue }
        self.answer(guardian, registration.key.id, Guardian.Event(event))
      }
      if self.engine.hasNewGateways { try self.watchGateways(kernel) }
    } catch {
      for registration in registrations where !self.engine.isGuarded(registration.key) {
        guard let guardian = self.guardians[registration.key.guardian] else { continue }
        self.answer(
          guardian, registration.key.id,
          .refused(.init(code: 14, message: "the kernel cannot be asked: \(error)")))
      }
      if self.kernel != nil { self.lose(error) }
    }
  }

  private func answer(_ guardian: Guardian, _ id: UInt64, _ event: Guardian.Event) {
    guardian.post([
      .init(id: id, event: event, generation: self.engine.snapshot.generation, isAnswer: true)
    ])
  }

  /// Looks at the next slice of flows, and tells their clients.
  private mutating func evaluateFlows() {
    guard self.engine.isBusy, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      let before = self.engine.guardedFlows
      let told = try self.engine.evaluateFlows(from: kernel, at: .now())
      if self.engine.guardedFlows < before { self.isFilterWide = true }
      let generation = self.engine.snapshot.generation
      for (number, told) in Dictionary(grouping: told, by: \.key.guardian) {
        self.guardians[number]?.post(
          told.map {
            .init(id: $0.key.id, event: Guardian.Event($0.event), generation: generation)
          })
      }
      if self.engine.hasNewGateways { try self.watchGateways(kernel) }
    } catch {
      self.lose(error)
    }
  }
}

extension Guardian.Event {
  fileprivate init(_ event: FlowTable.Event) {
    switch event {
    case .path(let path): self = .path(path)
    case .invalidation(let verdict, let cause, let path):
      self = .invalidation(verdict, cause, path)
    }
  }
}

extension KernelUnavailable {
  static let notOpen = KernelUnavailable(
    description: "netlink could not be opened; see connd's log")
}

extension Watched {
  fileprivate func and(_ addresses: [IPAddress]) -> Watched {
    var watched = self
    watched.destinations += addresses
    return watched
  }
}

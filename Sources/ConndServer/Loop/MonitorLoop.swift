import Connectivity
import ConnectivityRules
import CoreMetrics
import DequeModule
import Logging
import Netlink
import Systemd
import UnixTransport

/// The loop of the thread that owns the kernel: wait, drain, read, compare, publish. This type does
/// everything except waiting. Its driver waits until ``due`` or for a kernel message, then calls
/// ``deal(with:)``, ``evaluateFlows()`` and ``evaluatePaths()``.
///
/// The loop is a value without a thread, a clock or a socket. It never waits for a subscriber. When
/// idle it only has deadlines: ends of holds and grace periods, systemd's watchdog if enabled, and
/// the next attempt to open an unavailable kernel.
///
/// Implements rules D1 and D7.
struct MonitorLoop {
  let store: Store
  let statistics: Statistics
  let logger: Logger
  let clock: any MonitorClock
  let publisher: any Publisher
  private let notifier: Notifier
  /// Called with the change in the number of flows.
  var countFlows: @Sendable (Int) -> Void = { _ in }
  private let openKernel: (_ watching: FilterSpec) throws(KernelUnavailable) -> any Kernel

  /// The DNS source, or `nil` if DNS is not monitored.
  let dns: (any DNSSource)?
  /// The source of modem facts, or `nil` if modems are not monitored.
  let modems: (any ModemSource)?
  /// The source of link costs, or `nil` if costs are not monitored.
  let metering: (any MeteringSource)?
  /// Stores users' overrides, or `nil` if they end with connd.
  let overrideStore: OverrideStore?

  var engine: Engine
  /// The links and networks with an override that was set with a duration in this run.
  var timedOverrides: Set<CostOverrides.Subject> = []
  var overrideClocks = ClockSteps()
  /// Whether the kernel was read since overrides were last ended.
  var mayHaveLeft = true
  /// The limits on clients' flows.
  var limits: Limits
  /// The throttled warnings, by limit.
  var refusals: [String: LogThrottle] = [:]
  private var overruns = LogThrottle()
  private var overrunPause = OverrunPause()
  var sweepDelay = SweepDelay()
  private(set) var kernel: (any Kernel)?
  var watchers: [Destination: [UInt64: AsyncStream<Path>.Continuation]] = [:]
  var lastWatcher: UInt64 = 0

  var mailboxes: [UInt64: any FlowMailbox] = [:]
  /// Requests of clients about their flows.
  var requests = FairShare<Account, GuardRequest>()
  /// Flows of disconnected clients.
  var abandonedFlows: Deque<FlowTable.Key> = []
  /// Flows that were registered while the kernel was unavailable. They come before requests.
  var registrationsToRepeat: Deque<FlowTable.Registration> = []
  /// Queries of clients to the kernel.
  var queries = FairShare<Account, KernelQuery>()
  var listing: PendingListing?
  /// The addresses whose routes pass the kernel's filter.
  var filtered = AddressList()
  /// The number of these addresses that are no longer needed.
  var unneeded = 0
  private var countedFlows = 0
  private var reopening = Reopening()
  private var repetition = Repetition()
  private var refusedQuestions = LogThrottle()
  private var watchdogDue: Instant?
  /// Published changes that have not reached store observers and the log.
  var news: [(change: Change, status: ConnectivityStatus)] = []
  /// Whether the news has already waited once for clients' flows.
  var newsHasWaited = false
  /// Whether evaluating flows has already waited once for kernel messages.
  var flowsHaveWaited = false
  /// The number of changes that may wait for the end of a turn.
  static let mostNews = 64

  init(
    _ configuration: Configuration, store: Store, publisher: any Publisher, statistics: Statistics,
    notifier: Notifier, clock: any MonitorClock, logger: Logger, dns: (any DNSSource)? = nil,
    modems: (any ModemSource)? = nil, metering: (any MeteringSource)? = nil,
    costs: OverrideFile.Contents = OverrideFile.Contents(), overrideStore: OverrideStore? = nil,
    openKernel: @escaping (_ watching: FilterSpec) throws(KernelUnavailable) -> any Kernel
  ) {
    self.store = store
    self.publisher = publisher
    self.statistics = statistics
    self.notifier = notifier
    self.clock = clock
    self.logger = logger
    self.dns = dns
    self.modems = modems
    self.metering = metering
    self.overrideStore = overrideStore
    self.openKernel = openKernel
    self.limits = configuration.limits
    let snapshot = store.snapshot
    self.engine = Engine(
      configuration, restored: snapshot.generation > 0 ? snapshot : nil,
      costs: costs)
  }

  /// Opens the kernel and reads it for the first time.
  mutating func start() {
    if let settings = self.dns?.read() {
      // The settings are compared with those of an earlier run.
      let changes = self.engine.update(to: settings, learntLate: true, time: self.clock.time)
      self.publish(changes)
    }
    // Otherwise an unmetered link would briefly look metered, and early clients would lose their
    // connections (I7).
    self.metering?.settle(within: .milliseconds(250))
    if let words = self.metering?.process() { self.engine.metering = words }
    self.openKernelOrGiveUp(.start)
    self.answerWatchdog()
  }

  /// Does the work before the next wait.
  mutating func beginTurn() {
    self.removeAbandonedFlows()
    self.takeRequests()
    self.answerQueries()
    self.widenFilter()
    self.narrowFilter()
    self.engine.takeRefusal().map { self.note(refusal: $0) }
    // Evaluating flows that waits for kernel messages goes first, because formatting log lines
    // takes longer.
    if self.looksAtFlows, !self.newsHasWaited {
      self.newsHasWaited = !self.news.isEmpty
    } else {
      self.tellOfNews()
    }
  }

  /// Whether there is more to do without waiting.
  var isBusy: Bool {
    self.hasRequests || !self.queries.isEmpty || self.looksAtFlows || self.looksAtPaths
      || !self.abandonedFlows.isEmpty || self.kernel != nil && self.engine.subscriptions.isWider
  }

  /// Whether flows are due for evaluation now.
  var looksAtFlows: Bool {
    self.kernel != nil && self.engine.flows.isBusy && self.sweepDelay.isOver(at: self.clock.now)
  }

  private var looksAtPaths: Bool { self.kernel != nil && self.engine.watched.isBusy }

  /// Whether kernel messages end a wait.
  var listens: Bool { self.overrunPause.end == nil }

  /// When to continue even without an event, or `nil` for never.
  var due: Instant? {
    if self.isBusy { return self.clock.now }
    var due = [self.reopening.due, self.watchdogDue]
    if let timeout = self.modems?.timeout { due.append(self.clock.now.advanced(by: timeout)) }
    if let timeout = self.metering?.timeout {
      due.append(self.clock.now.advanced(by: timeout))
    }
    // Nothing can be evaluated without the kernel.
    if self.kernel != nil {
      due += [
        self.engine.deadline?.due, self.engine.flows.deadline, self.overrunPause.end,
        self.overridesEnd, self.repetition.due,
      ]
      if self.engine.flows.isBusy { due.append(self.sweepDelay.end) }
    }
    return due.compactMap { $0 }.min()
  }

  /// Handles what ended the wait, kernel messages first, and then what is due.
  mutating func deal(with woken: Waiter.Woken) {
    let now = self.clock.now
    let isRested = self.overrunPause.ends(by: now)
    if self.listens, woken.hasMessages || isRested { self.drain() }
    if woken.hasDNSNews { self.readDNS() }
    if woken.hasModemNews || self.modems?.timeout == .zero { self.readModems() }
    if woken.hasMeteringNews || self.metering?.timeout == .zero { self.readMetering() }
    if let slept = woken.slept { self.step(.resumed(slept)) }

    if self.kernel != nil, let deadline = self.engine.deadline, deadline.due <= now {
      self.step(deadline.trigger)
    }
    if self.kernel != nil, let due = self.engine.flows.deadline, due <= now {
      self.engine.flows.lookAtOverdue(at: now)
    }
    if self.kernel != nil, self.repetition.begins(at: now) { self.step(.kernelBack) }
    self.endOverrides()
    if let due = self.reopening.due, due <= now { self.openKernelOrGiveUp(.kernelBack) }
    if let due = self.watchdogDue, due <= now { self.answerWatchdog() }
  }

  /// Handles what ended the wait, then evaluates what clients watch.
  mutating func go(on woken: Waiter.Woken) {
    self.deal(with: woken)
    self.evaluateFlows()
    self.evaluatePaths()
    if self.engine.flows.count != self.countedFlows {
      self.countFlows(self.engine.flows.count - self.countedFlows)
      self.countedFlows = self.engine.flows.count
    }
  }

  mutating func drain() {
    var events: [KernelEvent] = []
    var hasLinkNews = false
    // A new link may be a new modem, so the modem and cost sources look again.
    defer {
      if hasLinkNews {
        self.modems?.noteLinks().map { self.take($0) }
        self.metering?.noteLinks()
      }
    }
    do throws(KernelUnavailable) {
      var mayHaveMore = true
      // A step may find that the kernel is unavailable.
      while mayHaveMore, let kernel = self.kernel {
        events.removeAll(keepingCapacity: true)
        self.engine.subscriptions.ignoredLinks.beginToDrain()
        mayHaveMore = try kernel.drain(into: &events)
        // When a path moves, its removal arrives before its replacement. That is not a loss (K8).
        if mayHaveMore { mayHaveMore = try kernel.drain(into: &events) }
        self.statistics.count(events)
        self.log(events)
        hasLinkNews = hasLinkNews || events.contains(where: \.isOfLink)
        if self.engine.subscriptions.ignoredLinks.mayMatter(events) { self.step(.events(events)) }
        // Flushes logs and observers even if kernel messages never stop.
        if self.news.count > Self.mostNews { self.tellOfNews() }
        if events.contains(where: \.isOverrun), self.overrunPause.begins(at: self.clock.now) {
          return
        }
      }
      guard let kernel = self.kernel else { return }
      self.engine.subscriptions.ignoredLinks.endDraining()
      if self.engine.subscriptions.ignoredLinks.areLoud { try self.ignoreUnusedLinks(kernel) }
    } catch {
      self.lose(error)
    }
  }

  private mutating func log(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .overrun:
        // With a small buffer and many messages, the next overrun happens before this line is
        // written.
        guard let suppressed = self.overruns.next(at: self.clock.now) else { continue }
        self.logger.notice(
          "kernel messages were lost because they arrived too fast; reading everything again",
          metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : nil)
      case .malformed(let text):
        self.logger.warning("malformed netlink message", metadata: ["message": "\(text)"])
      default:
        self.logger.trace("netlink", metadata: ["event": "\(event)"])
      }
    }
  }

  /// Reads the kernel, publishes changes, and adapts the filter to the new paths.
  mutating func step(_ trigger: ReadTrigger) {
    self.read(trigger)
    self.widenFilter()
  }

  /// Reads the kernel and publishes changes. Destinations and flows of clients are then due.
  mutating func read(_ trigger: ReadTrigger) {
    guard let kernel = self.kernel else { return }
    self.mayHaveLeft = true
    do throws(KernelUnavailable) {
      let step = try self.engine.step(
        trigger, kernel, at: self.clock.now, time: self.clock.time)
      self.publish(step.changes)
      self.statistics.count(step.followers.trigger, published: step.changes.count)
      self.registerPendingFlows()
      self.engine.follow(step)
    } catch {
      self.lose(error)
    }
  }

  /// Evaluates the next slice of the watched destinations and notifies their clients.
  mutating func evaluatePaths() {
    guard self.looksAtPaths, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      // This is a separate statement because `publish` holds a copy of the loop while its arguments
      // are evaluated. Changes of the engine during that time would copy it.
      let paths = try self.engine.evaluatePaths(kernel, at: self.clock.now)
      self.publish(paths)
    } catch {
      self.lose(error)
    }
  }

  private mutating func answerWatchdog() {
    guard let interval = self.notifier.watchdogInterval else { return }
    self.notifier.watchdog()
    self.watchdogDue = self.clock.now.advanced(by: interval)
  }
}

extension KernelEvent {
  fileprivate var isOverrun: Bool { if case .overrun = self { true } else { false } }

  fileprivate var isOfLink: Bool {
    switch self {
    case .link, .linkRemoved: true
    default: false
    }
  }
}

// MARK: - Without the kernel

extension MonitorLoop {
  private mutating func openKernelOrGiveUp(_ trigger: ReadTrigger) {
    do throws(KernelUnavailable) {
      self.engine.subscriptions.ignoredLinks.hearAll()
      let watched = self.engine.filterSpec
      self.kernel = try self.openKernel(watched)
      self.noteFilter(watched)
      self.step(trigger)
      if self.kernel != nil { self.reopening.succeeded() }
    } catch {
      self.lose(error)
    }
  }

  /// Handles a refused query. The path or flow that depends on it is unknown now.
  private mutating func note(refusal: KernelUnavailable) {
    self.repetition.refused(at: self.clock.now)
    guard let suppressed = self.refusedQuestions.next(at: self.clock.now) else { return }
    var metadata: Logger.Metadata = ["error": "\(refusal)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.warning(
      "the kernel refused a query; the path or flow is unknown until connd asks again",
      metadata: metadata)
  }

  mutating func lose(_ error: KernelUnavailable) {
    // A refused query is not a loss of the kernel, whatever asked it (K8).
    guard !error.isOfOneQuestion else { return self.note(refusal: error) }
    self.kernel = nil
    self.repetition = Repetition()
    self.overrunPause = OverrunPause()
    self.statistics.kernelLosses.increment()
    self.reopening.failed(at: self.clock.now)
    self.logger.error(
      "the kernel cannot be asked: the category is unknown, and applications should assume that they are online",
      metadata: ["error": "\(error)"])
    let lost = self.engine.lostKernel(error, at: self.clock.now, time: self.clock.time)
    self.publish(lost.changes)
    self.publish(lost.paths)
  }
}

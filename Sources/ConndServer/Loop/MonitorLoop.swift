import Connectivity
import ConnectivityRules
import DequeModule
import Logging
import Netlink
import Systemd

/// The loop of the monitor thread, which queries the kernel and receives its messages. Its driver
/// waits until ``due`` or for an event, then calls ``turn(on:taking:)``.
///
/// The loop is a value without a thread, a clock or a socket. It never waits for a subscriber. When
/// idle it only has deadlines: ends of grace periods and overrides, systemd's watchdog if enabled,
/// and the next attempt to open an unavailable kernel.
///
/// Implements rules D1 and D7.
struct MonitorLoop {
  let clock: any MonitorClock
  let sources: [any FactSource]
  private let openKernel: (_ watching: FilterSpec) throws(KernelUnavailable) -> any Kernel
  /// `nil` if the kernel is unavailable.
  private(set) var kernel: (any Kernel)?
  var engine: Engine
  var feed: ChangeFeed
  /// The readings that are due in the next pass.
  var readings = DueReadings()
  var messages = WaitingMessages()
  /// Facts that are not applied yet.
  private(set) var facts: Deque<FactUpdate> = []
  /// Whether clients were served since the last facts were taken from the sources.
  private var hasServed = true
  /// The work that this turn has done and must not repeat.
  private var done: Set<Work> = []
  var filter = InstalledFilter()
  var pauses = Pauses()
  /// The clients that guard flows.
  var guards: GuardClients
  /// The clients that watch paths.
  var watchers = PathWatchers()
  var queries = QueryQueue()
  var overrides: OverrideState
  private var watchdog: Watchdog

  init(
    _ configuration: Configuration, store: Store, publisher: any Publisher, statistics: Statistics,
    notifier: Notifier, clock: any MonitorClock, logger: Logger, sources: [any FactSource] = [],
    costs: OverrideFile.Contents = OverrideFile.Contents(), overrideStore: OverrideStore? = nil,
    countFlows: @escaping @Sendable (Int) -> Void = { _ in },
    deliver: @escaping @Sendable (() -> Void) -> Void = { $0() },
    openKernel: @escaping (_ watching: FilterSpec) throws(KernelUnavailable) -> any Kernel
  ) {
    self.clock = clock
    self.sources = sources
    self.openKernel = openKernel
    let snapshot = store.snapshot
    self.engine = Engine(
      configuration, restored: snapshot.generation > 0 ? snapshot : nil, costs: costs)
    self.feed = ChangeFeed(store, publisher, statistics, logger)
    self.guards = GuardClients(
      configuration.limits, statistics, logger, countFlows: countFlows, deliver: deliver)
    self.overrides = OverrideState(overrideStore)
    self.watchdog = Watchdog(notifier)
  }

  /// Opens the kernel and reads it for the first time.
  mutating func start() {
    for source in self.sources {
      // Without this wait, an unmetered link would briefly count as metered, and early clients
      // would lose their connections (I7).
      source.settle(within: .milliseconds(250))
      // The facts are compared with those of an earlier run.
      self.facts += source.process()
    }
    while let update = self.facts.popFirst() { self.apply(update, learntLate: true) }
    self.open(.start)
    self.readDue()
    self.adaptFilter()
    self.readDue()
    self.watchdog.answer(at: self.clock.now)
  }

  // MARK: - Turns

  /// Does one turn of work.
  mutating func turn(on woken: Waiter.Woken = Waiter.Woken(), taking inputs: [Input] = []) {
    for input in inputs { self.take(input) }
    var passes = Passes(woken)
    while let next = passes.next(mustRead: self.mustRead) {
      self.perform(next.work, on: next.woken)
    }
  }

  /// Whether something must be read before the work that concerns single clients.
  var mustRead: Bool { self.readings.areDue || self.messages.areDue || !self.facts.isEmpty }

  /// Does one kind of work, if it is due.
  ///
  /// - Parameter woken: `nil` unless this is the first pass of a turn.
  mutating func perform(_ work: Work, on woken: Waiter.Woken?) {
    if work == .messages, woken != nil { self.done = [] }
    if work.awaitsReadings, self.mustRead || self.done.contains(work) { return }
    switch work {
    case .messages: self.readMessages(on: woken)
    case .read: self.readDue()
    case .facts: self.takeFacts(on: woken)
    case .deadlines: self.meetDeadlines()
    case .filter:
      self.adaptFilter()
      // Endless changes of a neighbour must not keep connd from serving clients.
      if self.readings.areDue { self.done.insert(.filter) }
    case .flows: self.evaluateFlows()
    case .requests: self.handleRequests()
    case .paths: self.evaluatePaths()
    case .queries:
      self.hasServed = true
      guard self.queries.isBusy else { return }
      self.answerQueries()
      self.done.insert(.queries)
    case .reports: self.report()
    }
  }

  /// Whether there is more to do without waiting.
  var isBusy: Bool {
    self.mustRead || self.guards.isBusy || self.queries.isBusy || self.flowsAreDue
      || self.pathsAreDue || self.mustAdaptFilter
  }

  /// When to begin the next turn even without an event, or `nil` for never.
  var due: Instant? {
    if self.isBusy { return self.clock.now }
    var due = [self.pauses.reopening.due, self.watchdog.due]
    for source in self.sources {
      if let timeout = source.timeout { due.append(self.clock.now.advanced(by: timeout)) }
    }
    // Nothing can be evaluated without the kernel.
    if self.kernel != nil {
      due += [
        self.engine.deadline?.due, self.engine.flows.deadline, self.pauses.overrun.end,
        self.overridesEnd, self.pauses.repetition.due, self.engine.conditions.deadline,
      ]
      if self.engine.flows.isBusy, self.listens { due.append(self.pauses.sweep.end) }
    }
    return due.compactMap { $0 }.min()
  }

  mutating func take(_ input: Input) {
    switch input {
    case .configure(let configuration, let reply):
      self.engine.configure(configuration)
      self.guards.limits = configuration.limits
      self.installFilter(self.engine.filterSpec)
      self.note(.configuration)
      self.readings.whenDone { reply.resume(returning: ()) }
    case .awaitFirstReading(let reply): reply.resume(returning: ())
    case .query(let query): self.queries.append(query)
    case .drop(let query, let account): self.queries.drop(query, of: account)
    case .count(let reply): reply.resume(returning: self.counts)
    case .unwatch(let destination, let watcher): self.unwatch(destination, watcher)
    case .admit(let mailbox, let reply):
      self.guards.admit(mailbox)
      reply.resume(returning: ())
    case .dismiss(let number):
      // The filter may pass addresses of requests that are dropped now.
      if self.guards.hasRequests { self.filter.release() }
      self.guards.dismiss(number, flows: self.engine.flows)
    case .flow(let request): self.guards.enqueue(request)
    }
  }

  // MARK: - Readings

  /// Notes that the kernel must be read.
  mutating func note(_ trigger: ReadTrigger) {
    if self.kernel != nil { self.readings.note(trigger) }
  }

  /// Reads the kernel for each noted trigger, and sends the answers that wait for it.
  private mutating func readDue() {
    guard self.readings.areDue else { return }
    let worked = self.clock.worked
    while let trigger = self.readings.popFirst() { self.read(trigger) }
    if let user = self.readings.finish() {
      self.queries.charge(self.clock.worked - worked, to: user)
    }
  }

  /// Reads the kernel until the reading is settled, and publishes changes, each as soon as it is
  /// known. Destinations and flows of clients are then due.
  private mutating func read(_ trigger: ReadTrigger) {
    guard let kernel = self.kernel else { return }
    self.overrides.mayHaveLeft = true
    do throws(KernelUnavailable) {
      let look = try self.look(trigger, kernel)
      let step = try self.engine.conclude(look, kernel)
      self.publish(step.changes)
      if step.mustRepeat { self.messages.mustRepeat = true }
      self.feed.statistics.count(
        step.followers.trigger, published: look.changes.count + step.changes.count)
      // Registrations that waited for the kernel come before later requests about the same flows.
      self.guards.repeatRegistrations(self.engine.flows.takePending())
      self.engine.follow(step)
    } catch {
      self.lose(error)
    }
    if self.kernel != nil { self.pauses.reopening.succeeded() }
    if case .events(let events) = trigger, events.contains(.overrun),
      self.pauses.overrun.begins(at: self.clock.now)
    {
      self.messages.areDue = false
    }
  }

  /// Publishes what new connections get. Not inlined, because `make check-instructions` counts it.
  @inline(never)
  private mutating func look(
    _ trigger: ReadTrigger, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> Engine.FirstLook {
    let look = try self.engine.look(trigger, kernel, at: self.clock.now, time: self.clock.time)
    self.publish(look.changes)
    return look
  }

  func isDue(_ due: Instant?, at now: Instant) -> Bool { due.map { $0 <= now } ?? false }

  private mutating func meetDeadlines() {
    let now = self.clock.now
    self.watchdog.answer(at: now)
    // Each deadline is a separate cause with its own reading, which may change other deadlines.
    guard !self.readings.areDue else { return }
    if self.kernel != nil, let deadline = self.engine.deadline, deadline.due <= now {
      return self.note(deadline.trigger)
    }
    if self.kernel != nil, self.isDue(self.engine.flows.deadline, at: now) {
      self.engine.flows.examineOverdue(at: now)
    }
    if self.kernel != nil, self.pauses.repetition.begins(at: now) { return self.note(.kernelBack) }
    self.endOverrides()
    guard !self.readings.areDue else { return }
    if self.kernel != nil, self.isDue(self.engine.conditions.deadline, at: now) {
      self.change { $0.expire(at: now) }
    }
    guard !self.readings.areDue else { return }
    if self.isDue(self.pauses.reopening.due, at: now) { self.open(.kernelBack) }
  }

  mutating func publish(_ changes: [ConnectivityChange]) {
    guard !changes.isEmpty else { return }
    self.feed.publish(changes, self.engine.snapshot.status)
    if self.engine.flows.evaluationTakesLong { self.pauses.sweep.begin(at: self.clock.now) }
  }

  // MARK: - Facts

  private mutating func takeFacts(on woken: Waiter.Woken?) {
    // A new link may be a new modem, so the sources are notified.
    if self.messages.haveNamedLinks {
      self.messages.haveNamedLinks = false
      for source in self.sources { self.facts += source.noteLinks() }
    }
    // While facts are waiting, no source is read, so that a hostile router cannot fill the memory.
    if let woken, self.hasServed, self.facts.isEmpty {
      for (index, source) in self.sources.enumerated()
      where woken.sources.contains(SourceSet(index: index)) || source.timeout == .zero {
        self.facts += source.process()
      }
      self.hasServed = self.facts.isEmpty
    }
    // Each fact is a separate cause, so its effect is read before the next fact applies.
    while !self.readings.areDue, let update = self.facts.popFirst() { self.apply(update) }
    if let slept = woken?.slept { self.note(.resumed(slept)) }
  }

  /// Stores new facts, and publishes their effect or notes that the kernel must be read for it.
  private mutating func apply(_ update: FactUpdate, learntLate: Bool = false) {
    switch update {
    case .dns(let settings):
      self.publish(
        self.engine.update(to: settings, learntLate: learntLate, time: self.clock.time))
    case .modems(let links):
      let changes = self.engine.context.modems.changes(to: links)
      guard let change = changes.first else { return self.engine.update(toUnchanged: links) }
      self.engine.context.modems.update(change.interface, to: links[change.interface])
      self.note(.modem(change))
      self.facts.prepend(update)
    case .metering(let reason) where reason != self.engine.metering:
      self.engine.metering = reason
      self.note(.metering)
    case .metering: break
    case .checks(let checks): self.validate { $0.checks = checks }
    case .portals(let portals): self.validate { $0.portals = portals }
    case .advertisement(let advertisement): self.validate { $0.note(advertisement) }
    }
  }

  /// Stores reports of other sources about access to the internet.
  private mutating func validate(_ change: (inout ValidationReports) -> Void) {
    let former = self.engine.validations
    change(&self.engine.validations)
    if self.engine.validations != former { self.note(.validation) }
  }

  // MARK: - The kernel

  private mutating func open(_ trigger: ReadTrigger) {
    do throws(KernelUnavailable) {
      self.engine.context.subscriptions.ignoredLinks.hearAll()
      let spec = self.engine.filterSpec
      self.kernel = try self.openKernel(spec)
      self.filter.install(spec, isExact: true)
      self.note(trigger)
    } catch {
      self.lose(error)
    }
  }

  mutating func lose(_ error: KernelUnavailable) {
    // A refused query is not a loss of the kernel, wherever it was sent (K8).
    guard !error.isOfOneQuestion else { return self.note(refusal: error) }
    self.kernel = nil
    self.readings.drop()
    (self.messages.areDue, self.messages.waits) = (false, 0)
    self.pauses.lost(at: self.clock.now)
    self.feed.statistics.kernelLosses.increment()
    self.feed.logger.error(
      "the kernel cannot be asked: the category is unknown, and applications should assume that they are online",
      metadata: ["error": "\(error)"])
    let lost = self.engine.lostKernel(error, at: self.clock.now, time: self.clock.time)
    self.publish(lost.changes)
    for (destination, path) in lost.paths { self.watchers.publish(path, of: destination) }
  }

  /// Ends all streams and pending queries of clients because connd is stopping.
  mutating func finish() {
    self.feed.flush()
    _ = self.readings.finish()
    self.queries.finish()
    self.watchers.finish()
    self.guards.finish()
    self.feed.publisher.finish()
  }
}

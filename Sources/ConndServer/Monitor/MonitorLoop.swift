import Connectivity
import ConnectivityRules
import CoreMetrics
import DequeModule
import Logging
import Netlink
import Systemd
import UnixTransport

/// The loop of the one thread that owns the kernel: wait, drain, read, compare, publish. It is what stands between those:
/// whoever runs it waits until ``due``, or for what the kernel has told, has it ``deal(with:)`` that, ``evaluateFlows()``
/// and ``evaluatePaths()``.
///
/// A value without a thread, a clock or a socket of its own; it never waits for a subscriber. With nothing to do nothing is
/// due: what is, are the ends of holds and of graces, systemd's watchdog where there is one, and the next attempt while the
/// kernel cannot be asked.
struct MonitorLoop {
  let store: Store
  let statistics: Statistics
  let logger: Logger
  let clock: any MonitorClock
  let publisher: any Publisher
  private let notifier: Notifier
  /// Called with the number of flows that were added, or were removed if it is negative.
  var countFlows: @Sendable (Int) -> Void = { _ in }
  private let openKernel: (_ watching: Watched) throws(KernelUnavailable) -> any Kernel

  /// Whom names are asked of; `nil` where nobody wants to know.
  let dns: (any DNSSource)?
  /// What knows of modems; `nil` where nobody wants to know.
  let modems: (any ModemSource)?
  /// What knows of links' costs; `nil` where nobody wants to know.
  let metering: (any MeteringSource)?
  /// Where users' choices are kept; `nil` where nobody keeps them.
  let choiceFile: ChoiceFile?

  var engine: Engine
  /// What users have set for a time in this run.
  var timedChoices: Set<CostChoices.Subject> = []
  var choiceClocks = ClockSteps()
  /// How many flows clients may have.
  var limits: Limits
  /// Of each limit.
  var refusals: [String: LogThrottle] = [:]
  private var overruns = LogThrottle()
  private var overrunPause = OverrunPause()
  var sweepDelay = SweepDelay()
  private(set) var kernel: (any Kernel)?
  var watchers: [Destination: [UInt64: AsyncStream<Path>.Continuation]] = [:]
  var lastWatcher: UInt64 = 0

  var guardians: [UInt64: any FlowMailbox] = [:]
  /// Of clients, concerning their flows.
  var requests = FairShare<Account, GuardRequest>()
  /// Flows of clients that have gone.
  var abandonedFlows: Deque<FlowTable.Key> = []
  /// Flows that were registered while the kernel could not be asked. They come before requests.
  var registrationsToRepeat: Deque<FlowTable.Registration> = []
  /// Of clients, to the kernel.
  var questions = FairShare<Account, Question>()
  var listing: PendingListing?
  /// The addresses that the kernel's filter lets routes pass for.
  var filtered: Set<IPAddress> = []
  /// How many of them nobody needs any more.
  var unneeded = 0
  private var countedFlows = 0
  private var reopening = Reopening()
  private var repetition = Repetition()
  private var refusedQuestions = LogThrottle()
  private var watchdogDue: Instant?
  /// What was published, of which those who observe the store and the log have not heard.
  var news: [(change: Change, status: ConnectivityStatus)] = []
  /// They have waited for the flows of clients once.
  var newsHasWaited = false
  /// A look at flows has waited for the kernel's messages once.
  var flowsHaveWaited = false
  /// So many are kept for the end of a turn.
  static let mostNews = 64

  init(
    _ configuration: Configuration, store: Store, publisher: any Publisher, statistics: Statistics,
    notifier: Notifier, clock: any MonitorClock, logger: Logger, dns: (any DNSSource)? = nil,
    modems: (any ModemSource)? = nil, metering: (any MeteringSource)? = nil,
    costs: ChoiceFile.Contents = ChoiceFile.Contents(), choiceFile: ChoiceFile? = nil,
    openKernel: @escaping (_ watching: Watched) throws(KernelUnavailable) -> any Kernel
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
    self.choiceFile = choiceFile
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
      // What an earlier run published is what this is compared with.
      let changes = self.engine.update(to: settings, learntLate: true, time: self.clock.time)
      self.publish(changes)
    }
    // Else a link of which somebody has said that it costs nothing would be taken for a costly one, and who came back first would lose his
    // connection by that (I7).
    self.metering?.settle(within: .milliseconds(250))
    if let words = self.metering?.process() { self.engine.metering = words }
    self.openKernelOrGiveUp(.start)
    self.answerWatchdog()
  }

  /// What is to be done before the next wait.
  mutating func beginTurn() {
    self.removeAbandonedFlows()
    self.takeRequests()
    self.answerQuestions()
    self.widenFilter()
    self.narrowFilter()
    self.engine.takeRefusal().map { self.note(refusal: $0) }
    // A look at flows that waits for the kernel's messages goes before: formatting lines for the log takes longer than it does.
    if self.looksAtFlows, !self.newsHasWaited {
      self.newsHasWaited = !self.news.isEmpty
    } else {
      self.tellOfNews()
    }
  }

  /// Whether there is more to do at once.
  var isBusy: Bool {
    self.hasRequests || !self.questions.isEmpty || self.looksAtFlows || self.looksAtPaths
      || !self.abandonedFlows.isEmpty || self.kernel != nil && self.engine.interests.isWider
  }

  /// Whether flows are to be looked at now.
  var looksAtFlows: Bool {
    self.kernel != nil && self.engine.flows.isBusy && self.sweepDelay.isOver(at: self.clock.now)
  }

  private var looksAtPaths: Bool { self.kernel != nil && self.engine.watched.isBusy }

  /// Whether the kernel's messages are to end a wait.
  var listens: Bool { self.overrunPause.end == nil }

  /// When to go on although nothing has happened; `nil`: not at all.
  var due: Instant? {
    if self.isBusy { return self.clock.now }
    var due = [self.reopening.due, self.watchdogDue]
    if let timeout = self.modems?.timeout { due.append(self.clock.now.advanced(by: timeout)) }
    if let timeout = self.metering?.timeout {
      due.append(self.clock.now.advanced(by: timeout))
    }
    // Without the kernel nothing can be looked at.
    if self.kernel != nil {
      due += [
        self.engine.deadline?.due, self.engine.flows.deadline, self.overrunPause.end,
        self.choicesEnd, self.repetition.due,
      ]
      if self.engine.flows.isBusy { due.append(self.sweepDelay.end) }
    }
    return due.compactMap { $0 }.min()
  }

  /// Deals with what ended the wait, the kernel's messages first, and with what is due.
  mutating func deal(with woken: Waiter.Woken) {
    let now = self.clock.now
    let isRested = self.overrunPause.ends(by: now)
    if self.listens, woken.hasMessages || isRested { self.drain() }
    if woken.hasDNSNews { self.readDNS() }
    if woken.hasModemNews || self.modems?.timeout == .zero { self.readModems() }
    if woken.hasMeteringNews || self.metering?.timeout == .zero { self.readMetering() }
    if let slept = woken.slept { self.step(.resumed(slept)) }

    if self.kernel != nil, let deadline = self.engine.deadline, deadline.due <= now {
      self.step(deadline.occasion)
    }
    if self.kernel != nil, let due = self.engine.flows.deadline, due <= now {
      self.engine.flows.lookAtOverdue(at: now)
    }
    if self.kernel != nil, self.repetition.begins(at: now) { self.step(.kernelBack) }
    self.endChoices()
    if let due = self.reopening.due, due <= now { self.openKernelOrGiveUp(.kernelBack) }
    if let due = self.watchdogDue, due <= now { self.answerWatchdog() }
  }

  /// Deals with what ended the wait, and then looks at what clients follow.
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
    // Whoever plugs in a modem, or starts a service for it, makes a link.
    defer {
      if hasLinkNews {
        self.modems?.noteLinks().map { self.take($0) }
        self.metering?.noteLinks()
      }
    }
    do throws(KernelUnavailable) {
      var mayHaveMore = true
      // A step may find out that the kernel is lost.
      while mayHaveMore, let kernel = self.kernel {
        events.removeAll(keepingCapacity: true)
        self.engine.interests.unusedLinks.beginToDrain()
        mayHaveMore = try kernel.drain(into: &events)
        // Of a path that moves the loss is told before the gain, and it is not gone (K8).
        if mayHaveMore { mayHaveMore = try kernel.drain(into: &events) }
        self.statistics.count(events)
        self.log(events)
        hasLinkNews = hasLinkNews || events.contains(where: \.isOfLink)
        if self.engine.interests.unusedLinks.mayMatter(events) { self.step(.events(events)) }
        // A kernel that tells faster than this is read keeps nobody from hearing of it.
        if self.news.count > Self.mostNews { self.tellOfNews() }
        if events.contains(where: \.isOverrun), self.overrunPause.begins(at: self.clock.now) {
          return
        }
      }
      guard let kernel = self.kernel else { return }
      self.engine.interests.unusedLinks.endDraining()
      if self.engine.interests.unusedLinks.areLoud { try self.ignoreUnusedLinks(kernel) }
    } catch {
      self.lose(error)
    }
  }

  private mutating func log(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .overrun:
        // With a small buffer and much going on, the next one is there when this line is written.
        guard let suppressed = self.overruns.next(at: self.clock.now) else { continue }
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

  /// Reads the kernel and publishes what has changed; then has the filter follow what leads there now.
  mutating func step(_ occasion: Occasion) {
    self.read(occasion)
    self.widenFilter()
  }

  /// Reads the kernel and publishes what has changed; what single clients follow is due then.
  mutating func read(_ occasion: Occasion) {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      let step = try self.engine.step(
        occasion, kernel, at: self.clock.now, time: self.clock.time)
      self.publish(step.changes)
      self.statistics.count(step.followers.occasion, published: step.changes.count)
      self.registerBlindFlows()
      self.engine.follow(step)
    } catch {
      self.lose(error)
    }
  }

  /// Looks at the next slice of the destinations that clients follow, and tells those.
  mutating func evaluatePaths() {
    guard self.looksAtPaths, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      // In a statement of its own: while its arguments are made, `publish` holds a copy of the loop, and what the engine
      // changes then is copied with it.
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
  private mutating func openKernelOrGiveUp(_ occasion: Occasion) {
    do throws(KernelUnavailable) {
      self.engine.interests.unusedLinks.hearAll()
      let watched = self.engine.watchedByKernel
      self.kernel = try self.openKernel(watched)
      self.noteFilter(watched)
      self.step(occasion)
      if self.kernel != nil { self.reopening.succeeded() }
    } catch {
      self.lose(error)
    }
  }

  /// The kernel has refused a question, on which a path or a flow depends that is unknown now.
  private mutating func note(refusal: KernelUnavailable) {
    self.repetition.refused(at: self.clock.now)
    guard let suppressed = self.refusedQuestions.next(at: self.clock.now) else { return }
    var metadata: Logger.Metadata = ["error": "\(refusal)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.warning(
      "the kernel refuses a question; the path or flow that it is about is unknown, and connd asks again",
      metadata: metadata)
  }

  mutating func lose(_ error: KernelUnavailable) {
    // A question that is refused is no loss of the kernel, whatever asked it (K8).
    guard !error.isOfOneQuestion else { return self.note(refusal: error) }
    self.kernel = nil
    self.repetition = Repetition()
    self.overrunPause = OverrunPause()
    self.statistics.kernelLosses.increment()
    self.reopening.failed(at: self.clock.now)
    self.logger.error(
      "the kernel cannot be asked: the category is unknown, applications should assume that they are online",
      metadata: ["error": "\(error)"])
    let lost = self.engine.lostKernel(error, at: self.clock.now, time: self.clock.time)
    self.publish(lost.changes)
    self.publish(lost.paths)
  }
}

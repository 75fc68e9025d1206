import Connectivity
import ConnectivityRules
import LinuxSupport
import Logging
import Netlink
import Systemd

@testable import ConndServer

/// connd in virtual time: the monitor's own loop over the model kernel.
final class Daemon {
  private var loop: MonitorLoop
  let store: Store
  private let faulty: FaultyKernel
  private let kernel: MutantKernel
  private let publisher: MutantPublisher
  private let mutation: Mutation?
  private let writer: Writer?
  private var mailboxes: [UInt64: RecordingMailbox] = [:]

  /// The publications since the last look.
  var published: [Publication] = []
  var told: [Notice] = []
  var batches: [Batch] = []

  /// A change, the time of its publication, and the snapshot before it.
  struct Publication {
    var change: ConnectivityChange
    var before: ConnectivitySnapshot
    var at: Instant
  }

  /// A report to a client about a flow.
  struct Notice {
    var key: FlowTable.Key
    var event: FlowEvent
    /// Whether the flow's owner must ask its peer.
    var isQuestion = false
  }

  /// The kernel's messages, and the published snapshots before and after they were processed.
  struct Batch {
    var events: [KernelEvent]
    var before: ConnectivitySnapshot
    var after: ConnectivitySnapshot
  }

  /// - Parameters:
  ///   - past: the former connd's changes, the oldest first.
  ///   - generation: the generation to continue from if the past is lost.
  ///   - writer: the recorder, or `nil` for none.
  init(
    _ configuration: Configuration, past: [Published], after generation: UInt64 = 0,
    _ faulty: FaultyKernel, _ mutation: Mutation?, _ writer: Writer? = nil
  ) {
    self.writer = writer
    self.faulty = faulty
    self.mutation = mutation
    self.store = Store(mutation.past(past), after: generation)
    self.publisher = MutantPublisher(self.store, faulty, mutation)
    try? writer?.begin(configuration, restored: self.store.snapshot)
    var (bottom, clock): (any ReopenableKernel, any MonitorClock) = (
      faulty, ModelClock(kernel: faulty)
    )
    var sources: [any FactSource] = []
    if let writer, let recorder = writer.recorder {
      bottom = WrittenKernel(faulty, recorder)
      clock = WrittenClock(clock: clock, writer: writer)
      let files = ModelFiles(sockets: ModelSockets(faulty.network))
      sources = [
        ReplayedDNS(files: DNSFiles(from: RecordedFiles(files: files, recorder: recorder)))
      ]
    }
    self.kernel = MutantKernel(bottom, self.store, mutation)
    let kernel = self.kernel
    self.loop = MonitorLoop(
      mutation.configuration(configuration), store: self.store, publisher: self.publisher,
      statistics: Statistics(), notifier: .inactive, clock: clock,
      logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }, sources: sources
    ) { (watched) throws(KernelUnavailable) in
      try kernel.reopen(watched)
      return kernel
    }
  }

  var engine: Engine { self.loop.engine }
  var isOpen: Bool { self.loop.kernel != nil }
  /// Whether it reads the kernel's messages.
  var listens: Bool { self.isOpen && self.loop.listens }

  /// The next deadline without kernel messages.
  var deadline: Instant? { self.unrecorded { $0.due } }

  /// Queries the loop, without recording its look at the clock.
  private func unrecorded<Answer>(_ question: (MonitorLoop) -> Answer) -> Answer {
    self.writer?.isPaused = true
    defer { self.writer?.isPaused = false }
    return question(self.loop)
  }

  // MARK: - The loop

  func start() {
    self.publisher.isMuted = self.mutation == .startsBlind && self.store.snapshot.generation > 0
    self.loop.start()
    self.publisher.isMuted = false
    self.collect()
  }

  /// Does everything that is due now.
  func turn() { self.turn(slept: nil) }

  /// The machine wakes up.
  func resume(after slept: Duration) {
    self.turn(slept: self.mutation == .ignoresSleep ? nil : slept)
  }

  private func turn(slept: Duration?, taking inputs: [Input] = []) {
    var (slept, inputs) = (slept, inputs)
    repeat {
      let woken = Waiter.Woken(hasMessages: self.faulty.hasMessages, slept: slept)
      self.writer?.recorder?.flush()
      self.writer?.recorder?.begin(woken)
      for input in inputs {
        self.writer?.recorder?.note(input)
        self.loop.take(input)
      }
      self.perform(woken)
      (slept, inputs) = (nil, [])
      self.collect()
    } while self.unrecorded { $0.isBusy }
  }

  private func perform(_ woken: Waiter.Woken) {
    var passes = Passes(woken)
    while let (work, woken) = passes.next(mustRead: self.loop.mustRead) {
      self.faulty.isOrdered = work != .flows && work != .paths
      self.loop.perform(work, on: woken)
    }
    self.faulty.isOrdered = true
  }

  private func collect() {
    self.kernel.endBatch()
    let batches = self.kernel.takeBatches()
    self.published += self.publisher.take()
    // The order in which flows are evaluated does not depend on the seed, and does not matter.
    self.told += self.mailboxes.values.flatMap { $0.take() }.sorted {
      ($0.key.mailbox, $0.key.id) < ($1.key.mailbox, $1.key.id)
    }
    for batch in batches where batch.before.generation == batch.after.generation {
      self.publisher.tellNoise()
    }
    self.batches += batches
    self.destroyTooMany(batches)
  }

  // MARK: - Clients

  func admit(_ mailbox: GuardMailbox) {
    let mailbox = RecordingMailbox(mailbox, self.mutation)
    self.mailboxes[mailbox.number] = mailbox
    self.turn(slept: nil, taking: [.admit(mailbox, .unheard)])
  }

  /// Registers flows.
  func register(_ registrations: [FlowTable.Registration]) {
    self.turn(
      slept: nil,
      taking: registrations.map { registration in
        var registration = registration
        if self.mutation == .ignoresPolicy { registration.flow.forbidsExpensive = false }
        return .flow(.add(registration))
      })
  }

  func remove(_ key: FlowTable.Key) { self.turn(slept: nil, taking: [.flow(.remove(key))]) }

  // MARK: - Rules broken from outside

  /// The keys of the simulation's flows.
  var keys: [FlowTable.Key] = []

  private func destroyTooMany(_ batches: [Batch]) {
    let isHit =
      switch self.mutation {
      case .overrunDestroys: batches.contains { $0.events.contains(.overrun) }
      case .sparesNobody:
        self.published.contains {
          guard case .invalidation(let told) = $0.change else { return false }
          return told.reason == .categoryChanged && told.severity == .destroy
        }
      case .destroysUnaffected: !batches.isEmpty && self.publisher.count % 7 == 3
      default: false
      }
    if isHit { self.destroyAll() }
  }

  func destroyAll() {
    for key in self.keys where self.engine.flows.contains(key) {
      self.loop.engine.flows.remove(key)
      let verdict = FlowTracker.Verdict(.interfaceLost, .destroy)
      let event = FlowEvent.invalidation(verdict, ChangeCause(.start, "started"), .unknown)
      self.mailboxes[key.mailbox]?.post([
        .init(id: key.id, event: event, generation: self.store.snapshot.generation)
      ])
    }
    self.told += self.mailboxes.values.flatMap { $0.take() }
  }
}

/// A mailbox whose contents are recorded.
final class RecordingMailbox: FlowMailbox, @unchecked Sendable {
  private let mailbox: GuardMailbox
  private let mutation: Mutation?
  private var posted: [Daemon.Notice] = []

  init(_ mailbox: GuardMailbox, _ mutation: Mutation?) {
    self.mailbox = mailbox
    self.mutation = mutation
  }

  var number: UInt64 { self.mailbox.number }

  func post(_ messages: [GuardMailbox.Message]) {
    let messages = messages.filter { !self.isSwallowed($0.event) }
    for message in messages {
      if case .refused = message.event { continue }
      self.posted.append(
        .init(
          key: .init(mailbox: self.number, id: message.id), event: message.event,
          isQuestion: message.askedUntil != nil))
    }
    if !messages.isEmpty { self.mailbox.post(messages) }
  }

  private func isSwallowed(_ event: FlowEvent) -> Bool {
    self.mutation == .forgetsDestroyed && event.destroys
  }

  func take() -> [Daemon.Notice] {
    defer { self.posted = [] }
    return self.posted
  }

  var account: Account { self.mailbox.account }
  func removed(_ flow: UInt64) { self.mailbox.removed(flow) }
  func finish() { self.mailbox.finish() }
}

extension Instant {
  var milliseconds: Int64 {
    let (seconds, attoseconds) = self.sinceStart.components
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
  }
}

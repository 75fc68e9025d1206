import Connectivity
import Netlink

@testable import ConndServer

/// connd in virtual time: the monitor's loop over the model kernel, with the real engine, store and mailboxes.
final class Daemon {
  private(set) var engine: Engine
  let store: Store
  private(set) var guardians: [UInt64: Guardian] = [:]
  private(set) var reopenAt: Instant?
  private(set) var isOpen = false

  private let faulty: FaultyKernel
  private let kernel: MutantKernel
  private let mutation: Mutation?
  private var filtered: Set<IPAddress> = []
  private var reopeningPause = Duration.seconds(1)
  private var late: [Change] = []
  private var number = 0

  /// What happened since somebody looked.
  var published: [Publication] = []
  var told: [FlowTable.Told] = []
  var batches: [Batch] = []

  /// A change, when it was published, and what was published before it.
  struct Publication {
    var change: Change
    var before: Snapshot
    var at: Instant
  }

  /// What the kernel told, and what was published before and after it was acted upon.
  struct Batch {
    var events: [KernelEvent]
    var before: Snapshot
    var after: Snapshot
  }

  init(
    _ configuration: Configuration, past: [Published], _ kernel: FaultyKernel, _ mutation: Mutation?
  ) {
    self.faulty = kernel
    self.kernel = MutantKernel(kernel, mutation)
    self.mutation = mutation
    self.store = Store(past)
    let snapshot = self.store.snapshot
    let isRestored = snapshot.generation > 0 && mutation != .forgetsAtRestart
    self.engine = Engine(
      mutation.configuration(configuration), restored: isRestored ? snapshot : nil)
  }

  private var now: Instant { self.faulty.now }
  private var time: Timestamp { Timestamp(microseconds: self.now.milliseconds * 1000) }
  private var clock: Instant { self.mutation.clock(self.now) }

  /// When there is something to do although the kernel says nothing.
  var deadline: Instant? {
    guard self.isOpen else { return self.reopenAt }
    let deadlines = [self.engine.deadline, self.engine.flowDeadline]
    return self.mutation.clockBack(deadlines.compactMap { $0 }.min())
  }

  // MARK: - The loop

  func start() {
    self.open(self.mutation == .startsBlind && self.store.snapshot.generation > 0 ? nil : .start)
  }

  /// All that is due now.
  func turn() {
    if let reopenAt = self.reopenAt, reopenAt <= self.now { self.open(.kernelBack) }
    self.drain()
    if self.isOpen, let deadline = self.engine.deadline, deadline <= self.clock {
      self.step(.timer)
    }
    if self.isOpen, let deadline = self.engine.flowDeadline, deadline <= self.clock {
      self.engine.lookAtOverdueFlows(at: self.clock)
    }
    self.evaluateFlows()
  }

  private func open(_ occasion: Occasion?) {
    let watched = self.engine.watchedByKernel
    self.faulty.reopen(self.kernel.watched(watched))
    self.filtered = Set(watched.destinations)
    (self.isOpen, self.reopenAt) = (true, nil)
    if let occasion { self.step(occasion) }
    if self.isOpen { self.reopeningPause = .seconds(1) }
  }

  func drain() {
    guard self.isOpen else { return }
    var mayHaveMore = true
    do throws(KernelUnavailable) {
      while mayHaveMore, self.isOpen {
        var events: [KernelEvent] = []
        mayHaveMore = try self.kernel.drain(into: &events)
        if !events.isEmpty { self.step(.events(events)) }
      }
    } catch {
      self.lose(error)
    }
  }

  /// The machine woke.
  func resume(after slept: Duration) {
    if self.mutation != .ignoresSleep { self.step(.resumed(slept)) }
  }

  func step(_ occasion: Occasion) {
    guard self.isOpen else { return }
    let before = self.engine.snapshot
    do throws(KernelUnavailable) {
      let step = try self.engine.step(
        self.mutation.occasion(occasion), kernel: self.kernel, at: self.clock, time: self.time)
      self.publish(step.changes, before, occasion)
      self.destroyTooMany(step, occasion)
      _ = try self.engine.follow(step, kernel: self.kernel)
      if self.engine.hasNewGateways { try self.watchGateways() }
    } catch {
      self.lose(error)
    }
    if case .events(let events) = occasion {
      self.batches.append(Batch(events: events, before: before, after: self.engine.snapshot))
    }
  }

  private func setFilter(beside addresses: [IPAddress] = []) throws(KernelUnavailable) {
    var watched = self.engine.watchedByKernel
    watched.destinations += addresses
    try self.kernel.watch(watched)
    self.filtered = Set(watched.destinations)
  }

  private func watchGateways() throws(KernelUnavailable) {
    try self.setFilter()
    self.faulty.isOrdered = false
    let events = try self.engine.filterIsSet(self.kernel)
    self.faulty.isOrdered = true
    guard let events else { return }
    self.step(.events(self.mutation.events(events)))
  }

  func evaluateFlows() {
    do throws(KernelUnavailable) {
      while self.isOpen, self.engine.isBusy {
        self.faulty.isOrdered = false
        defer { self.faulty.isOrdered = true }
        let told = try self.engine.evaluateFlows(from: self.kernel, at: self.clock)
        // Which flow is looked at first no seed decides, and nobody cares.
        for (key, event) in told.sorted(by: {
          ($0.key.guardian, $0.key.id) < ($1.key.guardian, $1.key.id)
        }) {
          self.tell(key, event)
        }
        if self.engine.hasNewGateways { try self.watchGateways() }
      }
    } catch {
      self.lose(error)
    }
  }

  func lose(_ error: KernelUnavailable) {
    self.faulty.isOrdered = true
    guard self.mutation != .staysBlind else {
      self.isOpen = false
      return
    }
    self.isOpen = false
    self.reopenAt = self.now.advanced(by: self.reopeningPause)
    self.reopeningPause = min(self.reopeningPause * 2, .seconds(60))
    let before = self.engine.snapshot
    let lost = self.engine.lostKernel(error, at: self.clock, time: self.time)
    self.publish(lost.changes, before, .kernelLost(""))
  }

  // MARK: - Publishing

  private func publish(_ changes: [Change], _ before: Snapshot, _ occasion: Occasion) {
    var changes = self.mutated(changes, before, occasion)
    if self.mutation == .holdsBackLoss {
      let isLoss = changes.contains { $0.snapshot?.status.category == Category.none }
      (changes, self.late) = isLoss ? ([], self.late + changes) : (self.late + changes, [])
    }
    guard !changes.isEmpty else { return }
    var snapshot = self.store.snapshot
    for change in changes {
      self.published.append(Publication(change: change, before: snapshot, at: self.now))
      snapshot.apply(change)
    }
    // No change that connd makes fails to be serialised: one that does is missing, and the clients notice.
    self.store.publish(changes.compactMap { try? Published($0) })
  }

  private func mutated(
    _ changes: [Change], _ before: Snapshot, _ occasion: Occasion
  ) -> [Change] {
    self.number += changes.count
    switch self.mutation {
    case .dropsChange where !changes.isEmpty && self.number % 5 == 0:
      return Array(changes.dropLast())
    case .repeatsGeneration where self.number % 5 == 0: return changes + changes.suffix(1)
    case .invalidatesFirst: return changes.reversed()
    case .publishesOldStatus:
      return changes.map { change in
        guard case .path(var path) = change else { return change }
        path.snapshot.status = before.status
        return .path(path)
      }
    case .tellsNoise where changes.isEmpty:
      guard case .events = occasion else { return changes }
      var snapshot = self.store.snapshot
      snapshot.generation += 1
      return [.path(PathChange(cause: Cause(.link, "linkUp"), time: self.time, snapshot: snapshot))]
    case .knowsNothingSaysNone:
      return changes.map { change in
        guard case .transition(var transition) = change, transition.to == .unknown else {
          return change
        }
        transition.to = .none
        transition.snapshot.status = Status(
          ipv4: .unsatisfied(.kernelUnavailable), ipv6: .unsatisfied(.kernelUnavailable),
          preferred: .ipv4)
        return .transition(transition)
      }
    default: return changes
    }
  }

  // MARK: - Flows

  func admit(_ guardian: Guardian) { self.guardians[guardian.number] = guardian }

  func dismiss(_ number: UInt64) {
    self.guardians.removeValue(forKey: number)?.finish()
    self.engine.removeFlows(of: number)
  }

  /// Guards flows from now on, as the monitor's loop takes requests.
  func register(_ registrations: [FlowTable.Registration]) {
    self.drain()
    let destinations = registrations.map(\.flow.destination)
    var registrar = Result { () throws(KernelUnavailable) in
      guard self.isOpen else { throw KernelUnavailable.notOpen }
      if !destinations.allSatisfy({ self.filtered.contains($0.address) }) {
        try self.setFilter(beside: destinations.map(\.address))
      }
      return try self.engine.registrar(
        for: destinations, past: self.store.past, from: self.kernel)
    }
    for registration in registrations {
      var registration = registration
      if self.mutation == .ignoresPolicy { registration.flow.forbidsExpensive = false }
      let event = self.engine.guardFlow(registration, &registrar, at: self.clock)
      self.tell(registration.key, event, isAnswer: true)
    }
    guard self.isOpen else { return }
    do throws(KernelUnavailable) {
      _ = try registrar.get()
      if self.engine.hasNewGateways { try self.watchGateways() }
    } catch {
      self.lose(error)
    }
  }

  func remove(_ key: FlowTable.Key) { self.engine.removeFlow(key) }

  private func tell(_ key: FlowTable.Key, _ event: FlowTable.Event, isAnswer: Bool = false) {
    if self.mutation == .forgetsDestroyed, case .invalidation(let verdict, _, _) = event,
      verdict.severity == .destroy
    {
      return
    }
    self.told.append((key, event))
    self.guardians[key.guardian]?.post([
      Guardian.Message(
        id: key.id, event: .flow(event), generation: self.engine.snapshot.generation,
        isAnswer: isAnswer)
    ])
  }

  /// The flows that the simulation's clients have.
  var keys: [FlowTable.Key] = []

  private func destroyTooMany(_ step: Engine.Step, _ occasion: Occasion) {
    let isHit: Bool
    switch (self.mutation, occasion) {
    case (.overrunDestroys, .events(let events)): isHit = events.contains(.overrun)
    case (.sparesNobody, _):
      isHit = if case .changed = step.categoryChange { true } else { false }
    case (.destroysUnaffected, .events): isHit = self.number % 7 == 3
    default: isHit = false
    }
    if isHit { self.destroyAll() }
  }

  func destroyAll() {
    for key in self.keys where self.engine.isGuarded(key) {
      self.engine.removeFlow(key)
      let verdict = FlowTracker.Verdict(.categoryChanged, .destroy)
      self.tell(key, .invalidation(verdict, Cause(.start, "started"), .unknown))
    }
  }
}

extension Instant {
  var milliseconds: Int64 {
    let (seconds, attoseconds) = self.sinceStart.components
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
  }
}

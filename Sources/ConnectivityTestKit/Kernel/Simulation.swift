internal import Connectivity
internal import ConnectivityRules

/// Simulates what connd does with the kernel's notifications. It uses the same code for the rules
/// (`ChangeDetector`, `FlowTracker`), on top of a simulated kernel.
///
/// A value without a clock: callers pass instants in, and read the deadline.
struct Simulation {
  let policy: InvalidationPolicy
  let treatsLoopbackAsRemote: Bool

  private(set) var machine = Machine()
  /// The DNS configuration.
  private var dns = DNSSettings(
    servers: [IPAddress("192.0.2.53")].compactMap { $0 }.map { .init($0) })
  /// The published changes, oldest first.
  private(set) var history: [ConnectivityChange] = []
  /// The last published state.
  private(set) var snapshot = ChangeDetector().snapshot
  /// The change detector, or `nil` while connd is not running.
  private var changes: ChangeDetector?
  private var isKernelLost = false
  private var deadlineOfChanges: Instant?
  /// How far the generations are ahead of `changes`, which does not count the changes that a test
  /// published directly.
  private var ahead: UInt64 = 0

  var flows = FlowTable()
  private var watched: [UInt64: (destination: IPAddress, path: KernelPath)] = [:]

  /// A message and its recipient.
  enum Announcement: Sendable {
    case change(ConnectivityChange)
    case path(watcher: UInt64, KernelPath)
    case flow(FlowTable.Key, FlowEvent)
  }

  init(policy: InvalidationPolicy, treatsLoopbackAsRemote: Bool) {
    self.policy = policy
    self.treatsLoopbackAsRemote = treatsLoopbackAsRemote
  }

  var isRunning: Bool { self.changes != nil }

  /// When to read the kernel even if nothing happens.
  var deadline: Instant? {
    guard self.isRunning, !self.isKernelLost else { return nil }
    return [self.deadlineOfChanges, self.flows.deadline].compactMap { $0 }.min()
  }

  // MARK: - connd

  /// Starts connd: it continues from its last published state, and reads the kernel.
  mutating func start(at now: Instant, time: WallTime) {
    guard !self.isRunning else { return }
    self.changes = ChangeDetector(
      restored: self.snapshot.generation > 0 ? self.snapshot : nil, policy: self.policy)
    self.ahead = 0
    _ = self.readDNS(learntLate: true, time: time)
    self.isKernelLost = false
    _ =
      self.machine.isUnknown
      ? self.loseKernel(at: now, time: time) : self.step(.start, at: now, time: time)
  }

  /// Stops connd: it forgets flows, but not what it published.
  mutating func stop() {
    self.changes = nil
    self.deadlineOfChanges = nil
    self.flows = FlowTable()
    self.watched = [:]
  }

  mutating func forgetHistory() { self.history = [] }

  // MARK: - Events

  /// Changes the machine.
  mutating func change(
    at now: Instant, time: WallTime, _ change: (inout Machine) -> Void
  ) -> [Announcement] {
    let old = self.machine
    change(&self.machine)
    guard self.isRunning, self.machine != old else { return [] }
    if self.machine.isUnknown { return self.loseKernel(at: now, time: time) }
    if self.isKernelLost {
      self.isKernelLost = false
      return self.step(.kernelBack, at: now, time: time)
    }
    let events = self.machine.events(since: old)
    return self.step(events.isEmpty ? .configuration : .events(events), at: now, time: time)
  }

  /// Changes the DNS configuration.
  mutating func resolve(by settings: DNSSettings, time: WallTime) -> [Announcement] {
    self.dns = settings
    return self.readDNS(time: time)
  }

  private mutating func readDNS(learntLate: Bool = false, time: WallTime) -> [Announcement] {
    let change = self.changes?.update(to: self.dns, learntLate: learntLate, time: time)
    return change.flatMap { $0 }.map { [self.publish($0.ahead(by: self.ahead))] } ?? []
  }

  /// Makes all links go away and come back before connd reads the kernel (T2).
  mutating func bounce(at now: Instant, time: WallTime) -> [Announcement] {
    guard self.isRunning, !self.isKernelLost else { return [] }
    return self.step(.events(self.machine.bounceEvents), at: now, time: time)
  }

  /// Simulates a sleep and the wake-up (I6).
  mutating func wake(
    after duration: Duration, at now: Instant, time: WallTime
  ) -> [Announcement] {
    guard self.isRunning, !self.isKernelLost else { return [] }
    return self.step(.resumed(duration), at: now, time: time)
  }

  /// Handles a deadline.
  mutating func observe(at now: Instant, time: WallTime) -> [Announcement] {
    guard self.isRunning, !self.isKernelLost else { return [] }
    var announcements: [Announcement] = []
    if let deadline = self.deadlineOfChanges, deadline <= now {
      announcements += self.step(.timer, at: now, time: time)
    }
    return announcements + self.evaluateFlows(.timer, onlyOverdue: true, at: now)
  }

  /// Publishes an invalidation of all channels.
  mutating func invalidateAll(
    _ verdict: FlowTracker.Verdict, _ cause: ChangeCause, time: WallTime
  ) -> [Announcement] {
    guard self.isRunning else { return [] }
    self.ahead += 1
    return [
      self.publish(
        .invalidation(
          Invalidation(
            generation: self.snapshot.generation + 1, reason: verdict.reason,
            severity: verdict.severity, scope: .everything, cause: cause, time: time)))
    ]
  }

  private mutating func publish(_ change: ConnectivityChange) -> Announcement {
    self.snapshot.apply(change)
    self.history.append(change)
    if self.history.count > Self.maxHistory { self.history.removeFirst() }
    return .change(change)
  }

  /// The maximum number of changes in the history, as in connd.
  private static let maxHistory = 512

  private mutating func step(
    _ occasion: ReadTrigger, at now: Instant, time: WallTime
  ) -> [Announcement] {
    guard var changes = self.changes else { return [] }
    let made = changes.update(to: self.reading(changes), on: occasion, at: now, time: time)
    self.changes = changes
    self.deadlineOfChanges = made.deadline
    var announcements = made.changes.map { self.publish($0.ahead(by: self.ahead)) }

    announcements += self.observe()
    let slept: Duration? = if case .resumed(let slept) = occasion { slept } else { nil }
    return announcements + self.evaluateFlows(occasion, slept: slept, at: now)
  }

  private mutating func loseKernel(at now: Instant, time: WallTime) -> [Announcement] {
    guard var changes = self.changes else { return [] }
    self.isKernelLost = true
    let made = changes.update(
      to: .init(.unknown), on: .kernelLost("simulated"), at: now, time: time)
    self.changes = changes
    self.deadlineOfChanges = nil
    return made.changes.map { self.publish($0.ahead(by: self.ahead)) } + self.observe()
  }

  // MARK: - Reading

  private func reading(_ changes: ChangeDetector) -> ChangeDetector.Reading {
    var reading = ChangeDetector.Reading(.unknown)
    for family in AddressFamily.allCases {
      let path = self.machine.defaultPath(family)
      reading.observation[family] = CandidatePath(path, route: self.machine.match(family, path))
      reading.networks[family] = self.machine.identity(path)
    }
    for followed in changes.followed {
      reading.followed[followed.id] = self.machine.reading(
        of: followed.path, source: followed.source,
        now: reading.observation[followed.family].path)
    }
    for source in changes.formerSources
    where self.machine.interface(source.link.index)?.has(source.address) != true {
      reading.lostSources[source] = .final
    }
    return reading
  }

  /// Returns the path that a client receives for an address.
  ///
  /// - Parameter link: The link that the traffic is bound to, or `nil` if it is not bound.
  func path(to address: IPAddress, over link: UInt32? = nil) -> KernelPath {
    // Traffic that is bound to `lo` stays on this machine.
    guard address.isLoopback, self.treatsLoopbackAsRemote, link != Machine.loopback.index else {
      return self.machine.path(to: address, over: link)
    }
    if let special = self.machine.specialPath(to: address, over: link) { return special }
    return ConnectivityStatus(
      ipv4: self.machine.defaultPath(.ipv4, over: link),
      ipv6: self.machine.defaultPath(.ipv6, over: link), preferred: .ipv4
    ).path
  }

  /// Returns the path of a flow.
  func path(of flow: Flow) -> KernelPath {
    self.path(to: flow.destination.address, over: flow.destination.outLink)
  }

  // MARK: - Watched destinations

  mutating func watch(_ destination: IPAddress, _ watcher: UInt64) -> KernelPath {
    let path = self.path(to: destination)
    self.watched[watcher] = (destination, path)
    return path
  }

  mutating func unwatch(_ watcher: UInt64) { self.watched[watcher] = nil }

  private mutating func observe() -> [Announcement] {
    self.watched.keys.sorted().compactMap { watcher in
      guard let (destination, reported) = self.watched[watcher] else { return nil }
      let path = self.path(to: destination)
      guard path != reported else { return nil }
      self.watched[watcher] = (destination, path)
      return .path(watcher: watcher, path)
    }
  }
}

extension ConnectivityChange {
  /// Returns the same change with a later generation.
  fileprivate func ahead(by distance: UInt64) -> ConnectivityChange {
    switch self {
    case .transition(var transition):
      transition.snapshot.generation += distance
      return .transition(transition)
    case .path(var change):
      change.snapshot.generation += distance
      return .path(change)
    case .invalidation(var invalidation):
      invalidation.generation += distance
      return .invalidation(invalidation)
    case .dns(var change):
      change.generation += distance
      return .dns(change)
    }
  }
}

extension Machine {
  /// Returns the state of a flow or a tracked path, as connd would read it.
  ///
  /// - Parameters:
  ///   - made: The path that the flow was made on.
  ///   - source: The flow's own address.
  ///   - path: The current path to the flow's remote address.
  func reading(of made: KernelPath, source: IPAddress?, now path: KernelPath) -> FlowReading {
    var reading = FlowReading(path, network: self.identity(path))
    reading.isLocal = path.medium == .loopback
    guard let source, !source.isLoopback, let before = made.chain.first?.index, before != 0,
      !reading.isLocal, made.chain.first != Self.loopback
    else { return reading }
    let (now, state) = (path.chain.first?.index, self.interface(before)?.state)
    if !self.has(source) {
      var lost = made
      lost.source = source
      let isReplaced = now == before && path.source != nil && path.isOfSameSubnet(as: lost)
      reading.sourceLoss = state != .up || isReplaced ? .final : .mayReturn
    }
    if path.status == .satisfied, now == before {
      reading.path.source = source
      reading.path.sourcePrefixLength = self.prefixLength(of: source)
      if !reading.path.isOfSameSubnet(as: path) {
        reading.alternative = .init(
          link: now, source: path.source, isKept: path.gateway == made.gateway)
      }
    } else if path.status == .satisfied {
      let network = self.interface(before)?.network
      let hasRoute = network.map { $0.hasRoute && self.networks.contains($0) } ?? false
      reading.formerLink = state != .up ? .failed : hasRoute ? .withRoute : .withoutRoute
    } else if now != before, state == nil || state == .down {
      reading.formerLink = .failed
    }
    return reading
  }
}

import Connectivity

/// All flows that are guarded, and their evaluation in slices, so that ten thousand of them never keep the monitor from
/// the kernel's next message.
///
/// Without I/O of its own: it sees the kernel through the seam.
struct FlowTable {
  /// A flow of a client: the client's stream, and what the client calls it.
  struct Key: Hashable, Sendable {
    var guardian: UInt64
    var id: UInt64
  }

  /// What a client is told of a flow.
  enum Event: Sendable {
    case path(Path)
    case invalidation(FlowTracker.Verdict, Cause, Path)
  }

  typealias Told = (key: Key, event: Event)

  private var entries: [Key: GuardedFlow] = [:]
  private var counts: [UInt64: Int] = [:]
  private var userCounts: [UInt32: Int] = [:]
  private var destinations = FlowDestinations()
  private var inDoubt: Set<Key> = []
  /// Those that were registered while the kernel could not be asked.
  private var blind: [Key: Registration] = [:]
  /// Those that began with something that the kernel has yet to tell of.
  private var ahead: Set<Key> = []
  private var passes = Passes()

  /// How many destinations are looked up before something else has its turn: about a millisecond, where flows go to different
  /// ones.
  private static let slice = 256

  var isEmpty: Bool { self.entries.isEmpty }
  var count: Int { self.entries.count }
  func count(of guardian: UInt64) -> Int { self.counts[guardian] ?? 0 }
  func count(ofUser uid: UInt32) -> Int { self.userCounts[uid] ?? 0 }
  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  /// The addresses whose routes matter.
  var addresses: Set<IPAddress> { Set(self.destinations.all.map(\.address)) }

  /// Whether a look at all of them takes more than about 20 ms.
  var lookTakesLong: Bool { self.destinations.all.count > 4096 }

  /// Whether a look at the flows is under way.
  var isBusy: Bool { !self.passes.isEmpty }

  /// When those in doubt must be looked at although the kernel says nothing; not later than that of any, and `nil` during a
  /// look, which sees them all. Ten thousand of them are not gone through each time that it is asked for.
  var deadline: Instant? { self.isBusy ? nil : self.earliestDeadline }
  private var earliestDeadline: Instant?

  private mutating func findEarliestDeadline() {
    self.earliestDeadline = self.inDoubt.compactMap { self.entries[$0]?.tracker.deadline }.min()
  }

  /// Has all flows looked at, because of what happened.
  ///
  /// - Parameter learnt: the hardware addresses that gateways were first told to have.
  mutating func lookAtAll(
    _ occasion: Occasion, _ circumstances: FlowTracker.Circumstances,
    learnt: [Gateway: [UInt8]] = [:]
  ) {
    guard !self.entries.isEmpty else { return }
    self.passes.append(
      .init(occasion, circumstances, learnt: learnt, of: self.destinations.all[...]))
  }

  /// Has those looked at whose grace is over, if none is looked at yet.
  mutating func lookAtOverdue(at now: Instant) {
    guard !self.isBusy else { return }
    let overdue = Set(
      self.inDoubt.compactMap { key -> Destination? in
        guard let tracker = self.entries[key]?.tracker, let deadline = tracker.deadline else {
          return nil
        }
        return deadline <= now ? tracker.flow.destination : nil
      })
    guard !overdue.isEmpty else {
      // The one that it was is not in doubt any more.
      self.findEarliestDeadline()
      return
    }
    self.passes.append(.init(.timer, of: self.destinations.all.filter(overdue.contains)[...]))
  }

  /// Looks at the next slice of what is to be looked at.
  mutating func evaluate(
    _ reader: PathReader, _ gateways: Gateways, policy: InvalidationPolicy,
    from kernel: some Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [Told] {
    guard var pass = self.passes.first else { return [] }
    let look = Look(reader, gateways, kernel)
    // All is read before anything is concluded: a kernel that fails in between must not swallow what was to be told.
    var readings: [Reading] = []
    var count = 0
    var isAhead: Bool
    repeat {
      let part = pass.takePart()
      count += part.count
      try self.read(Array(part), look, kernel, into: &readings)
      isAhead = kernel.hasMessages
    } while count < Self.slice && !pass.remaining.isEmpty && !isAhead
    var told: [Told] = []
    for (key, flow, way, reading) in readings {
      let hadBegun = flow.tracker.hasBegun
      if let event = self.update(key, flow, reading, way, pass, policy, now) {
        told.append((key, event))
      }
      if isAhead, !hadBegun, flow.tracker.hasBegun { self.ahead.insert(key) }
    }
    self.passes.goOn(with: pass)
    if !self.isBusy { self.findEarliestDeadline() }
    return told
  }

  /// All that the kernel has told is read: nothing of it concerns those who began with it.
  mutating func isDrained() {
    for key in self.ahead { self.entries[key]?.disregard(upTo: self.passes.last) }
    self.ahead = []
  }

  private typealias Reading = (key: Key, flow: GuardedFlow, way: Way, reading: FlowReading)

  private func read(
    _ destinations: [Destination], _ look: Look, _ kernel: some Kernel,
    into readings: inout [Reading]
  ) throws(KernelUnavailable) {
    for (destination, answer) in zip(destinations, try kernel.routes(to: destinations)) {
      guard let keys = self.destinations[destination] else { continue }
      let way = try look.way(to: destination, answer)
      for key in keys where self.blind[key] == nil {
        guard let flow = self.entries[key] else { continue }
        let reading = try look.reading(of: flow.baseline, way, to: destination)
        readings.append((key, flow, way, reading))
      }
    }
  }

  private mutating func update(
    _ key: Key, _ flow: GuardedFlow, _ reading: FlowReading, _ way: Way, _ pass: Passes.Pass,
    _ policy: InvalidationPolicy, _ now: Instant
  ) -> Event? {
    let old = flow.tracker.path
    let hadBegun = flow.tracker.hasBegun
    var reading = reading
    reading.firstHardwareAddress = way.gateway.flatMap {
      self.passes.hardwareAddress(of: $0, firstToldAfter: flow.lastPass)
    }
    let verdict = flow.tracker.update(
      to: reading, flow.lastPass < pass.number ? pass.circumstances : .init(), policy: policy,
      at: now)
    let destination = flow.tracker.flow.destination
    let isNew = flow.told != way.shown
    if verdict?.severity == .destroy {
      self.entries[key] = nil
      self.forget(key, destination)
    } else {
      flow.settle(on: way, isNew: isNew)
      // The reading is of now: looks that wait for their turn are about what happened before it.
      if !hadBegun, flow.tracker.hasBegun { flow.begin(after: self.passes.last) }
      if flow.tracker.deadline != nil {
        self.inDoubt.insert(key)
      } else if !self.inDoubt.isEmpty {
        self.inDoubt.remove(key)
      }
    }
    if let verdict {
      let cause = pass.occasion.cause(
        of: verdict, destination.address.family, from: old, to: way.shown)
      return .invalidation(verdict, cause, way.shown)
    }
    return isNew ? .path(way.shown) : nil
  }

  private mutating func forget(_ key: Key, _ destination: Destination) {
    self.blind[key] = nil
    self.ahead.remove(key)
    self.counts[key.guardian]? -= 1
    if self.counts[key.guardian] == 0 { self.counts[key.guardian] = nil }
    self.userCounts[destination.uid]? -= 1
    if self.userCounts[destination.uid] == 0 { self.userCounts[destination.uid] = nil }
    self.inDoubt.remove(key)
    if self.inDoubt.isEmpty { self.earliestDeadline = nil }
    self.destinations.remove(key, destination)
  }
}

// MARK: - Registration

extension FlowTable {
  /// Guards a flow from now on, unless it is dead already.
  ///
  /// - Returns: the path, or why it is dead or in doubt.
  mutating func add(
    _ registration: Registration, _ registrar: Registrar, policy: InvalidationPolicy,
    at now: Instant
  ) throws(KernelUnavailable) -> Event {
    let (flow, look) = (registration.flow, registrar.look)
    let way = try look.way(to: flow.destination, registrar.answer(for: flow.destination))
    let known = registration.knownPath ?? way.judged
    try look.use(known, boundTo: flow.destination.outLink)
    var (made, network) = (known, way.network)
    let source = flow.local ?? made.source
    let sourceLink = try source.flatMap { (source) throws(KernelUnavailable) in
      try look.link(of: source, likely: made.chain.first?.index)
    }
    if let own = try look.ownPath(of: flow, sourceLink, made) {
      (made, network) = (own, NetworkIdentity())
    }
    let entry = GuardedFlow(
      tracker: FlowTracker(flow, on: made, network: network), told: way.shown,
      depth: made.chain == way.judged.chain ? way.depth : try look.depth(of: made),
      sourceLink: sourceLink, lastPass: self.passes.last)
    let reading = try look.reading(of: entry.baseline, way, to: flow.destination)
    let since = registrar.gravest(since: registration.sinceGeneration, flow, way.judged, reading)

    var verdict: FlowTracker.Verdict?
    if let local = flow.local, entry.sourceLink == nil, !local.isLoopback {
      verdict = FlowTracker.Verdict(.sourceAddressLost, .destroy)
    } else if !reading.isLinkLost, try look.isElsewhere(flow, entry.sourceLink, way) {
      verdict = FlowTracker.Verdict(.betterPath, .destroy)
    } else {
      let change: FlowTracker.CategoryChange? =
        since?.scope == .everything ? since.map { .changed($0.severity) } : nil
      verdict = entry.tracker.update(
        to: reading, .init(categoryChange: change), policy: policy, at: now)
      if let since, since.scope != .everything,
        verdict.map({ $0.severity < since.severity }) ?? true
      {
        verdict = FlowTracker.Verdict(since.reason, since.severity)
      }
    }
    if verdict?.severity != .destroy { self.insert(entry, registration.key) }
    guard let verdict else { return .path(way.shown) }
    let change = verdict.severity == .advise ? "pathMissing" : "diedBefore"
    let late = Cause(.registration, change, interface: known.interface, learntLate: true)
    return .invalidation(verdict, since?.cause ?? late, way.shown)
  }

  /// Guards a flow while the kernel cannot be asked; it is to be registered again when it can be.
  mutating func addBlindly(_ registration: Registration) -> Event {
    let made = registration.knownPath ?? .unknown
    self.insert(
      GuardedFlow(
        tracker: FlowTracker(registration.flow, on: made), told: .unknown,
        depth: made.chain.count, sourceLink: nil, lastPass: self.passes.last),
      registration.key)
    self.blind[registration.key] = registration
    return .path(.unknown)
  }

  /// Takes out those that were added blindly, in the order of their keys.
  mutating func takeBlind() -> [Registration] {
    if self.blind.isEmpty { return [] }
    let registrations = self.blind.sorted {
      ($0.key.guardian, $0.key.id) < ($1.key.guardian, $1.key.id)
    }
    for (key, _) in registrations { self.remove(key) }
    return registrations.map(\.value)
  }

  private mutating func insert(_ entry: GuardedFlow, _ key: Key) {
    self.entries[key] = entry
    self.counts[key.guardian, default: 0] += 1
    self.userCounts[entry.tracker.flow.destination.uid, default: 0] += 1
    self.destinations.insert(key, entry.tracker.flow.destination)
    if let deadline = entry.tracker.deadline {
      self.inDoubt.insert(key)
      self.earliestDeadline = min(self.earliestDeadline ?? deadline, deadline)
    }
  }

  mutating func remove(_ key: Key) {
    guard let entry = self.entries.removeValue(forKey: key) else { return }
    self.forget(key, entry.tracker.flow.destination)
  }

  /// A client has gone.
  mutating func removeAll(of guardian: UInt64) {
    // In an order that does not depend on a hash's.
    let keys = self.entries.keys.filter { $0.guardian == guardian }
    for key in keys.sorted(by: { $0.id < $1.id }) { self.remove(key) }
  }
}

import Connectivity
import DequeModule

/// All flows that are guarded, and their evaluation in slices, so that ten thousand of them never keep the monitor from
/// the kernel's next message.
///
/// A value without I/O of its own: it sees the kernel through the seam.
struct FlowTable {
  /// A flow of a client: the client's stream, and what the client calls it.
  struct Key: Hashable {
    var guardian: UInt64
    var id: UInt64
  }

  /// What a client is told of a flow.
  enum Event {
    case path(Path)
    case invalidation(FlowTracker.Verdict, Cause, Path)
  }

  typealias Told = (key: Key, event: Event)

  private struct Entry {
    var tracker: FlowTracker
    /// The path that the client knows of.
    var told: Path
    /// How many links of the chain the flow depends on.
    var depth: Int
    /// The link that has the flow's own address.
    var sourceLink: UInt32?
    /// The number of the last pass that was due when the flow was added: what happened by then does not concern it.
    var lastPass: UInt64

    var baseline: FlowReader.Baseline {
      FlowReader.Baseline(
        path: self.tracker.path, depth: self.depth, source: self.tracker.source,
        sourceLink: self.sourceLink)
    }
  }

  /// One look at all flows, of which a part may still be to come.
  private struct Pass {
    var number: UInt64
    var occasion: Occasion
    var circumstances: FlowTracker.Circumstances
    var remaining: ArraySlice<Destination>
  }

  private var entries: [Key: Entry] = [:]
  private var counts: [UInt64: Int] = [:]
  private var keys: [Destination: Set<Key>] = [:]
  private var inDoubt: Set<Key> = []
  private var passes: Deque<Pass> = []
  private var lastPass: UInt64 = 0

  /// How many destinations are looked up before the kernel's messages are read again: about a millisecond.
  private static let slice = 256
  /// How many looks wait for their turn.
  private static let mostPasses = 8

  var isEmpty: Bool { self.entries.isEmpty }
  var count: Int { self.entries.count }
  func count(of guardian: UInt64) -> Int { self.counts[guardian] ?? 0 }
  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  /// The addresses whose routes matter.
  var addresses: Set<IPAddress> { Set(self.keys.keys.map(\.address)) }

  /// Whether a look at the flows is under way.
  var isBusy: Bool { !self.passes.isEmpty }

  /// When those in doubt must be looked at although the kernel says nothing.
  var deadline: Instant? { self.inDoubt.compactMap { self.entries[$0]?.tracker.deadline }.min() }

  /// Has all flows looked at, because of what happened.
  mutating func lookAtAll(_ occasion: Occasion, _ circumstances: FlowTracker.Circumstances) {
    guard !self.entries.isEmpty else { return }
    let all = Array(self.keys.keys)[...]
    // A look that has not begun yet sees what is true then: it serves both occasions. What happened in between is kept
    // apart as long as there is not too much of it.
    if let last = self.passes.indices.last, last > 0,
      last >= Self.mostPasses
        || self.passes[last].circumstances == .init() && circumstances == .init()
    {
      self.lastPass += 1
      self.passes[last].number = self.lastPass
      self.passes[last].occasion = self.passes[last].occasion.joined(with: occasion)
      self.passes[last].circumstances.join(circumstances)
      self.passes[last].remaining = all
    } else {
      self.append(occasion, circumstances, all)
    }
  }

  private mutating func append(
    _ occasion: Occasion, _ circumstances: FlowTracker.Circumstances,
    _ destinations: ArraySlice<Destination>
  ) {
    self.lastPass += 1
    self.passes.append(
      Pass(
        number: self.lastPass, occasion: occasion, circumstances: circumstances,
        remaining: destinations))
  }

  /// Has those looked at whose grace is over.
  mutating func lookAtOverdue(at now: Instant) {
    let overdue = Set(
      self.inDoubt.compactMap { key -> Destination? in
        guard let tracker = self.entries[key]?.tracker, let deadline = tracker.deadline else {
          return nil
        }
        return deadline <= now ? tracker.flow.destination : nil
      })
    guard !overdue.isEmpty else { return }
    self.append(.timer, .init(), Array(overdue)[...])
  }

  /// Looks at the next slice of what is to be looked at.
  mutating func evaluate(
    _ reader: PathReader, _ gateways: Gateways, policy: InvalidationPolicy,
    from kernel: some Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [Told] {
    guard var pass = self.passes.first else { return [] }
    let slice = Array(pass.remaining.prefix(Self.slice))
    let look = Look(reader, gateways, kernel)
    let answers = try kernel.routes(to: slice)
    var told: [Told] = []
    for (destination, answer) in zip(slice, answers) {
      let way = try look.way(to: destination, answer)
      for key in self.keys[destination] ?? [] {
        guard let entry = self.entries[key] else { continue }
        let reading = try look.reading(of: entry.baseline, way, to: destination)
        let circumstances = entry.lastPass < pass.number ? pass.circumstances : .init()
        let event = self.update(key, reading, way, pass.occasion, circumstances, policy, now)
        if let event { told.append((key, event)) }
      }
    }
    pass.remaining = pass.remaining.dropFirst(slice.count)
    if pass.remaining.isEmpty { self.passes.removeFirst() } else { self.passes[0] = pass }
    return told
  }

  private mutating func update(
    _ key: Key, _ reading: FlowReading, _ way: Look<some Kernel>.Way, _ occasion: Occasion,
    _ circumstances: FlowTracker.Circumstances, _ policy: InvalidationPolicy, _ now: Instant
  ) -> Event? {
    // Taken out and put back, so that the update does not copy it.
    guard var entry = self.entries.removeValue(forKey: key) else { return nil }
    let old = entry.tracker.path
    let verdict = entry.tracker.update(
      to: reading, circumstances, policy: policy, at: now)
    if verdict?.severity == .destroy {
      self.forget(key, entry.tracker.flow.destination)
    } else {
      if entry.tracker.deadline != nil {
        self.inDoubt.insert(key)
      } else {
        self.inDoubt.remove(key)
      }
    }
    let isNew = entry.told != way.shown
    entry.told = way.shown
    if verdict?.severity != .destroy { self.entries[key] = entry }
    if let verdict {
      let cause = occasion.cause(
        of: verdict, entry.tracker.flow.destination.address.family, from: old, to: way.shown)
      return .invalidation(verdict, cause, way.shown)
    }
    return isNew ? .path(way.shown) : nil
  }

  private mutating func forget(_ key: Key, _ destination: Destination) {
    self.counts[key.guardian]? -= 1
    if self.counts[key.guardian] == 0 { self.counts[key.guardian] = nil }
    self.inDoubt.remove(key)
    self.keys[destination]?.remove(key)
    if self.keys[destination]?.isEmpty == true { self.keys[destination] = nil }
  }
}

// MARK: - Registration

extension FlowTable {
  /// A flow as a client registers it.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client was told of it before.
    var knownPath: Path?
    /// What was destroyed since the generation that the client knew of.
    var since: [Invalidation] = []
  }

  /// Guards a flow from now on, unless it is dead already.
  ///
  /// - Returns: the path, or why it is dead.
  mutating func add(
    _ registration: Registration, _ reader: PathReader, _ gateways: Gateways,
    policy: InvalidationPolicy, from kernel: some Kernel, at now: Instant
  ) throws(KernelUnavailable) -> Event {
    let flow = registration.flow
    let look = Look(reader, gateways, kernel)
    let way = try look.way(to: flow.destination, try kernel.route(to: flow.destination))
    let made = registration.knownPath ?? way.judged
    let source = flow.local ?? made.source
    var entry = Entry(
      tracker: FlowTracker(flow, on: made, network: way.network), told: way.shown,
      depth: registration.knownPath == nil ? way.depth : min(way.depth, made.chain.count),
      sourceLink: try source.flatMap { (source) throws(KernelUnavailable) in
        try look.link(of: source, likely: made.chain.first?.index)
      }, lastPass: self.lastPass)

    let reading = try look.reading(of: entry.baseline, way, to: flow.destination)
    let since = registration.since.first { $0.covered(flow, way.judged, reading) }
    var verdict: FlowTracker.Verdict?
    if let local = flow.local, entry.sourceLink == nil, !local.isLoopback {
      verdict = FlowTracker.Verdict(.sourceAddressLost, .destroy)
    } else if try look.isElsewhere(flow, entry.sourceLink, way) {
      verdict = FlowTracker.Verdict(.betterPath, .destroy)
    } else {
      let change: FlowTracker.CategoryChange? =
        since?.scope == .everything ? since.map { .changed($0.severity) } : nil
      verdict = entry.tracker.update(
        to: reading, .init(categoryChange: change), policy: policy, at: now)
      if verdict == nil, let since, since.scope != .everything {
        verdict = FlowTracker.Verdict(since.reason, since.severity)
      }
    }
    if verdict?.severity != .destroy {
      self.entries[registration.key] = entry
      self.counts[registration.key.guardian, default: 0] += 1
      self.keys[flow.destination, default: []].insert(registration.key)
      if entry.tracker.deadline != nil { self.inDoubt.insert(registration.key) }
    }
    guard let verdict else { return .path(way.shown) }
    let late = Cause(
      .registration, "diedBefore", interface: made.interface, learntLate: true)
    return .invalidation(verdict, since?.cause ?? late, way.shown)
  }

  mutating func remove(_ key: Key) {
    guard let entry = self.entries.removeValue(forKey: key) else { return }
    self.forget(key, entry.tracker.flow.destination)
  }

  /// A client has gone.
  mutating func removeAll(of guardian: UInt64) {
    for key in self.entries.keys where key.guardian == guardian { self.remove(key) }
  }
}

extension Invalidation {
  /// Whether a flow that is registered only now had been in the scope.
  fileprivate func covered(_ flow: Flow, _ path: Path, _ reading: FlowReading) -> Bool {
    guard self.severity != .advise, !reading.isLocal else { return false }
    if self.scope == .everything { return true }
    if let family = self.scope.family, family != flow.destination.address.family { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // Its own address stands for the link that it was on, and is there: then only the kernel can tell.
    return flow.local == nil && self.scope.interface == path.interface
  }
}

extension Occasion {
  fileprivate func joined(with other: Occasion) -> Occasion {
    guard case .events(let events) = self, case .events(let others) = other else { return other }
    return .events(events + others)
  }
}

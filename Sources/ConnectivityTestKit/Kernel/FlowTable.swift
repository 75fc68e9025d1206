internal import Connectivity
internal import ConnectivityRules

/// The flows that are guarded.
struct FlowTable {
  /// A flow of a client: the client's stream, and what the client calls it.
  struct Key: Hashable, Sendable, Comparable {
    var guardian: UInt64
    var id: UInt64

    static func < (lhs: Self, rhs: Self) -> Bool {
      (lhs.guardian, lhs.id) < (rhs.guardian, rhs.id)
    }
  }

  /// What a client is told of a flow.
  enum Event: Sendable {
    case path(Path)
    case betterPathGone(Path)
    case invalidation(FlowTracker.Verdict, Cause, Path)
    case refused(Refusal)
  }

  /// Why a request was not accepted.
  struct Refusal: Error, Hashable, Sendable {
    /// Of google.rpc.
    var code: UInt32
    var message: String

    static func invalid(_ message: String) -> Refusal { Refusal(code: 3, message: message) }
    static func exhausted(_ message: String) -> Refusal { Refusal(code: 8, message: message) }
  }

  struct Entry {
    var tracker: FlowTracker
    /// The path that the client knows of.
    var told: Path
    /// As the client named it.
    var local: IPAddress?
  }

  /// A flow as a client registers it.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client was told of it before.
    var knownPath: Path?
    /// The last generation that the client knew of before it connected.
    var sinceGeneration: UInt64?
  }

  fileprivate(set) var entries: [Key: Entry] = [:]

  var keys: [Key] { self.entries.keys.sorted() }

  /// When those in doubt must be looked at although nothing happens.
  var deadline: Instant? { self.entries.values.compactMap(\.tracker.deadline).min() }

  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  mutating func remove(_ key: Key) { self.entries[key] = nil }

  mutating func removeAll(of guardian: UInt64) {
    self.entries = self.entries.filter { $0.key.guardian != guardian }
  }
}

extension Simulation {
  /// Looks at all flows, or at those whose grace is over.
  mutating func evaluateFlows(
    _ occasion: Occasion, slept: Duration? = nil, onlyOverdue: Bool = false, at now: Instant
  ) -> [Announcement] {
    self.flows.keys.compactMap { key in
      guard var entry = self.flows.entries[key] else { return nil }
      if onlyOverdue {
        guard let deadline = entry.tracker.deadline, deadline <= now else { return nil }
      }
      let path = self.path(of: entry.tracker.flow)
      let old = entry.tracker.path
      let reading = self.machine.reading(of: old, source: entry.tracker.source, now: path)
      let hadBetterPath = entry.tracker.hasBetterPath
      let verdict = entry.tracker.update(
        to: reading, slept: slept, policy: self.policy, at: now)
      let isNew = entry.told != path
      let isBetterPathGone = hadBetterPath && !entry.tracker.hasBetterPath
      entry.told = path
      self.flows.entries[key] = verdict?.severity == .destroy ? nil : entry
      if let verdict {
        let family = entry.tracker.flow.destination.address.family
        let cause = occasion.cause(of: verdict, family, from: old, to: path)
        return .flow(key, .invalidation(verdict, cause, path))
      }
      if isBetterPathGone { return .flow(key, .betterPathGone(path)) }
      return isNew ? .flow(key, .path(path)) : nil
    }
  }

  /// Tells of flows what a test says.
  mutating func invalidateFlows(
    _ keys: [FlowTable.Key], _ verdict: FlowTracker.Verdict, _ cause: Cause
  ) -> [Announcement] {
    keys.compactMap { key in
      guard let entry = self.flows.entries[key] else { return nil }
      if verdict.severity == .destroy { self.flows.remove(key) }
      return .flow(
        key,
        .invalidation(verdict, cause, self.path(of: entry.tracker.flow)))
    }
  }

  /// Guards a flow from now on, unless it is dead already.
  ///
  /// - Returns: Its path, or why it is dead, in doubt or refused.
  mutating func guardFlow(
    _ registration: FlowTable.Registration, at now: Instant
  ) -> FlowTable.Event {
    let key = registration.key
    guard !self.flows.contains(key) else {
      return .refused(.invalid("add.id: flow \(key.id) is guarded already"))
    }
    var flow = registration.flow
    let local = flow.local
    // A test's real addresses say nothing about the simulated machine: what it was told before stands for them.
    if let local, !self.machine.hadEver(local) { flow.local = registration.knownPath?.source }
    let path = self.path(of: flow)
    let made = registration.knownPath ?? path
    var tracker = FlowTracker(flow, on: made, network: self.machine.identity(path))
    guard path.status != .unknown else {
      self.flows.entries[key] = .init(tracker: tracker, told: path, local: local)
      return .path(path)
    }
    let reading = self.machine.reading(of: made, source: tracker.source, now: path)
    let since = self.gravest(since: registration.sinceGeneration, flow, path, reading)
    let verdict = tracker.register(on: reading, since: since, policy: self.policy, at: now)
    if verdict?.severity != .destroy {
      self.flows.entries[key] = .init(tracker: tracker, told: path, local: local)
    }
    guard let verdict else { return .path(path) }
    let change = verdict.severity == .advise ? "pathMissing" : "diedBefore"
    let late = Cause(.registration, change, interface: made.interface, learntLate: true)
    return .invalidation(verdict, since?.cause ?? late, path)
  }

  /// The gravest of what happened to the flow since a generation, of these the latest.
  private func gravest(
    since generation: UInt64?, _ flow: Flow, _ path: Path, _ reading: FlowReading
  ) -> Invalidation? {
    guard let generation, !reading.isLocal else { return nil }
    let covering = self.history.reversed().compactMap { change -> Invalidation? in
      guard case .invalidation(let invalidation) = change, invalidation.generation > generation,
        invalidation.severity != .advise, invalidation.covers(flow, path)
      else { return nil }
      return invalidation
    }
    let gravest = covering.map(\.severity).max()
    return covering.first { $0.severity == gravest }
  }
}

extension Invalidation {
  /// Whether a flow that is registered only now had been in the scope.
  fileprivate func covers(_ flow: Flow, _ path: Path) -> Bool {
    guard self.scope != .everything else { return false }
    // A loopback destination that counts as remote follows the summary, whatever its own family is.
    let family = path.source?.family ?? flow.destination.address.family
    if let scoped = self.scope.family, scoped != family { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // Its own address stands for the link that it was on, and is there; but it does not tell the network behind it.
    guard flow.local == nil || self.reason == .networkChanged else { return false }
    return self.scope.interface == path.interface
  }
}

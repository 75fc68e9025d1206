internal import Connectivity
internal import ConnectivityRules

/// The guarded flows.
struct FlowTable {
  /// The key of a flow: the number of the client's `Guard` stream, and the client's id for the
  /// flow.
  struct Key: Hashable, Sendable, Comparable {
    var guardian: UInt64
    var id: UInt64

    static func < (lhs: Self, rhs: Self) -> Bool {
      (lhs.guardian, lhs.id) < (rhs.guardian, rhs.id)
    }
  }

  struct Entry {
    var tracker: FlowTracker
    /// The last path that connd sent to the client.
    var reported: KernelPath
    /// The address as the client specified it.
    var local: IPAddress?
  }

  /// A flow as registered by a client.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The last path that the client received for the flow.
    var knownPath: KernelPath?
    /// The last generation that the client had received before it connected.
    var sinceGeneration: UInt64?
  }

  fileprivate(set) var entries: [Key: Entry] = [:]

  var keys: [Key] { self.entries.keys.sorted() }

  /// The earliest deadline of all flows in doubt.
  var deadline: Instant? { self.entries.values.compactMap(\.tracker.deadline).min() }

  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  mutating func remove(_ key: Key) { self.entries[key] = nil }

  mutating func removeAll(of guardian: UInt64) {
    self.entries = self.entries.filter { $0.key.guardian != guardian }
  }
}

extension Simulation {
  /// Evaluates all flows, or only flows with an expired grace period.
  mutating func evaluateFlows(
    _ occasion: ReadTrigger, slept: Duration? = nil, onlyOverdue: Bool = false, at now: Instant
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
      let isNew = entry.reported != path
      let isBetterPathGone = hadBetterPath && !entry.tracker.hasBetterPath
      entry.reported = path
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

  /// Invalidates flows as a test requests.
  mutating func invalidateFlows(
    _ keys: [FlowTable.Key], _ verdict: FlowTracker.Verdict, _ cause: ChangeCause
  ) -> [Announcement] {
    keys.compactMap { key in
      guard let entry = self.flows.entries[key] else { return nil }
      if verdict.severity == .destroy { self.flows.remove(key) }
      return .flow(
        key,
        .invalidation(verdict, cause, self.path(of: entry.tracker.flow)))
    }
  }

  /// Guards a flow from now on, unless it is already dead.
  ///
  /// - Returns: The flow's path, or the reason why the flow is dead, in doubt or refused.
  mutating func guardFlow(
    _ registration: FlowTable.Registration, at now: Instant
  ) -> FlowEvent {
    let key = registration.key
    guard !self.flows.contains(key) else {
      return .refused(.invalid("add.id: flow \(key.id) is already guarded"))
    }
    // Every address belongs to at most one link of the simulated machine.
    let placed = registration.flow.placed { self.machine.interface(with: $0).map { [$0] } ?? [] }
    guard var flow = placed else {
      return .refused(.needsLink(registration.flow.destination.address))
    }
    let local = flow.local
    // The simulated machine does not have a test's real address. The source address of the last
    // known path replaces it.
    if let local, !self.machine.hadEver(local) { flow.local = registration.knownPath?.source }
    let path = self.path(of: flow)
    let made = registration.knownPath ?? path
    var tracker = FlowTracker(flow, on: made, network: self.machine.identity(path))
    guard path.status != .unknown else {
      self.flows.entries[key] = .init(tracker: tracker, reported: path, local: local)
      return .path(path)
    }
    let reading = self.machine.reading(of: made, source: tracker.source, now: path)
    let since = PastInvalidations(self.history).gravest(
      of: flow.standIn(on: path), since: registration.sinceGeneration, path, reading)
    let verdict = tracker.register(on: reading, since: since, policy: self.policy, at: now)
    if verdict?.severity != .destroy {
      self.flows.entries[key] = .init(tracker: tracker, reported: path, local: local)
    }
    guard let verdict else { return .path(path) }
    let change = verdict.severity == .advise ? "pathMissing" : "diedBefore"
    let late = ChangeCause(.registration, change, interface: made.interface, learntLate: true)
    return .invalidation(verdict, since?.cause ?? late, path)
  }
}

extension Flow {
  /// Returns the simulated flow that a loopback flow represents. It follows the summary, whatever
  /// the family of the loopback address.
  fileprivate func standIn(on path: KernelPath) -> Flow {
    guard self.destination.address.isLoopback, let family = path.source?.family else { return self }
    var flow = self
    flow.destination.address = .unspecified(family)
    return flow
  }
}

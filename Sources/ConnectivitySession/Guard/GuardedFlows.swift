package import Connectivity
internal import ConnectivityProtocol

/// The flows of a guard: what connd has yet to be told of them, and what it said.
package struct GuardedFlows: Sendable {
  private struct Entry: Sendable {
    var flow: FlowGuard.Flow
    /// As connd sent it, with what a newer one may have put in.
    var knownPath: Connectivity_V1_Path?
    /// connd has said something of the flow as it is.
    var isAnswered = false
  }

  private var entries: [UInt64: Entry] = [:]
  /// Flows that connd does not know of in this stream. Both sets are bounded by the number of flows, however long
  /// connd takes to read.
  private var unsent: Set<UInt64> = []
  /// Flows that connd still guards, and need not.
  private var removed: Set<UInt64> = []
  /// The last one seen.
  private var generation: UInt64?
  private var outage = Outage()
  /// The network namespace of this process; `nil` where it is not known.
  private let namespace: UInt64?
  /// connd speaks of another namespace in this stream. It is told nothing more, and what it says is nothing.
  private var isElsewhere = false

  init(namespace: UInt64? = NetworkNamespace.own) { self.namespace = namespace }

  var isEmpty: Bool { self.entries.isEmpty }

  /// Does nothing where the id names a flow already.
  ///
  /// - Parameter path: What connd told of the flow before its connection was made: what has changed since is told at once.
  package mutating func add(_ flow: FlowGuard.Flow, id: UInt64, madeOn path: Path? = nil) {
    guard self.entries[id] == nil else { return }
    self.entries[id] = Entry(flow: flow, knownPath: path.map { Connectivity_V1_Path($0) })
    self.unsent.insert(id)
  }

  package mutating func remove(_ id: UInt64) {
    guard self.entries.removeValue(forKey: id) != nil else { return }
    if self.unsent.remove(id) == nil { self.removed.insert(id) }
  }

  /// A new stream begins: connd knows of nothing.
  mutating func connecting() {
    self.unsent = Set(self.entries.keys)
    self.removed = []
    self.isElsewhere = false
  }

  /// What connd is to be told now.
  mutating func requests() -> [Connectivity_V1_GuardRequest] {
    if self.isElsewhere {
      defer { self.removed = [] }
      return self.removed.sorted().map(Self.removal)
    }
    defer { (self.removed, self.unsent) = ([], []) }
    // An id may have been freed and taken again.
    return self.removed.sorted().map(Self.removal)
      + self.unsent.sorted().compactMap { id in self.entries[id].map { self.addition($0, id) } }
  }

  /// connd took the call.
  mutating func accepted() -> GuardEvent? { self.outage.accepted() ? .resumed : nil }

  /// connd sent a message; `nil` where it is about a flow that was removed, or not to be understood.
  mutating func received(_ message: Connectivity_V1_GuardResponse) throws -> GuardEvent? {
    if let foreign = self.foreignNamespace(message) { return self.estranged(foreign) }
    let event = try FlowEvent(message)
    self.generation = message.generation
    self.outage.received()
    guard let event, var entry = self.entries[message.id], !self.unsent.contains(message.id) else {
      return nil
    }
    switch event {
    case .path(let path), .betterPathGone(let path):
      // What connd takes for it, from the first path that carries traffic on: not what the kernel would choose for a new
      // connection later.
      if path.status == .satisfied { entry.flow.local = entry.flow.local ?? path.source }
      (entry.knownPath, entry.isAnswered) = (message.path, true)
      self.entries[message.id] = entry
    case .invalidation(let invalidation):
      // Unless it is destroyed, the flow stays on the path that it had: that one is compared with after an outage.
      if invalidation.severity == .destroy { self.entries[message.id] = nil }
    case .refused:
      self.entries[message.id] = nil
    }
    return .flow(id: message.id, generation: message.generation, event)
  }

  /// What tells that connd speaks of another network namespace; `nil` where one of the two is not known (0).
  private func foreignNamespace(_ message: Connectivity_V1_GuardResponse) -> ForeignNamespace? {
    let connd = message.networkNamespace
    guard let own = self.namespace, connd != 0, connd != own else { return nil }
    return ForeignNamespace(connd: connd, own: own)
  }

  /// Gives up the flows that connd guards, until there is another stream.
  private mutating func estranged(_ foreign: ForeignNamespace) -> GuardEvent? {
    guard !self.isElsewhere else { return nil }
    self.isElsewhere = true
    self.removed.formUnion(self.entries.keys)
    self.removed.subtract(self.unsent)
    self.unsent = Set(self.entries.keys)
    self.outage.received()
    self.outage.markTold()
    return .elsewhere(foreign)
  }

  /// The connection ended, or there was none: what to tell, and how long to wait before the next one.
  mutating func lost(_ error: any Error) -> (GuardEvent?, pause: Duration) {
    // Without a flow there is nobody to tell, and nothing to connect for.
    if self.entries.isEmpty { return (nil, .zero) }
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }

  /// The pause is over. Without a flow connd is not looked for any more, so that its absence is no longer known: what
  /// to tell then.
  mutating func rested() -> GuardEvent? {
    self.entries.isEmpty && self.outage.accepted() ? .resumed : nil
  }

  private func addition(_ entry: Entry, _ id: UInt64) -> Connectivity_V1_GuardRequest {
    var request = Connectivity_V1_GuardRequest()
    request.add = Connectivity_V1_Flow(entry.flow, id: id)
    if let path = entry.knownPath {
      request.add.knownPath = path
      if entry.isAnswered, let generation = self.generation {
        request.add.sinceGeneration = generation
      }
    }
    return request
  }

  private static func removal(_ id: UInt64) -> Connectivity_V1_GuardRequest {
    var request = Connectivity_V1_GuardRequest()
    request.remove.id = id
    return request
  }
}

package import Connectivity
private import ConnectivityProtobuf
internal import ConnectivityProtocol

/// The flows of a guard: their pending requests and their last answers.
package struct GuardedFlows: Sendable {
  private struct Entry: Sendable {
    var flow: FlowGuard.Flow
    /// The path as connd sent it, including values of a newer version.
    var knownPath: Connectivity_V1_Path?
    /// Whether connd has reported anything about the flow as registered.
    var isAnswered = false
  }

  private var entries: [UInt64: Entry] = [:]
  /// Flows that connd does not know in this stream. Both sets are bounded by the number of flows,
  /// however slowly connd reads.
  private var unsent: Set<UInt64> = []
  /// Flows that connd still guards but need not.
  private var removed: Set<UInt64> = []
  /// The last generation received.
  private var generation: UInt64?
  private var outage = Outage()
  /// The network namespace of this process, or `nil` if unknown.
  private let namespace: UInt64?
  /// Whether connd is in another namespace in this stream. If so, connd receives only removals, and
  /// its messages are ignored.
  private var isElsewhere = false

  init(namespace: UInt64? = ProcessNamespace.own) { self.namespace = namespace }

  var isEmpty: Bool { self.entries.isEmpty }

  /// Adds a flow. Has no effect if the id is already in use.
  ///
  /// - Parameter path: The path that connd reported before the connection was made. connd
  ///   immediately reports what has changed since.
  package mutating func add(_ flow: FlowGuard.Flow, id: UInt64, madeOn path: KernelPath? = nil) {
    guard self.entries[id] == nil else { return }
    self.entries[id] = Entry(flow: flow, knownPath: path.map { Connectivity_V1_Path($0) })
    self.unsent.insert(id)
  }

  package mutating func remove(_ id: UInt64) {
    guard self.entries.removeValue(forKey: id) != nil else { return }
    if self.unsent.remove(id) == nil { self.removed.insert(id) }
  }

  /// Begins a new stream, in which connd does not know any flow yet.
  mutating func connecting() {
    self.unsent = Set(self.entries.keys)
    self.removed = []
    self.isElsewhere = false
  }

  /// Returns the pending requests, as protobuf.
  mutating func pendingRequests() -> [[UInt8]] {
    if self.isElsewhere {
      defer { self.removed = [] }
      return self.removed.sorted().map(Self.removal(of:))
    }
    defer { (self.removed, self.unsent) = ([], []) }
    // Removals come first, because an id may have been freed and reused.
    return self.removed.sorted().map(Self.removal(of:))
      + self.unsent.sorted().compactMap { id in self.entries[id].map { self.addition($0, id) } }
  }

  /// Records that connd accepted the call. Returns the event to report, if any.
  mutating func accepted() -> GuardEvent? { self.outage.accepted() ? .resumed : nil }

  /// Reads a message from connd. Returns no events if it is about a removed flow, or unknown.
  mutating func received(_ message: [UInt8]) throws -> [GuardEvent] {
    let message = try Connectivity_V1_GuardResponse(serializedBytes: message)
    let event = try FlowEvent(message)
    if let foreign = ForeignNamespace(of: message.networkNamespace, own: self.namespace) {
      return self.namespaceMismatch(foreign).map { [$0] } ?? []
    }
    self.generation = message.generation
    self.outage.received()
    guard let event, var entry = self.entries[message.id],
      !self.unsent.contains(message.id)
    else {
      return []
    }
    // A question may come with the path that is already known.
    if message.hasQuestionEndTime, case .path = event, entry.knownPath == message.path {
      return [.question(id: message.id)]
    }
    switch event {
    case .path(let path), .betterPathGone(let path):
      // connd uses the address of the first path that is satisfied, and not the kernel's later
      // choice for new connections.
      if path.status == .satisfied { entry.flow.local = entry.flow.local ?? path.source }
      (entry.knownPath, entry.isAnswered) = (message.ownPath, true)
      self.entries[message.id] = entry
    case .invalidation(let invalidation):
      // A flow that is not destroyed keeps its path, which connd compares after an outage.
      if invalidation.severity == .destroy { self.entries[message.id] = nil }
    case .refused:
      self.entries[message.id] = nil
    }
    let reported = GuardEvent.flow(id: message.id, generation: message.generation, event)
    return message.hasQuestionEndTime ? [reported, .question(id: message.id)] : [reported]
  }

  /// Removes all flows from a connd in another namespace, until there is another stream.
  private mutating func namespaceMismatch(_ foreign: ForeignNamespace) -> GuardEvent? {
    guard !self.isElsewhere else { return nil }
    self.isElsewhere = true
    self.removed.formUnion(self.entries.keys)
    self.removed.subtract(self.unsent)
    self.unsent = Set(self.entries.keys)
    self.outage.received()
    self.outage.markTold()
    return .absent(.elsewhere(foreign))
  }

  /// Records a lost connection. Returns the event to report, if any, and the next pause.
  mutating func lost(_ error: any Error) -> (GuardEvent?, pause: Duration) {
    // Without a flow, there is nothing to report and no reason to connect.
    if self.entries.isEmpty { return (nil, .zero) }
    let (error, pause) = self.outage.lost(error)
    return (error.map { .absent(.disconnected($0)) }, pause)
  }

  /// Notes the end of a pause. A guard without flows stops trying to connect, and withdraws a
  /// reported absence. Returns the event to report, if any.
  mutating func rested() -> GuardEvent? {
    self.entries.isEmpty && self.outage.accepted() ? .resumed : nil
  }

  private func addition(_ entry: Entry, _ id: UInt64) -> [UInt8] {
    var flow = Connectivity_V1_Flow(entry.flow, id: id)
    if let path = entry.knownPath { flow.knownPath = path }
    if entry.isAnswered, let generation = self.generation { flow.sinceGeneration = generation }
    var request = Connectivity_V1_GuardRequest()
    request.add = flow
    return request.serializedBytes()
  }

  private static func removal(of id: UInt64) -> [UInt8] {
    var request = Connectivity_V1_GuardRequest()
    request.remove.id = id
    return request.serializedBytes()
  }
}

extension Connectivity_V1_GuardResponse {
  /// The path of the flow, or `nil` if the message does not report a path.
  fileprivate var ownPath: Connectivity_V1_Path? {
    switch self.event {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation, .refused, nil: nil
    }
  }
}

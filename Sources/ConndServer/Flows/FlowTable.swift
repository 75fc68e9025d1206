import Connectivity
import ConnectivityRules
import Invariants
import LinuxSupport

/// All guarded flows.
///
/// After each step every flow is due for evaluation, because the kernel does not report every
/// removed route. A sweep evaluates them in slices, so that even ten thousand flows do not delay
/// the next kernel message. The table does no I/O.
///
/// Implements rule I11.
struct FlowTable {
  /// A flow of a client: the client's stream and the client's ID for the flow.
  struct Key: Hashable, Sendable {
    var mailbox: UInt64
    var id: UInt64
  }

  struct FlowNotification: Sendable {
    var key: Key
    var event: FlowEvent
    /// When the client's time to ask its peer ends, or `nil` if it need not ask (E4).
    var askedUntil: WallTime?
    /// Whether the event ends a connection for which connd has never seen a path (I11).
    var isRefutation = false
  }

  private(set) var entries: [Key: GuardedFlow] = [:]
  /// All flows, in an order that depends only on additions and removals.
  private(set) var flows: [GuardedFlow] = []
  /// The flow IDs of each client, by the number of the client's stream.
  private(set) var ids: [UInt64: Set<UInt64>] = [:]
  /// The number of flows by account.
  private(set) var usage = Usage()
  private(set) var addressCounts: [IPAddress: Int] = [:]
  /// The newest connection to each host (E2), and the flow that was registered last for each
  /// socket, by the hashes of host and socket.
  private(set) var (newest, sockets): ([Int: Key], [Int: Key]) = ([:], [:])
  /// The number of flows that name a TCP socket, which can be queried.
  private(set) var socketFlows = 0
  var inDoubt: Set<Key> = []
  /// The flows that were registered while the kernel was unavailable.
  var pending: [Key: Registration] = [:]

  /// The inquiry that queries the sockets of flows after a change (E2).
  var inquiry = SocketInquiry()
  /// Whether the lookup is proof (E0), or `nil` until a flow needs it after a change.
  private var isLookupProof: Bool?
  /// When a change last happened that may have cost a path.
  private(set) var lastChange: Instant?

  /// Whether the lookup is proof. Queries the kernel at most once per change.
  mutating func isLookupProof(_ reader: FlowReader) -> Bool {
    if let known = self.isLookupProof { return known }
    let isProof = reader.view.isLookupProof()
    self.isLookupProof = isProof
    return isProof
  }

  /// The number of flows that their sockets have spared (E1).
  var spared = 0

  /// Returns the number of flows that their sockets have spared since the previous call.
  mutating func takeSpared() -> Int {
    defer { self.spared = 0 }
    return self.spared
  }

  var log = PendingCauses()
  /// The index at which the sweep continues.
  var cursor = 0
  /// The number of flows that are still due.
  var due = 0
  /// The number of flows that are evaluated before the next kernel message, which may matter to
  /// every client. It starts small, because one event causes several messages in short succession.
  private var part = Self.smallestPart
  private static let smallestPart = 4
  static let maxPart = 32
  /// The number of flows after which a sweep yields to other work. They take about a millisecond.
  static let slice = 256
  /// An empty table keeps memory for at most this many flows.
  private static let maxIdle = 1024

  var isEmpty: Bool { self.flows.isEmpty }
  var count: Int { self.flows.count }
  func count(of mailbox: UInt64) -> Int { self.ids[mailbox]?.count ?? 0 }
  var counts: [UInt64: Int] { self.ids.mapValues(\.count) }
  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  /// The addresses with routes that matter.
  var addresses: Set<IPAddress> { Set(self.addressCounts.keys) }

  /// Whether evaluating all flows takes more than about 20 ms.
  var evaluationTakesLong: Bool { self.flows.count > 4096 }

  /// The routes that the kernel has removed since the flows were evaluated last.
  var removals: Removals { self.log.removals }

  var isBusy: Bool { self.due > 0 || self.inquiry.isRunning }

  /// When flows must be evaluated or queried even without a kernel message, or `nil` while flows
  /// are evaluated: deadlines wait until no flow is due.
  var deadline: Instant? {
    guard !self.isBusy else { return nil }
    return [self.earliestDeadline, self.inquiry.deadline].compactMap { $0 }.min()
  }
  /// Cached, so that reading the deadline does not visit ten thousand flows.
  private var earliestDeadline: Instant?

  mutating func findEarliestDeadline() {
    self.earliestDeadline = self.inDoubt.compactMap { self.entries[$0]?.machine.deadline }.min()
  }

  // MARK: - Evaluation

  /// Marks all flows as due because of a step.
  mutating func examineAll(_ step: PendingCauses.Step) {
    if let time = step.time, !ChangeScope(step.trigger).isEmpty { self.lastChange = time }
    guard !self.flows.isEmpty else { return }
    self.log.append(step)
    self.isLookupProof = nil
    self.due = self.flows.count
    self.part = Self.smallestPart
    if let time = step.time, self.socketFlows > 0 { self.inquiry.note(step.trigger, at: time) }
    self.check()
  }

  /// Marks flows with an expired grace period as due, and begins the inquiry after a change.
  mutating func examineOverdue(at now: Instant) {
    guard !self.isBusy else { return }
    for key in self.inDoubt {
      guard let flow = self.entries[key], let deadline = flow.machine.deadline, deadline <= now
      else { continue }
      flow.isOverdue = true
      self.due += 1
    }
    // If no flow is overdue, the flow with the earliest deadline has recovered.
    if self.due == 0 { self.findEarliestDeadline() }
    self.inquiry.begin(with: self.flows, at: now)
    self.check()
  }

  /// Marks the flows of some users as due.
  mutating func examine(trafficOf users: Set<UInt32>) {
    for flow in self.flows where users.contains(flow.flow.destination.uid) && !self.isDue(flow) {
      flow.isOverdue = true
      self.due += 1
    }
    self.check()
  }

  func isDue(_ flow: GuardedFlow) -> Bool {
    flow.isOverdue || flow.seen < self.log.last
  }

  /// Returns the next flows that are due, beginning at the cursor.
  mutating func takePart() -> [GuardedFlow] {
    var part: [GuardedFlow] = []
    let bound = min(self.part, self.due)
    for _ in 0..<self.flows.count where part.count < bound {
      if self.cursor >= self.flows.count { self.cursor = 0 }
      let flow = self.flows[self.cursor]
      self.cursor += 1
      if self.isDue(flow) { part.append(flow) }
    }
    self.part = min(2 * self.part, Self.maxPart)
    invariant(!part.isEmpty || bound == 0, "as many flows are due as are counted")
    if part.isEmpty { self.due = 0 }
    return part
  }

  /// Returns the current verdict of each connection that its user guards, `nil` if it works.
  func verdicts(of connections: [Destination]) -> [Destination: FlowTracker.Verdict?] {
    var found: [Destination: FlowTracker.Verdict?] = [:]
    for connection in connections {
      let socket = connection.socket
      guard let flow = self.sockets[socket.hashValue].flatMap({ self.entries[$0] }),
        flow.socket == socket
      else { continue }
      found[socket] = .some(flow.machine.unresolved)
    }
    return found
  }

  /// Returns the newest connection to a flow's host, or `nil` if that is the flow itself or uses
  /// another path (E2). A different local port may select another nexthop.
  func newest(besides flow: GuardedFlow) -> GuardedFlow? {
    let host = flow.host
    guard let newest = self.newest[host.hashValue].flatMap({ self.entries[$0] }), newest !== flow,
      newest.host == host, newest.reported.status == .satisfied,
      newest.reported.chain == flow.reported.chain, newest.reported.gateway == flow.reported.gateway
    else { return nil }
    return newest
  }

  // MARK: - Contents

  mutating func insert(
    _ key: Key, of account: Account, _ machine: FlowMachine, reported: KernelPath,
    isDoubted: Bool = false, made: Contrast.Made? = nil
  ) {
    invariant(self.entries[key] == nil, "a flow is guarded once")
    let flow = GuardedFlow(
      key, of: account, machine, reported: reported, isDoubted: isDoubted, seen: self.log.last,
      place: self.flows.count)
    if flow.flow.namesSocket {
      self.socketFlows += 1
      flow.made = made
      if made != nil { self.newest[flow.host.hashValue] = key }
      self.sockets[flow.socket.hashValue] = key
    }
    self.entries[key] = flow
    self.flows.append(flow)
    self.ids[key.mailbox, default: []].insert(key.id)
    self.usage.add(of: flow.user)
    for address in flow.addresses { self.addressCounts[address, default: 0] += 1 }
    if let deadline = flow.machine.deadline {
      self.inDoubt.insert(key)
      self.earliestDeadline = min(self.earliestDeadline ?? deadline, deadline)
    }
    self.check()
  }

  mutating func remove(_ key: Key) {
    guard let flow = self.entries.removeValue(forKey: key) else { return }
    if flow.flow.namesSocket {
      self.socketFlows -= 1
      let (host, socket) = (flow.host.hashValue, flow.socket.hashValue)
      if self.newest[host] == key { self.newest[host] = nil }
      if self.sockets[socket] == key { self.sockets[socket] = nil }
    }
    if self.isDue(flow) { self.due -= 1 }
    // The last flow moves to the free index.
    if let last = self.flows.popLast(), last !== flow {
      self.flows[flow.place] = last
      last.place = flow.place
    }
    self.pending[key] = nil
    self.inDoubt.remove(key)
    if self.inDoubt.isEmpty { self.earliestDeadline = nil }
    self.ids[key.mailbox]?.remove(key.id)
    if self.ids[key.mailbox]?.isEmpty == true { self.ids[key.mailbox] = nil }
    self.usage.remove(of: flow.user)
    for address in flow.addresses { self.addressCounts.decrement(address) }
    if self.flows.isEmpty { self.releaseMemory() }
    self.check()
  }

  /// Releases the memory of many flows. Otherwise the empty collections keep that memory.
  private mutating func releaseMemory() {
    guard self.flows.capacity > Self.maxIdle else { return }
    (self.entries, self.flows, self.ids, self.addressCounts) = ([:], [], [:], [:])
    (self.newest, self.sockets, self.inDoubt, self.pending) = ([:], [:], [], [:])
  }

  /// Returns the keys of a client's flows, in an order that does not depend on hashes.
  func keys(of mailbox: UInt64) -> [Key] {
    (self.ids[mailbox] ?? []).sorted().map { Key(mailbox: mailbox, id: $0) }
  }
}

extension Destination {
  /// The identity of a user's socket, without the other properties that affect its path.
  var socket: Destination {
    Destination(self.address, uid: self.uid, source: self.source, transport: self.transport)
  }
}

import Connectivity
import ConnectivityRules
import UnixTransport

/// All flows that are guarded.
///
/// After each step all of them are due to be looked at, for routes go without a word. A sweep does that in slices, so that ten
/// thousand of them never keep the monitor from the kernel's next message. Without I/O of its own.
struct FlowTable {
  /// A flow of a client: the client's stream, and what the client calls it.
  struct Key: Hashable, Sendable {
    var guardian: UInt64
    var id: UInt64
  }

  /// What a client is told of a flow.
  enum Event: Sendable {
    case path(Path)
    /// What new connections get is the flow's own way again.
    case betterPathGone(Path)
    case invalidation(FlowTracker.Verdict, Cause, Path)
  }

  struct Told: Sendable {
    var key: Key
    var event: Event
    /// It is the end of a connection that connd has never seen a path for.
    var isRefutation = false
  }

  private(set) var entries: [Key: GuardedFlow] = [:]
  /// In an order that depends on nothing but what came and went.
  private var flows: [GuardedFlow] = []
  /// What clients call their flows, by the number of the client's stream.
  private var ids: [UInt64: Set<UInt64>] = [:]
  /// By account.
  private(set) var usage = Usage()
  private var addressCounts: [IPAddress: Int] = [:]
  /// How many flows name a TCP socket, which can be asked.
  private var socketFlows = 0
  private var inDoubt: Set<Key> = []
  /// Those that were registered while the kernel could not be asked.
  var blind: [Key: Registration] = [:]

  /// Asks the sockets of flows after a change (E2).
  var inquiry = SocketInquiry()
  /// How many flows their sockets have spared since this was taken (E1).
  var spared = 0

  private var log = StepLog()
  /// Where the sweep goes on.
  private var cursor = 0
  /// How many flows are still to be looked at.
  private var due = 0
  /// How many are looked at before the kernel's next message is; it may be one that everybody waits for. Few at first: what
  /// belongs to one event comes in several messages, shortly after each other.
  private var part = Self.smallestPart
  private static let smallestPart = 4
  private static let largestPart = 32
  /// How many are looked at before something else has its turn: about a millisecond.
  private static let slice = 256

  var isEmpty: Bool { self.flows.isEmpty }
  var count: Int { self.flows.count }
  func count(of guardian: UInt64) -> Int { self.ids[guardian]?.count ?? 0 }
  var counts: [UInt64: Int] { self.ids.mapValues(\.count) }
  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  /// The addresses whose routes matter.
  var addresses: Set<IPAddress> { Set(self.addressCounts.keys) }

  /// Whether a look at all of them takes more than about 20 ms.
  var lookTakesLong: Bool { self.flows.count > 4096 }

  /// What the kernel has removed since the flows were looked at.
  var removals: Removals { self.log.removals }

  /// Whether a look at the flows is under way.
  var isBusy: Bool { self.due > 0 || self.inquiry.isRunning }

  /// When flows must be looked at or asked about although the kernel says nothing, or `nil` during
  /// a look, which sees all of them.
  var deadline: Instant? {
    guard !self.isBusy else { return nil }
    return [self.earliestDeadline, self.inquiry.deadline].compactMap { $0 }.min()
  }
  /// Ten thousand flows are not gone through each time that the deadline is asked for.
  private var earliestDeadline: Instant?

  private mutating func findEarliestDeadline() {
    self.earliestDeadline = self.inDoubt.compactMap { self.entries[$0]?.deadline }.min()
  }

  // MARK: - Looks

  /// Has all flows looked at, because of what happened.
  mutating func lookAtAll(_ step: StepLog.Step) {
    guard !self.flows.isEmpty else { return }
    self.log.append(step)
    self.due = self.flows.count
    self.part = Self.smallestPart
    if let time = step.time, step.occasion.mayCostPath, self.socketFlows > 0 {
      self.inquiry.note(step.occasion.firstCause, at: time)
    }
  }

  /// Has those looked at whose grace period is over, and those asked that a change may have hurt.
  mutating func lookAtOverdue(at now: Instant) {
    guard !self.isBusy else { return }
    for key in self.inDoubt {
      guard let flow = self.entries[key], let deadline = flow.deadline, deadline <= now
      else { continue }
      flow.isOverdue = true
      self.due += 1
    }
    // The flow with the earliest deadline has recovered.
    if self.due == 0 { self.findEarliestDeadline() }
    self.inquiry.begin(with: self.flows.lazy.map(\.key), at: now)
  }

  private func isDue(_ flow: GuardedFlow) -> Bool {
    flow.isOverdue || flow.seen < self.log.last
  }

  /// The next flows to be looked at, where the cursor comes to them.
  private mutating func takePart() -> [GuardedFlow] {
    var part: [GuardedFlow] = []
    let most = min(self.part, self.due)
    for _ in 0..<self.flows.count where part.count < most {
      if self.cursor >= self.flows.count { self.cursor = 0 }
      let flow = self.flows[self.cursor]
      self.cursor += 1
      if self.isDue(flow) { part.append(flow) }
    }
    self.part = min(2 * self.part, Self.largestPart)
    if part.isEmpty { self.due = 0 }
    return part
  }

  /// Looks at the next slice of what is to be looked at.
  mutating func evaluate(
    _ reader: FlowReader, policy: InvalidationPolicy, at now: Instant
  ) throws(KernelUnavailable) -> [Told] {
    guard self.isBusy else { return [] }
    var told: [Told] = []
    var count = 0
    var hasMessages = false
    while count < Self.slice, self.due > 0, !hasMessages {
      let part = self.takePart()
      count += part.count
      // Everything is read before anything is concluded: a kernel that fails in between must not
      // swallow what was to be reported.
      let readings = try self.read(part, reader)
      hasMessages = reader.view.hasMessages
      var looks: [Look] = []
      for (flow, way, reading) in readings {
        let look = try self.look(
          at: flow, way, reading, reader, policy, hasMessages: hasMessages, at: now)
        if let look { looks.append(look) }
      }
      for (look, report) in zip(looks, Self.reports(for: looks, reader, at: now)) {
        guard let event = try self.conclude(look, report, reader, at: now) else { continue }
        let flow = look.flow
        told.append(
          Told(key: flow.key, event: event, isRefutation: flow.isDoubted && event.refutesDoubted))
        if event.path.status == .satisfied { flow.isDoubted = false }
      }
    }
    if self.due == 0, !hasMessages { self.ask(reader, at: now) }
    if !self.isBusy {
      self.log.clear()
      self.findEarliestDeadline()
    }
    return told
  }

  private typealias Reading = (flow: GuardedFlow, way: FlowPath, reading: FlowReading)

  private func read(
    _ flows: [GuardedFlow], _ reader: FlowReader
  ) throws(KernelUnavailable) -> [Reading] {
    let questions = flows.map(\.tracker.question)
    let answers = try reader.view.routes(to: questions)
    var readings: [Reading] = []
    readings.reserveCapacity(flows.count)
    for (flow, (question, answer)) in zip(flows, zip(questions, answers)) {
      let reading = try reader.view.unlessRefused { () throws(KernelUnavailable) -> Reading in
        // A question without a source may have an answer with one (IPv6).
        var way = try reader.way(
          to: question, answer == .noRoute(.noRoute) && question.source == nil ? nil : answer)
        let tracker = flow.tracker
        let reading = try reader.reading(
          of: question, madeOn: tracker.path, by: tracker.firstGateway, &way)
        return (flow, way, reading)
      }
      readings.append(reading ?? (flow, FlowPath(unknownTo: question), .unknown))
    }
    return readings
  }

  /// Returns what the lookup says of a flow, or `nil` if that is not to be concluded from yet.
  private mutating func look(
    at flow: GuardedFlow, _ way: FlowPath, _ reading: FlowReading, _ reader: FlowReader,
    _ policy: InvalidationPolicy, hasMessages: Bool, at now: Instant
  ) throws(KernelUnavailable) -> Look? {
    guard self.blind[flow.key] == nil else {
      self.isSeen(flow)
      return nil
    }
    let step = self.log.step(since: flow.seen)
    var tracker = flow.tracker
    let verdict = tracker.update(to: reading, slept: step.slept, policy: policy, at: now)
    if verdict?.severity == .destroy, hasMessages, !flow.isPostponed {
      // What was read may be of two moments, and what waits to be read explains it (K8).
      flow.isPostponed = true
      return nil
    }
    var way = way
    if !flow.tracker.hasBegun, tracker.hasBegun {
      // It has the address that the kernel chose; rules may hold for that.
      let own = try reader.view.unlessRefused { () throws(KernelUnavailable) in
        try reader.way(to: tracker.question)
      }
      if let own, own.shown.chain.first == way.shown.chain.first { way = own }
    }
    return Look(
      flow: flow, way: way, tracker: tracker, verdict: verdict, step: step,
      isCertain: try reader.isGone(reading, madeOn: flow.tracker.path),
      path: reading.path)
  }

  /// Says what a client must know of a flow after a look at it.
  private mutating func conclude(
    _ look: Look, _ report: SocketReport?, _ reader: FlowReader, at now: Instant
  ) throws(KernelUnavailable) -> Event? {
    let (flow, old) = (look.flow, look.flow.tracker)
    var examination = flow.examination
    let outcome = examination.conclude(look.forExamination(report, at: now))
    self.spared += examination.timesSpared - flow.examination.timesSpared
    let isBetterPathGone = old.hasBetterPath && !look.tracker.hasBetterPath
    flow.isPostponed = false
    (flow.tracker, flow.examination) = (look.tracker, examination)
    flow.refutedPath = examination.isSpared ? flow.refutedPath ?? look.path : nil
    if look.isLookupNew { flow.refutedPath = look.path }
    flow.inDoubtSince =
      look.tracker.isInDoubt ? flow.inDoubtSince ?? look.step.time ?? now : nil
    self.isSeen(flow)
    let shown = look.way.shown
    // What the socket is asked about keeps its cause until the socket has decided.
    if let verdict = look.verdict { flow.examinedCause = look.cause(of: verdict) }
    guard case .verdict(let verdict) = outcome else {
      self.note(flow)
      guard outcome == .recovered || isBetterPathGone || flow.told != shown else { return nil }
      flow.told = shown
      return isBetterPathGone ? .betterPathGone(shown) : .path(shown)
    }
    let cause = look.cause(of: verdict)
    guard verdict.severity == .destroy else {
      flow.told = shown
      self.note(flow)
      return .invalidation(verdict, cause, shown)
    }
    self.remove(flow.key)
    return .invalidation(verdict, cause, try self.pathForNew(flow, reader))
  }

  private mutating func isSeen(_ flow: GuardedFlow) {
    if self.isDue(flow) { self.due -= 1 }
    (flow.seen, flow.isOverdue) = (self.log.last, false)
  }

  mutating func note(_ flow: GuardedFlow) {
    if flow.deadline != nil {
      self.inDoubt.insert(flow.key)
    } else if !self.inDoubt.isEmpty {
      self.inDoubt.remove(flow.key)
    }
  }

  /// What a new connection to the same destination gets.
  private func pathForNew(
    _ flow: GuardedFlow, _ reader: FlowReader
  ) throws(KernelUnavailable) -> Path {
    var question = flow.tracker.flow.destination
    question.transport?.localPort = 0
    let way = try reader.view.unlessRefused { () throws(KernelUnavailable) in
      try reader.way(to: question)
    }
    return way?.shown ?? .unknown
  }

  // MARK: - What is in it

  mutating func insert(
    _ key: Key, of account: Account, _ tracker: FlowTracker,
    _ examination: FlowExamination = FlowExamination(), told: Path, isDoubted: Bool = false
  ) {
    let flow = GuardedFlow(
      key, of: account, tracker, examination, told: told, isDoubted: isDoubted, seen: self.log.last,
      place: self.flows.count)
    if flow.tracker.flow.namesSocket { self.socketFlows += 1 }
    self.entries[key] = flow
    self.flows.append(flow)
    self.ids[key.guardian, default: []].insert(key.id)
    self.usage.add(of: account)
    for address in flow.addresses { self.addressCounts[address, default: 0] += 1 }
    if let deadline = flow.deadline {
      self.inDoubt.insert(key)
      self.earliestDeadline = min(self.earliestDeadline ?? deadline, deadline)
    }
  }

  mutating func remove(_ key: Key) {
    guard let flow = self.entries.removeValue(forKey: key) else { return }
    if flow.tracker.flow.namesSocket { self.socketFlows -= 1 }
    if self.isDue(flow) { self.due -= 1 }
    // The last takes its place.
    if let last = self.flows.popLast(), last !== flow {
      self.flows[flow.place] = last
      last.place = flow.place
    }
    self.blind[key] = nil
    self.inDoubt.remove(key)
    if self.inDoubt.isEmpty { self.earliestDeadline = nil }
    self.ids[key.guardian]?.remove(key.id)
    if self.ids[key.guardian]?.isEmpty == true { self.ids[key.guardian] = nil }
    self.usage.remove(of: flow.account)
    for address in flow.addresses { self.addressCounts.decrement(address) }
  }

  /// The flows of a client, in an order that does not depend on hashes.
  func keys(of guardian: UInt64) -> [Key] {
    (self.ids[guardian] ?? []).sorted().map { Key(guardian: guardian, id: $0) }
  }
}

extension FlowTable.Event {
  /// The way to the remote address.
  fileprivate var path: Path {
    switch self {
    case .path(let path), .betterPathGone(let path), .invalidation(_, _, let path): path
    }
  }

  /// It declares a flow dead, and not for what its network costs.
  var refutes: Bool {
    guard case .invalidation(let verdict, _, _) = self else { return false }
    return verdict.severity == .destroy && verdict.reason != .policy
  }

  /// It declares gone what a flow was made on for which there was no path at its registration. Of a sleep, or of a better path, a
  /// connection that works may die, too.
  fileprivate var refutesDoubted: Bool {
    guard case .invalidation(let verdict, _, _) = self, verdict.severity == .destroy else {
      return false
    }
    return switch verdict.reason {
    case .sourceAddressLost, .interfaceLost, .networkChanged: true
    case .betterPath, .categoryChanged, .policy, .resumed, .silent: false
    }
  }
}

extension Dictionary where Value == Int {
  /// Counts one less; what is not there any more is not kept.
  fileprivate mutating func decrement(_ key: Key) {
    guard let count = self[key] else { return }
    self[key] = count > 1 ? count - 1 : nil
  }
}

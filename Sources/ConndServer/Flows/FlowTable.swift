import Connectivity
import ConnectivityRules
import UnixTransport

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
    /// Whether this ends a connection for which connd has never seen a path.
    var isRefutation = false
  }

  private(set) var entries: [Key: GuardedFlow] = [:]
  /// In an order that depends only on additions and removals.
  private var flows: [GuardedFlow] = []
  /// The clients' IDs of their flows, by the number of the client's stream.
  private var ids: [UInt64: Set<UInt64>] = [:]
  /// The number of flows by account.
  private(set) var usage = Usage()
  private var addressCounts: [IPAddress: Int] = [:]
  /// The number of flows that name a TCP socket, which can be queried.
  private var socketFlows = 0
  private var inDoubt: Set<Key> = []
  /// The flows that were registered while the kernel was unavailable.
  var pending: [Key: Registration] = [:]

  /// The inquiry that queries the sockets of flows after a change (E2).
  var inquiry = SocketInquiry()
  /// The number of flows that their sockets have spared (E1).
  var spared = 0

  /// Returns the number of flows that their sockets have spared since the previous call.
  mutating func takeSpared() -> Int {
    defer { self.spared = 0 }
    return self.spared
  }

  private var log = PendingCauses()
  /// The index at which the sweep continues.
  private var cursor = 0
  /// The number of flows that are still due.
  private var due = 0
  /// The number of flows that are evaluated before the next kernel message, which may matter to
  /// every client. It starts small, because one event causes several messages in short succession.
  private var part = Self.smallestPart
  private static let smallestPart = 4
  private static let largestPart = 32
  /// The number of flows that are evaluated before other work: about a millisecond.
  private static let slice = 256

  var isEmpty: Bool { self.flows.isEmpty }
  var count: Int { self.flows.count }
  func count(of mailbox: UInt64) -> Int { self.ids[mailbox]?.count ?? 0 }
  var counts: [UInt64: Int] { self.ids.mapValues(\.count) }
  func contains(_ key: Key) -> Bool { self.entries[key] != nil }

  /// The addresses whose routes matter.
  var addresses: Set<IPAddress> { Set(self.addressCounts.keys) }

  /// Whether evaluating all flows takes more than about 20 ms.
  var lookTakesLong: Bool { self.flows.count > 4096 }

  /// The routes that the kernel has removed since the flows were evaluated last.
  var removals: Removals { self.log.removals }

  var isBusy: Bool { self.due > 0 || self.inquiry.isRunning }

  /// When flows must be evaluated or queried even without a kernel message, or `nil` during a
  /// sweep, which covers all of them.
  var deadline: Instant? {
    guard !self.isBusy else { return nil }
    return [self.earliestDeadline, self.inquiry.deadline].compactMap { $0 }.min()
  }
  /// Cached, so that reading the deadline does not visit ten thousand flows.
  private var earliestDeadline: Instant?

  private mutating func findEarliestDeadline() {
    self.earliestDeadline = self.inDoubt.compactMap { self.entries[$0]?.deadline }.min()
  }

  // MARK: - Evaluation

  /// Marks all flows as due because of a step.
  mutating func lookAtAll(_ step: PendingCauses.Step) {
    guard !self.flows.isEmpty else { return }
    self.log.append(step)
    self.due = self.flows.count
    self.part = Self.smallestPart
    if let time = step.time, step.trigger.mayCostPath, self.socketFlows > 0 {
      self.inquiry.note(step.trigger.firstCause, at: time)
    }
  }

  /// Marks flows whose grace period is over as due, and begins the inquiry after a change.
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

  /// Returns the next flows that are due, beginning at the cursor.
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

  /// The result of evaluating a slice of flows.
  struct Slice {
    var notifications: [FlowNotification] = []
    /// Whether a flow is still due because waiting messages may explain its reading.
    var awaitsMessages = false
  }

  /// Evaluates the next slice of flows.
  ///
  /// - Parameter isFinal: Whether flows are destroyed even if messages wait that may explain it.
  mutating func evaluate(
    _ reader: FlowReader, policy: InvalidationPolicy, isFinal: Bool = false, at now: Instant,
    clock: Clock? = nil
  ) throws(KernelUnavailable) -> Slice {
    var slice = Slice()
    guard self.isBusy else { return slice }
    var (count, hasMessages) = (0, false)
    while count < Self.slice, self.due > 0, !hasMessages {
      let part = self.takePart()
      count += part.count
      // All readings come before any conclusion. If the kernel fails in between, no event may be
      // lost.
      let readings = try self.read(part, reader)
      hasMessages = reader.view.hasMessages
      var looks: [Look] = []
      for (flow, way, reading) in readings {
        guard let look = try self.look(at: flow, way, reading, reader, policy, at: now) else {
          continue
        }
        if look.verdict?.severity == .destroy, hasMessages, !isFinal {
          // The readings may belong to two moments, and the waiting messages explain the difference
          // (K8). The next slice begins with this flow.
          if !slice.awaitsMessages { self.cursor = flow.place }
          slice.awaitsMessages = true
        } else {
          looks.append(look)
        }
      }
      let (reports, heard) = Self.reports(for: looks, reader, at: now, clock)
      for (look, report) in zip(looks, reports) {
        guard let event = try self.conclude(look, report, reader, at: heard) else { continue }
        let flow = look.flow
        slice.notifications.append(
          FlowNotification(
            key: flow.key, event: event, isRefutation: flow.isDoubted && event.refutesDoubted))
        if event.path?.status == .satisfied { flow.isDoubted = false }
      }
      // The first events do not wait for the rest of the slice.
      if !slice.notifications.isEmpty, part.count < Self.largestPart { break }
    }
    if self.due == 0, !hasMessages { self.ask(reader, at: now, clock) }
    if !self.isBusy {
      self.log.clear()
      self.findEarliestDeadline()
    }
    return slice
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
        // A lookup without a source may have an answer with one (IPv6).
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

  /// Returns the result of the lookup of a flow, or `nil` if the flow waits to be registered.
  private mutating func look(
    at flow: GuardedFlow, _ way: FlowPath, _ reading: FlowReading, _ reader: FlowReader,
    _ policy: InvalidationPolicy, at now: Instant
  ) throws(KernelUnavailable) -> Look? {
    guard self.pending[flow.key] == nil else {
      self.isSeen(flow)
      return nil
    }
    let step = self.log.step(since: flow.seen)
    var tracker = flow.tracker
    let verdict = tracker.update(to: reading, slept: step.slept, policy: policy, at: now)
    var way = way
    if !flow.tracker.hasBegun, tracker.hasBegun {
      // The flow has the address that the kernel chose. Policy rules may match on it.
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

  /// Returns what the client must learn about a flow after its evaluation, or `nil` if nothing has
  /// changed.
  private mutating func conclude(
    _ look: Look, _ report: SocketReport?, _ reader: FlowReader, at now: Instant
  ) throws(KernelUnavailable) -> FlowEvent? {
    let (flow, old) = (look.flow, look.flow.tracker)
    var examination = flow.examination
    let outcome = examination.conclude(look.forExamination(report, at: now))
    self.spared += examination.timesSpared - flow.examination.timesSpared
    let isBetterPathGone = old.hasBetterPath && !look.tracker.hasBetterPath
    (flow.tracker, flow.examination) = (look.tracker, examination)
    flow.refutedPath = examination.isSpared ? flow.refutedPath ?? look.path : nil
    if look.isLookupNew { flow.refutedPath = look.path }
    flow.inDoubtSince =
      look.tracker.isInDoubt ? flow.inDoubtSince ?? look.step.time ?? now : nil
    self.isSeen(flow)
    let shown = look.way.shown
    // The cause of the query remains until the socket has decided.
    let news = look.verdict.map { (reason: $0.reason, cause: look.cause(of: $0)) }
    if let news { flow.examinedCause = news.cause }
    guard case .verdict(let verdict) = outcome else {
      self.note(flow)
      guard outcome == .recovered || isBetterPathGone || flow.told != shown else { return nil }
      flow.told = shown
      return isBetterPathGone ? .betterPathGone(shown) : .path(shown)
    }
    let cause =
      if let news, news.reason == verdict.reason { news.cause } else { look.cause(of: verdict) }
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

  /// Returns the path of a new connection to the same destination.
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

  // MARK: - Contents

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
    self.ids[key.mailbox, default: []].insert(key.id)
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
    // The last flow takes its place.
    if let last = self.flows.popLast(), last !== flow {
      self.flows[flow.place] = last
      last.place = flow.place
    }
    self.pending[key] = nil
    self.inDoubt.remove(key)
    if self.inDoubt.isEmpty { self.earliestDeadline = nil }
    self.ids[key.mailbox]?.remove(key.id)
    if self.ids[key.mailbox]?.isEmpty == true { self.ids[key.mailbox] = nil }
    self.usage.remove(of: flow.account)
    for address in flow.addresses { self.addressCounts.decrement(address) }
  }

  /// Returns the keys of a client's flows, in an order that does not depend on hashes.
  func keys(of mailbox: UInt64) -> [Key] {
    (self.ids[mailbox] ?? []).sorted().map { Key(mailbox: mailbox, id: $0) }
  }
}

extension Dictionary where Value == Int {
  /// Decrements a count, and removes the entry when it reaches zero.
  fileprivate mutating func decrement(_ key: Key) {
    guard let count = self[key] else { return }
    self[key] = count > 1 ? count - 1 : nil
  }
}

extension FlowEvent {
  /// Whether the event declares the original path of a flow gone that had no path at registration.
  /// A sleep or a better path may end a working connection, too.
  fileprivate var refutesDoubted: Bool { self.destroys && self.invalidation?.isSurvivable == false }
}

import Connectivity
import DequeModule
import LinuxSupport
import Logging
import UnixTransport

/// The clients that guard flows, and their queued requests.
struct GuardClients {
  var limits: Limits
  private let statistics: Statistics
  private let logger: Logger
  /// Called with the change in the number of flows.
  private let countFlows: @Sendable (Int) -> Void
  /// Runs a function that posts to mailboxes, and possibly what that causes.
  private let deliver: @Sendable (() -> Void) -> Void
  private var countedFlows = 0

  private var mailboxes: [UInt64: any FlowMailbox] = [:]
  private var requests = FairShare<Account, GuardRequest>()
  /// Registrations that were made while the kernel was unavailable. They precede requests.
  private var repeated: Deque<FlowTable.Registration> = []
  /// Flows of disconnected clients.
  private var abandoned: Deque<FlowTable.Key> = []
  /// The throttled warnings, by limit.
  private var warnings: [String: LogThrottle] = [:]

  /// The maximum number of requests that are processed before kernel messages, or another user's
  /// requests, are handled.
  private static let slice = 64
  /// The maximum processor time per turn for requests, as for queries.
  private static let maxTime = QueryQueue.maxTime
  /// The usual cost of one request. It limits the size of a slice, and users are charged for it.
  /// Only the total cost of many requests can be measured.
  private var costOfRequest = Duration.microseconds(20)
  /// The maximum number of waiting requests of each user that a new filter takes into account.
  private static let maxAddresses = 256

  init(
    _ limits: Limits, _ statistics: Statistics, _ logger: Logger,
    countFlows: @escaping @Sendable (Int) -> Void,
    deliver: @escaping @Sendable (() -> Void) -> Void
  ) {
    (self.limits, self.statistics, self.logger) = (limits, statistics, logger)
    (self.countFlows, self.deliver) = (countFlows, deliver)
  }

  var count: Int { self.mailboxes.count }
  var hasRequests: Bool { !self.requests.isEmpty || !self.repeated.isEmpty }
  var isBusy: Bool { self.hasRequests || !self.abandoned.isEmpty }

  mutating func admit(_ mailbox: any FlowMailbox) { self.mailboxes[mailbox.number] = mailbox }

  /// Ends the mailbox of a disconnected client and abandons its flows.
  mutating func dismiss(_ number: UInt64, flows: FlowTable) {
    guard let mailbox = self.mailboxes.removeValue(forKey: number) else { return }
    mailbox.finish()
    let keys = flows.keys(of: number)
    guard !keys.isEmpty else { return }
    self.abandoned += keys
    self.logger.debug(
      "removing the flows of a disconnected client",
      metadata: ["flows": "\(keys.count)", "left": "\(flows.count - self.abandoned.count)"])
  }

  /// Ends all mailboxes because connd is stopping.
  mutating func finish() {
    for mailbox in self.mailboxes.values { mailbox.finish() }
    self.mailboxes = [:]
  }

  /// Queues a request until its user's turn.
  mutating func enqueue(_ request: GuardRequest) {
    guard let mailbox = self.mailboxes[request.key.mailbox] else { return }
    var request = request
    request.account = mailbox.account
    self.requests.append(request, of: mailbox.account)
  }

  /// Queues registrations that were made while the kernel was unavailable.
  mutating func repeatRegistrations(_ registrations: [FlowTable.Registration]) {
    self.repeated.prepend(contentsOf: registrations)
  }

  /// Removes and returns the next requests. Users take turns, and each user's requests keep their
  /// order. Requests from disconnected clients are dropped.
  mutating func takeRequests() -> [GuardRequest] {
    var slice: [GuardRequest] = []
    let size = min(Self.slice, max(1, Int(Self.maxTime / self.costOfRequest)))
    while slice.count < size, let registration = self.repeated.popFirst() {
      guard let mailbox = self.mailboxes[registration.key.mailbox] else { continue }
      slice.append(GuardRequest(.addAgain(registration), of: mailbox.account))
    }
    // An empty Deque keeps its buffer.
    if self.repeated.isEmpty { self.repeated = [] }
    while slice.count < size, let turn = self.requests.popFirst() {
      guard self.mailboxes[turn.item.key.mailbox] != nil else { continue }
      self.requests.charge(self.costOfRequest, to: turn.user)
      slice.append(turn.item)
    }
    return slice
  }

  /// Notes the processor time that a number of requests took.
  mutating func note(_ time: Duration, for requests: Int) {
    self.costOfRequest = max(.microseconds(1), (self.costOfRequest * 3 + time / requests) / 4)
  }

  /// The registrations that wait for their users' turns and are handled soon.
  var waitingRegistrations: [FlowTable.Registration] {
    Array(self.repeated.prefix(Self.maxAddresses))
      + self.requests.firstItems(Self.maxAddresses).compactMap(\.registration)
  }

  /// Removes and returns the next flows of disconnected clients. One client may have had ten
  /// thousand flows.
  mutating func takeAbandoned() -> [FlowTable.Key] {
    let slice = Array(self.abandoned.prefix(Self.slice))
    self.abandoned.removeFirst(slice.count)
    // An empty Deque keeps its buffer.
    if self.abandoned.isEmpty, !slice.isEmpty { self.abandoned = [] }
    return slice
  }

  // MARK: - Answers

  mutating func answer(
    _ request: GuardRequest, _ answer: GuardAnswer, generation: UInt64, at now: Instant
  ) {
    let key = request.key
    guard let mailbox = self.mailboxes[key.mailbox] else { return }
    switch answer {
    case .unchanged: break
    case .handled: mailbox.handled()
    case .removed: mailbox.removed(key.id)
    case .exceeds(let limit, let refusal):
      self.warn(of: limit, uid: request.registration?.flow.destination.uid ?? 0, at: now)
      self.send(.refused(refusal), request, to: mailbox, generation)
    case .event(let event):
      if case .add(let registration) = request.action {
        self.statistics.count(event, to: registration)
      }
      self.send(event, request, to: mailbox, generation)
    }
  }

  private func send(
    _ event: FlowEvent, _ request: GuardRequest, to mailbox: any FlowMailbox,
    _ generation: UInt64
  ) {
    if case .addAgain = request.action {
      mailbox.post([.init(id: request.key.id, event: event, generation: generation)])
    } else {
      mailbox.answer(request.key.id, event, generation: generation)
    }
  }

  private mutating func warn(of limit: String, uid: UInt32, at now: Instant) {
    self.statistics.hit(limit)
    guard let suppressed = self.warnings[limit, default: LogThrottle()].next(at: now) else {
      return
    }
    var metadata: Logger.Metadata = ["uid": "\(uid)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.warning("a client has exceeded limits.\(limit)", metadata: metadata)
  }

  /// Notifies clients about their flows.
  func notify(_ notifications: [FlowTable.FlowNotification], generation: UInt64) {
    guard !notifications.isEmpty else { return }
    for notification in notifications { self.statistics.count(notification) }
    self.deliver {
      for (number, notifications) in Dictionary(grouping: notifications, by: \.key.mailbox) {
        self.mailboxes[number]?.post(
          notifications.map {
            .init(
              id: $0.key.id, event: $0.event, generation: generation, askedUntil: $0.askedUntil)
          })
      }
    }
  }

  /// Reports the number of flows, if it has changed.
  mutating func count(_ flows: Int) {
    guard flows != self.countedFlows else { return }
    self.countFlows(flows - self.countedFlows)
    self.countedFlows = flows
  }
}

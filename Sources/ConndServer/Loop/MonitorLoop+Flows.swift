import Connectivity
import ConnectivityRules
import DequeModule
import Glibc
import Logging
import UnixTransport

extension MonitorLoop {
  /// The number of requests that are processed before kernel messages, or another user's requests,
  /// are handled.
  private static let slice = 64
  /// The assumed cost of one request when users take turns. Only the cost of many requests together
  /// can be measured.
  private static let costOfRequest = Duration.microseconds(20)

  mutating func admit(_ mailbox: any FlowMailbox) {
    self.mailboxes[mailbox.number] = mailbox
  }

  mutating func dismiss(_ number: UInt64) {
    guard let mailbox = self.mailboxes.removeValue(forKey: number) else { return }
    mailbox.finish()
    let keys = self.engine.flows.keys(of: number)
    guard !keys.isEmpty else { return }
    self.abandonedFlows += keys
    self.removeAbandonedFlows()
    self.logger.debug(
      "removing the flows of a disconnected client",
      metadata: ["flows": "\(keys.count)", "left": "\(self.engine.flows.count)"])
  }

  /// Removes the next slice of flows whose clients have disconnected. A client may have had ten
  /// thousand.
  mutating func removeAbandonedFlows() {
    for key in self.abandonedFlows.prefix(Self.slice) {
      self.engine.flows.remove(key)
      self.unneeded += 1
    }
    self.abandonedFlows.removeFirst(min(Self.slice, self.abandonedFlows.count))
  }

  var hasRequests: Bool { !self.requests.isEmpty || !self.registrationsToRepeat.isEmpty }

  /// Queues a request until its user's turn.
  mutating func enqueue(_ request: GuardRequest) {
    guard let mailbox = self.mailboxes[request.mailbox] else { return }
    self.requests.append(request, of: mailbox.account)
  }

  /// Returns the next requests. Users take turns, and each user's requests keep their order.
  /// Requests from disconnected clients are dropped.
  private mutating func nextRequests() -> [GuardRequest] {
    var slice = self.registrationsToRepeat.prefix(Self.slice).map { GuardRequest.addAgain($0) }
    self.registrationsToRepeat.removeFirst(slice.count)
    while slice.count < Self.slice, let turn = self.requests.popFirst() {
      guard self.mailboxes[turn.item.mailbox] != nil else { continue }
      self.requests.charge(Self.costOfRequest, to: turn.user)
      slice.append(turn.item)
    }
    return slice
  }

  /// Processes the next requests of clients.
  mutating func takeRequests() {
    guard self.hasRequests else { return }
    // Messages that the kernel has already sent are not about these flows.
    self.drain()
    let requests = self.nextRequests()
    guard !requests.isEmpty else { return }
    let registrations = requests.compactMap(\.registration)
    var registrar = Result { () throws(KernelUnavailable) in
      guard let kernel = self.kernel else { throw KernelUnavailable.notOpen }
      // Set the filter before reading, so that the kernel reports changes in between.
      let addresses = registrations.flatMap {
        [$0.flow.destination.address] + ($0.flow.local.map { [$0] } ?? [])
      }
      try self.widenFilter(to: addresses, kernel)
      return try self.engine.registrar(
        for: registrations, past: registrations.isEmpty ? [] : self.store.past, kernel)
    }
    for request in requests {
      switch request {
      case .add(let registration): self.add(registration, &registrar)
      case .addAgain(let registration): self.addAgain(registration, &registrar)
      case .remove(let key): self.remove(key)
      }
    }
    if self.kernel != nil, case .failure(let error) = registrar { self.lose(error) }
  }

  /// Retries registrations that were made while the kernel was unavailable. They come first,
  /// because a client's later requests may refer to them.
  mutating func registerPendingFlows() {
    let registrations = self.engine.flows.takePending()
    guard !registrations.isEmpty else { return }
    self.registrationsToRepeat.prepend(contentsOf: registrations)
  }

  private mutating func addAgain(
    _ registration: FlowTable.Registration,
    _ registrar: inout Result<FlowTable.RegistrationContext, KernelUnavailable>
  ) {
    let key = registration.key
    guard let mailbox = self.mailboxes[key.mailbox] else { return }
    let event: FlowEvent
    do throws(FlowRefusal) {
      event = try self.guardFlow(registration, of: mailbox.account, &registrar)
    } catch {
      event = .refused(error)
    }
    // The client already received this answer: the path is unknown.
    if case .path(let path) = event, path.status == .unknown { return }
    mailbox.post([
      .init(id: key.id, event: event, generation: self.engine.snapshot.generation)
    ])
  }

  /// Guards a flow. A link-local address gets its link first. If the kernel is unavailable, both
  /// wait until it is back.
  private mutating func guardFlow(
    _ registration: FlowTable.Registration, of account: Account,
    _ registrar: inout Result<FlowTable.RegistrationContext, KernelUnavailable>
  ) throws(FlowRefusal) -> FlowEvent {
    guard case .success(let present) = registrar else {
      return self.engine.guardFlow(
        registration, of: account, &registrar, at: self.clock.now)
    }
    let placed: FlowTable.Registration?
    do throws(KernelUnavailable) {
      placed = try present.placed(registration)
    } catch {
      return self.engine.guardLater(registration, of: account, error, &registrar)
    }
    guard let placed else {
      throw .needsLink(registration.flow.destination.address)
    }
    return self.engine.guardFlow(placed, of: account, &registrar, at: self.clock.now)
  }

  private mutating func add(
    _ registration: FlowTable.Registration,
    _ registrar: inout Result<FlowTable.RegistrationContext, KernelUnavailable>
  ) {
    let key = registration.key
    guard let mailbox = self.mailboxes[key.mailbox] else { return }
    if self.engine.flows.contains(key) {
      self.answer(
        mailbox, key.id, .refused(.invalid("add.id: flow \(key.id) is already guarded")))
    } else if let (limit, message) = self.exceededLimit(mailbox) {
      self.turnedAway(limit, uid: registration.flow.destination.uid)
      self.answer(mailbox, key.id, .refused(.exhausted(message)))
    } else {
      do throws(FlowRefusal) {
        let event = try self.guardFlow(registration, of: mailbox.account, &registrar)
        self.statistics.count(event, to: registration)
        self.answer(mailbox, key.id, event)
      } catch {
        self.answer(mailbox, key.id, .refused(error))
      }
    }
  }

  private mutating func remove(_ key: FlowTable.Key) {
    guard let mailbox = self.mailboxes[key.mailbox] else { return }
    guard self.engine.flows.contains(key) else {
      self.answer(
        mailbox, key.id, .refused(.invalid("remove.id: flow \(key.id) is not guarded")))
      return
    }
    self.engine.flows.remove(key)
    self.unneeded += 1
    mailbox.removed(key.id)
  }

  /// Returns the limit that one more flow would exceed, and the message for the client.
  private func exceededLimit(_ mailbox: any FlowMailbox) -> (limit: String, message: String)? {
    let (flows, limits) = (self.engine.flows, self.limits)
    let (limit, words): (String, String)
    if flows.count(of: mailbox.number) >= limits.flowsPerStream {
      (limit, words) = ("flowsPerStream", "a stream guards at most \(limits.flowsPerStream)")
    } else {
      do throws(Quota.Refusal) {
        try Quota(inAll: limits.flows, ofOneUser: limits.flowsPerUser)
          .check(of: mailbox.account, beside: flows.usage)
        return nil
      } catch {
        switch error {
        case .ofOneUser(let most):
          (limit, words) = ("flowsPerUser", "a user guards at most \(most)")
        case .inAll(let most), .forOthers(let most):
          (limit, words) = ("flows", "connd guards at most \(most)")
        }
      }
    }
    return (limit, "add: \(words) flows (limits.\(limit))")
  }

  private mutating func turnedAway(_ limit: String, uid: UInt32) {
    self.statistics.hit(limit)
    guard
      let suppressed = self.refusals[limit, default: LogThrottle()].next(at: self.clock.now)
    else { return }
    var metadata: Logger.Metadata = ["uid": "\(uid)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.warning("a client has exceeded limits.\(limit)", metadata: metadata)
  }

  private mutating func countSpared() {
    guard self.engine.flows.spared > 0 else { return }
    self.statistics.spared.increment(by: self.engine.flows.spared)
    self.engine.flows.spared = 0
  }

  private func answer(_ mailbox: any FlowMailbox, _ id: UInt64, _ event: FlowEvent) {
    mailbox.answer(id, event, generation: self.engine.snapshot.generation)
  }

  /// Evaluates the next slice of flows and notifies their clients.
  mutating func evaluateFlows() {
    guard self.looksAtFlows, let kernel = self.kernel else { return }
    // Waiting messages usually belong to the same event. Evaluating before they are read would only
    // be repeated afterwards (K8).
    if !self.flowsHaveWaited, kernel.hasMessages {
      self.flowsHaveWaited = true
      return
    }
    self.flowsHaveWaited = false
    do throws(KernelUnavailable) {
      let before = self.engine.flows.count
      let clock = self.clock
      let told = try self.engine.evaluateFlows(kernel, at: clock.now) { clock.now }
      self.unneeded += before - self.engine.flows.count
      for told in told { self.statistics.count(told) }
      self.countSpared()
      let generation = self.engine.snapshot.generation
      for (number, told) in Dictionary(grouping: told, by: \.key.mailbox) {
        self.mailboxes[number]?.post(
          told.map {
            .init(id: $0.key.id, event: $0.event, generation: generation)
          })
      }
      // On a single processor, the thread that writes to the client would wait for the work that
      // follows here, such as a new filter.
      if !told.isEmpty { sched_yield() }
    } catch {
      self.lose(error)
    }
  }
}

/// A client's request about its flows.
enum GuardRequest: Sendable {
  case add(FlowTable.Registration)
  /// A registration that was answered while the kernel was unavailable.
  case addAgain(FlowTable.Registration)
  case remove(FlowTable.Key)

  /// The number of the client's stream.
  var mailbox: UInt64 {
    switch self {
    case .add(let registration), .addAgain(let registration): registration.key.mailbox
    case .remove(let key): key.mailbox
    }
  }

  fileprivate var registration: FlowTable.Registration? {
    switch self {
    case .add(let registration), .addAgain(let registration): registration
    case .remove: nil
    }
  }
}

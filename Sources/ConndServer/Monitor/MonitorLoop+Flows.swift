import Connectivity
import ConnectivityRules
import DequeModule
import Glibc
import Logging
import UnixTransport

extension MonitorLoop {
  /// How many requests are dealt with before the kernel's messages are read again, and before another user's turn.
  private static let slice = 64
  /// The time that a request is taken to cost, in turns: what costs how much is known only for many of them together.
  private static let costOfRequest = Duration.microseconds(20)

  mutating func admit(_ guardian: any FlowMailbox) {
    self.guardians[guardian.number] = guardian
  }

  mutating func dismiss(_ number: UInt64) {
    guard let guardian = self.guardians.removeValue(forKey: number) else { return }
    guardian.finish()
    let keys = self.engine.flows.keys(of: number)
    guard !keys.isEmpty else { return }
    self.abandonedFlows += keys
    self.removeAbandonedFlows()
    self.logger.debug(
      "a client's flows are removed",
      metadata: ["flows": "\(keys.count)", "left": "\(self.engine.flows.count)"])
  }

  /// Removes the next flows of clients that have gone. A client may have had ten thousand.
  mutating func removeAbandonedFlows() {
    for key in self.abandonedFlows.prefix(Self.slice) {
      self.engine.flows.remove(key)
      self.unneeded += 1
    }
    self.abandonedFlows.removeFirst(min(Self.slice, self.abandonedFlows.count))
  }

  /// Whether there are requests to deal with.
  var hasRequests: Bool { !self.requests.isEmpty || !self.registrationsToRepeat.isEmpty }

  /// Lets a request wait for its user's turn.
  mutating func enqueue(_ request: GuardRequest) {
    guard let guardian = self.guardians[request.guardian] else { return }
    self.requests.append(request, of: guardian.account)
  }

  /// The next requests: users take turns, and each user's requests keep their order. Requests of streams that have ended are
  /// dropped.
  private mutating func nextRequests() -> [GuardRequest] {
    var slice = self.registrationsToRepeat.prefix(Self.slice).map { GuardRequest.addAgain($0) }
    self.registrationsToRepeat.removeFirst(slice.count)
    while slice.count < Self.slice, let turn = self.requests.popFirst() {
      guard self.guardians[turn.item.guardian] != nil else { continue }
      self.requests.charge(Self.costOfRequest, to: turn.user)
      slice.append(turn.item)
    }
    return slice
  }

  /// Deals with the next requests of clients.
  mutating func takeRequests() {
    guard self.hasRequests else { return }
    // What the kernel has told already is not about these flows.
    self.drain()
    let requests = self.nextRequests()
    guard !requests.isEmpty else { return }
    let registrations = requests.compactMap(\.registration)
    var registrar = Result { () throws(KernelUnavailable) in
      guard let kernel = self.kernel else { throw KernelUnavailable.notOpen }
      // First the filter, then the reading: what changes in between is told.
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

  /// Retries registrations that were made while the kernel could not be asked. A client's later requests may be about them.
  mutating func registerBlindFlows() {
    let registrations = self.engine.flows.takeBlind()
    guard !registrations.isEmpty else { return }
    self.registrationsToRepeat.prepend(contentsOf: registrations)
  }

  private mutating func addAgain(
    _ registration: FlowTable.Registration,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>
  ) {
    let key = registration.key
    guard let guardian = self.guardians[key.guardian] else { return }
    let event: Guardian.Event
    do throws(Guardian.Refusal) {
      event = .flow(try self.guardFlow(registration, of: guardian.account, &registrar))
    } catch {
      event = .refused(error)
    }
    // It has its answer already: that nothing is known.
    if case .flow(.path(let path)) = event, path.status == .unknown { return }
    guardian.post([
      .init(id: key.id, event: event, generation: self.engine.snapshot.generation)
    ])
  }

  /// Guards a flow from now on, on the link of its link-local address. If the kernel cannot be asked, both wait until it can.
  private mutating func guardFlow(
    _ registration: FlowTable.Registration, of account: Account,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>
  ) throws(Guardian.Refusal) -> FlowTable.Event {
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
      let remote = registration.flow.destination.address
      throw .invalid("add.interface: \(remote) is link-local: name the link that it is on")
    }
    return self.engine.guardFlow(placed, of: account, &registrar, at: self.clock.now)
  }

  private mutating func add(
    _ registration: FlowTable.Registration,
    _ registrar: inout Result<FlowTable.Registrar, KernelUnavailable>
  ) {
    let key = registration.key
    guard let guardian = self.guardians[key.guardian] else { return }
    if self.engine.flows.contains(key) {
      self.answer(
        guardian, key.id, .refused(.invalid("add.id: flow \(key.id) is guarded already")))
    } else if let (limit, message) = self.exceededLimit(guardian) {
      self.turnedAway(limit, uid: registration.flow.destination.uid)
      self.answer(guardian, key.id, .refused(.exhausted(message)))
    } else {
      do throws(Guardian.Refusal) {
        let event = try self.guardFlow(registration, of: guardian.account, &registrar)
        self.statistics.count(event, to: registration)
        self.answer(guardian, key.id, .flow(event))
      } catch {
        self.answer(guardian, key.id, .refused(error))
      }
    }
  }

  private mutating func remove(_ key: FlowTable.Key) {
    guard let guardian = self.guardians[key.guardian] else { return }
    guard self.engine.flows.contains(key) else {
      self.answer(
        guardian, key.id, .refused(.invalid("remove.id: no flow \(key.id) is guarded")))
      return
    }
    self.engine.flows.remove(key)
    self.unneeded += 1
    guardian.removed(key.id)
  }

  /// The key of the limit that one more flow would exceed, and the words for the client.
  private func exceededLimit(_ guardian: any FlowMailbox) -> (limit: String, message: String)? {
    let (flows, limits) = (self.engine.flows, self.limits)
    let (limit, words): (String, String)
    if flows.count(of: guardian.number) >= limits.flowsPerStream {
      (limit, words) = ("flowsPerStream", "a stream guards at most \(limits.flowsPerStream)")
    } else {
      do throws(Quota.Refusal) {
        try Quota(inAll: limits.flows, ofOneUser: limits.flowsPerUser)
          .check(of: guardian.account, beside: flows.usage)
        return nil
      } catch {
        switch error {
        case .ofOneUser(let most):
          (limit, words) = ("flowsPerUser", "those of a user guard at most \(most)")
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

  private func answer(_ guardian: any FlowMailbox, _ id: UInt64, _ event: Guardian.Event) {
    guardian.answer(id, event, generation: self.engine.snapshot.generation)
  }

  /// Looks at the next slice of flows, and tells their clients.
  mutating func evaluateFlows() {
    guard self.looksAtFlows, let kernel = self.kernel else { return }
    // What waits to be read mostly belongs to the same event; a look before it would find so, and be made again (K8).
    if !self.flowsHaveWaited, kernel.hasMessages {
      self.flowsHaveWaited = true
      return
    }
    self.flowsHaveWaited = false
    do throws(KernelUnavailable) {
      let before = self.engine.flows.count
      let told = try self.engine.evaluateFlows(kernel, at: self.clock.now)
      self.unneeded += before - self.engine.flows.count
      for told in told { self.statistics.count(told) }
      self.countSpared()
      let generation = self.engine.snapshot.generation
      for (number, told) in Dictionary(grouping: told, by: \.key.guardian) {
        self.guardians[number]?.post(
          told.map {
            .init(id: $0.key.id, event: .flow($0.event), generation: generation)
          })
      }
      // On a single processor whoever is to write it would wait for what comes next here, a new filter say.
      if !told.isEmpty { sched_yield() }
    } catch {
      self.lose(error)
    }
  }
}

/// What a client asks of the flow table.
enum GuardRequest: Sendable {
  case add(FlowTable.Registration)
  /// One that was answered when the kernel could not be asked.
  case addAgain(FlowTable.Registration)
  case remove(FlowTable.Key)

  /// The number of the client's stream.
  var guardian: UInt64 {
    switch self {
    case .add(let registration), .addAgain(let registration): registration.key.guardian
    case .remove(let key): key.guardian
    }
  }

  fileprivate var registration: FlowTable.Registration? {
    switch self {
    case .add(let registration), .addAgain(let registration): registration
    case .remove: nil
    }
  }
}

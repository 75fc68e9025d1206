import Connectivity
import ConnectivityRules
import UnixTransport

/// A client's request about its flows.
struct GuardRequest: Sendable {
  enum Action: Sendable {
    case add(FlowTable.Registration)
    /// A registration that was answered while the kernel was unavailable.
    case addAgain(FlowTable.Registration)
    case remove(FlowTable.Key)
  }

  var action: Action
  /// The account of the client. The loop sets it when it queues the request.
  var account: Account

  init(_ action: Action, of account: Account = .unknown) {
    (self.action, self.account) = (action, account)
  }

  static func add(_ registration: FlowTable.Registration) -> GuardRequest {
    GuardRequest(.add(registration))
  }

  static func remove(_ key: FlowTable.Key) -> GuardRequest { GuardRequest(.remove(key)) }

  var key: FlowTable.Key {
    switch self.action {
    case .add(let registration), .addAgain(let registration): registration.key
    case .remove(let key): key
    }
  }

  var registration: FlowTable.Registration? {
    switch self.action {
    case .add(let registration), .addAgain(let registration): registration
    case .remove: nil
    }
  }
}

/// The answer to a request.
enum GuardAnswer: Sendable {
  case event(FlowEvent)
  /// The request exceeds the limit with this name.
  case exceeds(limit: String, FlowRefusal)
  case removed
  /// The client already has this answer: the path is unknown.
  case unchanged
}

extension FlowTable.Registration {
  /// The lookup that decides about the flow.
  var question: Destination {
    var question = self.flow.destination
    question.source = self.flow.local
    return question
  }
}

extension FlowTable {
  enum Admission {
    case answer(GuardAnswer)
    /// The flow may be guarded.
    case register(Registration)
  }

  /// Handles everything about a request that needs no kernel.
  mutating func admit(_ request: GuardRequest, _ limits: Limits) -> Admission {
    let key = request.key
    switch request.action {
    case .addAgain(let registration): return .register(registration)
    case .add(let registration):
      if self.contains(key) {
        return .answer(.event(.refused(.invalid("add.id: flow \(key.id) is already guarded"))))
      }
      return self.exceeded(by: request, limits).map { .answer($0) } ?? .register(registration)
    case .remove:
      guard self.contains(key) else {
        return .answer(.event(.refused(.invalid("remove.id: flow \(key.id) is not guarded"))))
      }
      self.remove(key)
      return .answer(.removed)
    }
  }

  /// Guards a flow. A link-local address gets its link first.
  ///
  /// - Throws: If the kernel cannot be asked. Then nothing has changed.
  mutating func register(
    _ registration: Registration, for request: GuardRequest, _ present: RegistrationContext,
    policy: InvalidationPolicy, at now: Instant
  ) throws(KernelUnavailable) -> GuardAnswer {
    do throws(KernelUnavailable) {
      guard let placed = try present.placed(registration) else {
        return .event(.refused(.needsLink(registration.flow.destination.address)))
      }
      let event = try self.add(placed, of: request.account, present, policy: policy, at: now)
      return request.answer(event)
    } catch {
      guard error.isOfOneQuestion else { throw error }
      present.reader.view.note(refusal: error)
      return self.registerLater(registration, for: request)
    }
  }

  /// Guards a flow once the kernel is available, or once it answers the query that it has refused
  /// for this flow.
  mutating func registerLater(
    _ registration: Registration, for request: GuardRequest
  ) -> GuardAnswer {
    request.answer(self.addPending(registration, of: request.account))
  }

  /// Returns the refusal by the limit that one more flow would exceed, or `nil` below all limits.
  private func exceeded(by request: GuardRequest, _ limits: Limits) -> GuardAnswer? {
    let (limit, words): (String, String)
    if self.count(of: request.key.mailbox) >= limits.flowsPerStream {
      (limit, words) = ("flowsPerStream", "a stream guards at most \(limits.flowsPerStream)")
    } else {
      do throws(Quota.Refusal) {
        try Quota(inAll: limits.flows, ofOneUser: limits.flowsPerUser)
          .check(of: request.account, beside: self.usage)
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
    return .exceeds(limit: limit, .exhausted("add: \(words) flows (limits.\(limit))"))
  }
}

extension GuardRequest {
  fileprivate func answer(_ event: FlowEvent) -> GuardAnswer {
    if case .addAgain = self.action, case .path(let path) = event, path.status == .unknown {
      return .unchanged
    }
    return .event(event)
  }
}

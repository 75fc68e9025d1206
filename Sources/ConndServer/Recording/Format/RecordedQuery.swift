import Connectivity
import LinuxSupport

extension Connd_Recording_V2_Query {
  /// - Returns: `nil` for a query that no client makes.
  init?(_ query: KernelQuery) {
    self.init()
    (self.id, self.account) = (query.id, query.account.number)
    switch query.kind {
    case .path(let destination, _): self.path = .init(destination)
    case .otherWay(let destination, _): self.otherWay = .init(destination)
    case .attempt(let destination, let outcome, _):
      self.attempt = .with {
        $0.destination = .init(destination)
        $0.outcome = UInt32(outcome.rawValue)
      }
    case .explain(let destination, let links, _):
      self.explain = .with {
        if let destination { $0.destination = .init(destination) }
        $0.links = links
      }
    case .judge(let connections, _):
      self.judge = .with { $0.connections = connections.map { .init($0) } }
    case .listLinks: self.listLinks = true
    case .restOfLinks: return nil
    case .watch(let destination, _): self.watch = .init(destination)
    case .costs(let request, _): self.costs = .init(request)
    }
  }

  /// The query, or `nil` if it is invalid.
  var query: KernelQuery? {
    self.queryKind.map {
      KernelQuery(id: self.id, account: Account(number: self.account), kind: $0)
    }
  }

  private var queryKind: KernelQuery.Kind? {
    switch self.kind {
    case .path(let destination)?: return destination.destination.map { .path($0, .unheard) }
    case .otherWay(let destination)?:
      return destination.destination.map { .otherWay($0, .unheard) }
    case .attempt(let attempt)?:
      guard let destination = attempt.destination.destination,
        let outcome = UInt8(exactly: attempt.outcome).flatMap(AttemptOutcome.init)
      else { return nil }
      return .attempt(destination, outcome, .unheard)
    case .explain(let explanation)?:
      guard explanation.hasDestination else {
        return .explain(nil, links: explanation.links, .unheard)
      }
      return explanation.destination.destination.map {
        .explain($0, links: explanation.links, .unheard)
      }
    case .judge(let judgement)?:
      let connections = judgement.connections.compactMap(\.registration)
      guard connections.count == judgement.connections.count else { return nil }
      return .judge(connections, .unheard)
    case .listLinks?: return .listLinks(.unheard)
    case .watch(let destination)?: return destination.destination.map { .watch($0, .unheard) }
    case .costs(let request)?: return request.request.map { .costs($0, .unheard) }
    case nil: return nil
    }
  }
}

// MARK: - Cost overrides

extension Connd_Recording_V2_CostRequest {
  init(_ request: CostRequest) {
    self.init()
    switch request {
    case .list: self.list = true
    case .copy(let user): self.copy = .with { if let user { $0.user = user } }
    case .forget(let name, let user):
      self.forget = .with {
        $0.name = name
        $0.user = user
      }
    case .set(let request):
      self.set = .with {
        switch request.target {
        case .link(let name): $0.link = name
        case .network(let name): $0.network = name
        }
        $0.constrained = UInt32(request.constrained?.rawValue ?? 0)
        $0.expensive = UInt32(request.expensive?.rawValue ?? 0)
        if let end = request.end { $0.end = .init(end) }
        $0.user = request.user
      }
    case .assist(let request):
      self.assist = .with {
        $0.value = UInt32(request.value.rawValue)
        if let end = request.end { $0.end = .init(end) }
        $0.user = request.user
      }
    }
  }

  /// The request, or `nil` if it is invalid.
  var request: CostRequest? {
    switch self.kind {
    case .list?: return .list
    case .copy(let copy)?: return .copy(of: copy.hasUser ? copy.user : nil)
    case .forget(let forget)?: return .forget(name: forget.name, user: forget.user)
    case .set(let override)?:
      let target: CostRequest.Target
      switch override.target {
      case .link(let name)?: target = .link(name)
      case .network(let name)?: target = .network(name)
      case nil: return nil
      }
      guard let constrained = Self.value(override.constrained),
        let expensive = Self.value(override.expensive),
        let end = Self.end(override.hasEnd ? override.end : nil)
      else { return nil }
      return .set(
        .init(
          target: target, constrained: constrained, expensive: expensive, end: end,
          user: override.user))
    case .assist(let assist)?:
      guard let value = Self.value(assist.value) ?? nil,
        let end = Self.end(assist.hasEnd ? assist.end : nil)
      else { return nil }
      return .assist(.init(value: value, end: end, user: assist.user))
    case nil: return nil
    }
  }

  /// Returns the value, `.some(nil)` for 0, or `nil` if it is unknown.
  private static func value(_ number: UInt32) -> CostRequest.Value?? {
    if number == 0 { return .some(nil) }
    return UInt8(exactly: number).flatMap(CostRequest.Value.init).map { $0 }
  }

  /// Returns the end, `.some(nil)` without a message, or `nil` if the end is invalid.
  private static func end(_ message: End?) -> CostRequest.End?? {
    switch message?.kind {
    case .boot?: .boot
    case .left?: .left
    case .after(let nanoseconds)? where (1...(.max / 4)).contains(nanoseconds):
      .after(.nanoseconds(nanoseconds))
    case .after?: nil
    case nil: message == nil ? .some(nil) : nil
    }
  }
}

extension Connd_Recording_V2_CostRequest.End {
  fileprivate init(_ end: CostRequest.End) {
    self.init()
    switch end {
    case .boot: self.boot = true
    case .left: self.left = true
    case .after(let duration): self.after = max(1, duration.nanoseconds)
    }
  }
}

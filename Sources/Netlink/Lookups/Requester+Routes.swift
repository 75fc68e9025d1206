import CLinux
package import Connectivity
import Glibc

/// Implements rules K2 and D9.
extension Requester {
  /// Queries how the kernel would send to a destination, with all its rules, tables and metrics.
  ///
  /// A missing route is also an answer. The reason follows from the kernel's errno. The kernel
  /// returns a link's route even if the link is dead, so the caller must check the link. If no
  /// table has a route for IPv4 traffic bound to a link, the kernel returns a route of table 0.
  /// That route treats all addresses as neighbours.
  package func route(to destination: Destination) throws(NetlinkError) -> RouteAnswer {
    let answer = try self.answer(self.lookup(RouteQuestion(destination, .route)), to: destination)
    try self.noteExpiry(of: [answer], to: [destination])
    return answer
  }

  /// Returns the answers of `route(to:)` for many destinations, in order and at a lower cost.
  package func routes(to destinations: [Destination]) throws(NetlinkError) -> [RouteAnswer] {
    // A batch saves nothing for a single query.
    if destinations.count == 1 { return [try self.route(to: destinations[0])] }
    let questions = destinations.map { RouteQuestion($0, .route) }
    var answers: [RouteAnswer] = []
    answers.reserveCapacity(destinations.count)
    for (question, result) in zip(questions, try self.results(of: questions)) {
      answers.append(try self.answer(result, to: question.destination))
    }
    try self.noteExpiry(of: answers, to: destinations)
    return answers
  }

  /// Notes when the routes expire, which only IPv6 table entries report. If a route expires between
  /// its lookup and this query, an earlier query has noted that.
  private func noteExpiry(
    of answers: [RouteAnswer], to destinations: [Destination]
  ) throws(NetlinkError) {
    let entries = zip(answers, destinations).compactMap { answer, destination in
      answer.isRoute && destination.address.family == .ipv6
        ? RouteQuestion(destination, .entry) : nil
    }
    for result in entries.count == 1 ? [self.lookup(entries[0])] : try self.results(of: entries) {
      if case .success(let route) = result { self.expiry.note(route) }
    }
  }

  private func results(of questions: [RouteQuestion]) throws(NetlinkError) -> [Lookup] {
    if questions.isEmpty { return [] }
    let results = try self.answers(for: questions) {
      $0.request()
    } read: {
      RouteMessage(message: $0)
    }
    var settled: [Lookup] = []
    settled.reserveCapacity(questions.count)
    for (question, result) in zip(questions, results) {
      let result = result.map { self.settled($0, question) } ?? self.lookup(question)
      // Stop: if the socket does not answer, each of the other queries would wait as long.
      if case .failure(let error) = result, !error.isAnswer { throw error }
      settled.append(result)
    }
    return settled
  }

  /// Returns the time until an IPv6 answer given since the last call may become invalid because a
  /// route expires, or `nil` if none does. (The route of a router advertisement expires unless the
  /// router renews it.)
  ///
  /// A lookup skips an expired route immediately, but the kernel reports the expiry up to half a
  /// minute later.
  package func takeExpiry() -> Duration? { self.expiry.take() }

  /// Queries the table entry that `route(to:)` uses. Returns `nil` if no entry carries traffic.
  ///
  /// The kernel fails with EMSGSIZE if there are more nexthops than fit into a page: 235 for IPv4,
  /// 132 for IPv6. Kernels before 4.13 return the destination itself as the prefix.
  package func match(for destination: Destination) throws(NetlinkError) -> RouteEntry? {
    switch self.lookup(RouteQuestion(destination, .entry)) {
    case .success(let route):
      self.expiry.note(route)
      return RouteEntry(route)
    case .failure(let error) where error.isAnswer && error.code == EMSGSIZE: return .oversized
    case .failure(let error):
      guard try self.reason(error, destination) != nil else { throw error }
      return nil
    }
  }

  /// Returns the routes of all tables that contain an address and discard traffic for a reason. The
  /// kernel searches its tables, and sends only routes of that type.
  package func discardingRoutes(
    of address: IPAddress, _ reason: KernelPath.Reason
  ) throws(NetlinkError) -> [MatchedRoute] {
    guard let type = reason.discardingType else { return [] }
    var header = rtmsg()
    header.rtm_family = address.family.netlinkNumber
    header.rtm_type = type
    let request = Request(Int(RTM_GETROUTE), "RTM_GETROUTE", isDump: true, header: header)
    return try self.objects(request) { message in
      guard Int(message.type) == Int(RTM_NEWROUTE), let route = RouteMessage(message: message),
        route.type == type, route.prefix.contains(address)
      else { return nil }
      return MatchedRoute(prefix: route.prefix, table: route.table, priority: route.priority)
    }
  }

  private typealias Lookup = Result<RouteMessage, NetlinkError>

  private func lookup(_ question: RouteQuestion) -> Lookup {
    let result = Lookup { () throws(NetlinkError) in
      let found = try self.object(question.request()) { RouteMessage(message: $0) }
      guard let message = found else {
        throw NetlinkError.answer("RTM_GETROUTE", EBADMSG)
      }
      return message
    }
    return self.settled(result, question)
  }

  /// Returns the result that a bound socket gets. If an IPv6 request names a source, the kernel
  /// treats the link as a hint only. If the result uses another link, the query is repeated without
  /// the source, because a bound socket uses the link.
  private func settled(_ result: Lookup, _ question: RouteQuestion) -> Lookup {
    let destination = question.destination
    guard
      destination.address.family == .ipv6, destination.source?.family == .ipv6,
      let outLink = destination.outLink
    else { return result }
    if case .success(let message) = result, message.outLink == outLink { return result }
    var bound = question
    bound.destination.source = nil
    return self.lookup(bound)
  }

  private func answer(
    _ result: Lookup, to destination: Destination
  ) throws(NetlinkError) -> RouteAnswer {
    switch result {
    case .success(let message):
      switch RouteAnswer(message) {
      case .route(var route)?:
        // IPv4 omits the given source, and IPv6 returns the source that it would choose itself.
        route.source = destination.source ?? route.source
        return .route(route)
      case let answer?: return answer
      case nil: return .unanswered("RTM_GETROUTE: a route without a link")
      }
    case .failure(let error):
      guard error.isAnswer else { throw error }
      return try self.reason(error, destination).map { .noRoute($0) }
        ?? .unanswered("\(error)")
    }
  }

  /// Returns why a route is missing, or `nil` if the kernel's error has another cause.
  private func reason(
    _ error: NetlinkError, _ destination: Destination
  ) throws(NetlinkError) -> KernelPath.Reason? {
    guard error.isAnswer else { throw error }
    if let source = destination.source, source.family != destination.address.family {
      return .noSourceAddress
    }
    guard let reason = KernelPath.Reason(lookup: error, of: destination.address.family)
    else { return nil }
    // If the source does not belong to this machine, IPv4 reports a missing route. Older kernels
    // report a blackhole. For a loopback address on another link, IPv4 always reports a blackhole.
    if destination.address.family == .ipv4, let source = destination.source,
      reason == .noRoute || reason == .blackhole, try !self.isLocal(source)
    {
      return .noSourceAddress
    }
    return reason
  }

  private func isLocal(_ source: IPAddress) throws(NetlinkError) -> Bool {
    guard !source.isLoopback, case .route(let route) = try self.route(to: Destination(source))
    else { return false }
    return route.kind == .local
  }
}

extension RouteAnswer {
  fileprivate var isRoute: Bool { if case .route = self { true } else { false } }
}

extension KernelPath.Reason {
  /// The type of the routes that cause this answer (`RTN_*`), or `nil` if none does.
  fileprivate var discardingType: UInt8? {
    switch self {
    case .blackhole: UInt8(RTN_BLACKHOLE)
    case .unreachable: UInt8(RTN_UNREACHABLE)
    case .prohibited: UInt8(RTN_PROHIBIT)
    default: nil
    }
  }

  /// The reason for a lookup's errno, or `nil` if the errno means that the query was invalid.
  init?(lookup error: NetlinkError, of family: AddressFamily) {
    switch error.code {
    // ENODEV: the link to which the traffic is bound does not exist.
    case ENETUNREACH, ESRCH, ENODEV: self = .noRoute
    case EHOSTUNREACH: self = .unreachable
    case EACCES: self = .prohibited
    // The kernel also rejects invalid requests with EINVAL, but then it includes an explanation.
    case EINVAL where error.message == nil: self = .blackhole
    case EAGAIN: self = .throw
    // A kernel without IPv6, or with ipv6.disable=1, returns one of these errors for IPv6. For
    // IPv4, they come from a sandbox and say nothing about the network. An error with an
    // explanation means that the request itself was rejected.
    case EOPNOTSUPP, EAFNOSUPPORT, EPROTONOSUPPORT:
      guard family == .ipv6, error.message == nil else { return nil }
      self = .unsupported
    default: return nil
    }
  }
}

import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Asks by which way the kernel would send to a destination, with all its rules, tables and metrics.
  ///
  /// That there is none is an answer, with the reason that the kernel's errno stands for.
  /// The kernel names a link's route also where the link is dead: see the link. And to IPv4 traffic that is bound to a
  /// link it gives a route, of table 0, where no table has one: it takes the whole world for neighbours then.
  package func route(to destination: Destination) throws(NetlinkError) -> RouteAnswer {
    let answer = try self.answer(self.lookup(RouteQuestion(destination, .way)), to: destination)
    try self.noteExpiry(of: [answer], to: [destination])
    return answer
  }

  /// The answers of `route(to:)` for many destinations, in their order and at a lower cost.
  package func routes(to destinations: [Destination]) throws(NetlinkError) -> [RouteAnswer] {
    // With one question there is nothing to save.
    if destinations.count == 1 { return [try self.route(to: destinations[0])] }
    let questions = destinations.map { RouteQuestion($0, .way) }
    var answers: [RouteAnswer] = []
    answers.reserveCapacity(destinations.count)
    for (question, result) in zip(questions, try self.results(of: questions)) {
      answers.append(try self.answer(result, to: question.destination))
    }
    try self.noteExpiry(of: answers, to: destinations)
    return answers
  }

  /// Only a route's entry tells when it expires, which only IPv6's do. What expires between the two questions was noted when it
  /// was asked about before.
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
      // A socket that does not answer would have each of the others wait as long.
      if case .failure(let error) = result, !error.isAnswer { throw error }
      settled.append(result)
    }
    return settled
  }

  /// How long it takes until an IPv6 answer that was given since the last call may hold no more, for a route of it expires (that
  /// of a router's advertisement does, unless the router renews it); `nil` where none does.
  ///
  /// A lookup passes over such a route at once, but the kernel tells of its end as much as half a minute later.
  package func takeExpiry() -> Duration? { self.expiry.take() }

  /// Asks which entry of which table `route(to:)` goes by; `nil` where there is none that carries traffic.
  ///
  /// The kernel refuses with EMSGSIZE to list more nexthops than fit into a page: 235 for IPv4, 132
  /// for IPv6. Kernels before 4.13 answer with the destination itself as prefix.
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

  /// The result that counts. IPv6 takes the link for no more than a wish where the request names a source; where it did
  /// not come true, the link decides, as it does for a socket that is bound to it.
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
        // IPv4 leaves out the source that it was given, IPv6 names the one that it would choose itself.
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

  /// Why there is no way; `nil` if the kernel's error tells nothing about it.
  private func reason(
    _ error: NetlinkError, _ destination: Destination
  ) throws(NetlinkError) -> Path.Reason? {
    guard error.isAnswer else { throw error }
    if let source = destination.source, source.family != destination.address.family {
      return .noSourceAddress
    }
    guard let reason = Path.Reason(lookup: error, of: destination.address.family)
    else { return nil }
    // Of a source that is not this system's IPv4 says what it says of no route, older kernels what they say of a
    // blackhole; and of a loopback address that is to leave by another link, always the latter.
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

extension Path.Reason {
  /// What a lookup's errno says about the way; `nil` where it says that the question was wrong.
  init?(lookup error: NetlinkError, of family: AddressFamily) {
    switch error.code {
    // ENODEV: the link that the traffic is bound to does not exist.
    case ENETUNREACH, ESRCH, ENODEV: self = .noRoute
    case EHOSTUNREACH: self = .unreachable
    case EACCES: self = .prohibited
    // The kernel refuses a request with EINVAL too, but says then what it dislikes.
    case EINVAL where error.message == nil: self = .blackhole
    case EAGAIN: self = .throw
    // IPv6 may be left out of a kernel, or switched off (ipv6.disable=1). IPv4 is not: a sandbox may answer so, which says
    // nothing of the network. And a request that is refused is refused in words.
    case EOPNOTSUPP, EAFNOSUPPORT, EPROTONOSUPPORT:
      guard family == .ipv6, error.message == nil else { return nil }
      self = .unsupported
    default: return nil
    }
  }
}

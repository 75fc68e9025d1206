import CLinux
public import Connectivity
import Glibc

extension Requester {
  /// Asks by which way the kernel would send to a destination, with all its rules, tables and metrics.
  ///
  /// That there is none is an answer, with the reason that the kernel's errno stands for.
  /// The kernel names a link's route also where the link is dead: see the link. And to IPv4 traffic that is bound to a
  /// link it gives a route, of table 0, where no table has one: it takes the whole world for neighbours then.
  public func route(to destination: Destination) throws(NetlinkError) -> RouteAnswer {
    try self.answer(self.lookup(destination, flags: 0), to: destination)
  }

  /// The answers of `route(to:)` for many destinations, in their order and at a lower cost.
  public func routes(to destinations: [Destination]) throws(NetlinkError) -> [RouteAnswer] {
    let results = try self.answers(for: destinations) {
      Self.request($0, flags: 0)
    } read: {
      RouteMessage(message: $0)
    }
    var answers: [RouteAnswer] = []
    answers.reserveCapacity(destinations.count)
    for (destination, result) in zip(destinations, results) {
      if let result {
        let result = self.settled(result, destination, flags: 0)
        answers.append(try self.answer(result, to: destination))
      } else {
        answers.append(try self.route(to: destination))
      }
    }
    return answers
  }

  /// Asks which route of which table `route(to:)` takes; `nil` where there is none that carries traffic.
  ///
  /// Kernels before 4.13 answer with the destination itself as prefix.
  public func match(for destination: Destination) throws(NetlinkError) -> MatchedRoute? {
    switch self.lookup(destination, flags: UInt32(RTM_F_FIB_MATCH)) {
    case .success(let route): return route.reason == nil ? MatchedRoute(route) : nil
    case .failure(let error):
      _ = try self.reason(error, destination)
      return nil
    }
  }

  private typealias Lookup = Result<RouteMessage, NetlinkError>

  private func lookup(_ destination: Destination, flags: UInt32) -> Lookup {
    let result = Lookup { () throws(NetlinkError) in
      let request = Self.request(destination, flags: flags)
      guard let message = try self.object(request, read: { RouteMessage(message: $0) }) else {
        throw NetlinkError(operation: "RTM_GETROUTE", code: EBADMSG)
      }
      return message
    }
    return self.settled(result, destination, flags: flags)
  }

  /// The result that counts. IPv6 takes the link for no more than a wish where the request names a source; where it did
  /// not come true, the link decides, as it does for a socket that is bound to it.
  private func settled(_ result: Lookup, _ destination: Destination, flags: UInt32) -> Lookup {
    guard
      destination.address.family == .ipv6, destination.source?.family == .ipv6,
      let outLink = destination.outLink
    else { return result }
    if case .success(let message) = result, message.outLink == outLink { return result }
    var bound = destination
    bound.source = nil
    return self.lookup(bound, flags: flags)
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
      case .noRoute(let reason)?: return .noRoute(reason)
      case nil: throw NetlinkError(operation: "RTM_GETROUTE", code: EBADMSG)
      }
    case .failure(let error): return .noRoute(try self.reason(error, destination))
    }
  }

  /// Why there is no way; throws where the error tells nothing about it.
  private func reason(
    _ error: NetlinkError, _ destination: Destination
  ) throws(NetlinkError) -> Path.Reason {
    if let source = destination.source, source.family != destination.address.family {
      return .noSourceAddress
    }
    guard let reason = Path.Reason(lookup: error) else { throw error }
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

  private static func request(_ destination: Destination, flags: UInt32) -> Request {
    let family = destination.address.family
    var header = rtmsg()
    header.rtm_family = family.netlinkNumber
    header.rtm_dst_len = UInt8(family.bitWidth)
    // IPv4 names the real table only when asked to; IPv6 always does, and refuses the flag.
    header.rtm_flags = flags | (family == .ipv4 ? UInt32(RTM_F_LOOKUP_TABLE) : 0)
    if let source = destination.source { header.rtm_src_len = UInt8(source.family.bitWidth) }
    var request = Request(Int(RTM_GETROUTE), "RTM_GETROUTE", header: header)
    request.put(Int(RTA_DST.rawValue), destination.address)
    if let source = destination.source { request.put(Int(RTA_SRC.rawValue), source) }
    if let outLink = destination.outLink { request.put(Int(RTA_OIF.rawValue), outLink) }
    request.put(Int(RTA_UID.rawValue), destination.uid)
    if destination.mark != 0 { request.put(Int(RTA_MARK.rawValue), destination.mark) }
    return request
  }
}

extension Path.Reason {
  /// What a lookup's errno says about the way; `nil` where it says that the question was wrong.
  init?(lookup error: NetlinkError) {
    switch error.code {
    // ENODEV: the link that the traffic is bound to does not exist.
    case ENETUNREACH, ESRCH, ENODEV: self = .noRoute
    case EHOSTUNREACH: self = .unreachable
    case EACCES: self = .prohibited
    // The kernel refuses a request with EINVAL too, but says then what it dislikes.
    case EINVAL where error.message == nil: self = .blackhole
    case EAGAIN: self = .throw
    default: return nil
    }
  }
}

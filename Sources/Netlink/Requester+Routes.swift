import CLinux
public import Connectivity
import Glibc

extension Requester {
  /// Asks by which way the kernel would send to a destination, with all its rules, tables and metrics.
  ///
  /// That there is none is an answer, with the reason that the kernel's errno stands for.
  /// The kernel names a link's route also where the link is dead: see the link.
  public func route(to destination: Destination) throws(NetlinkError) -> RouteAnswer {
    let request = self.lookup(destination, flags: 0)
    do throws(NetlinkError) {
      let answer = try self.object(request) {
        RouteMessage(message: $0).flatMap(RouteAnswer.init)
      }
      return answer ?? .noRoute(.noRoute)
    } catch {
      guard let reason = Path.Reason(lookup: error) else { throw error }
      return .noRoute(reason)
    }
  }

  /// Asks which route of which table `route(to:)` takes; `nil` where there is none that carries traffic.
  ///
  /// Kernels before 4.13 answer with the destination itself as prefix.
  public func match(for destination: Destination) throws(NetlinkError) -> MatchedRoute? {
    let request = self.lookup(destination, flags: UInt32(RTM_F_FIB_MATCH))
    do throws(NetlinkError) {
      let route = try self.object(request) { RouteMessage(message: $0) }
      guard let route, route.reason == nil else { return nil }
      return MatchedRoute(route)
    } catch {
      guard Path.Reason(lookup: error) != nil else { throw error }
      return nil
    }
  }

  private func lookup(_ destination: Destination, flags: UInt32) -> Request {
    let family = destination.address.family
    var header = rtmsg()
    header.rtm_family = family.netlinkNumber
    header.rtm_dst_len = UInt8(family.bitWidth)
    // IPv4 names the real table only when asked to; IPv6 always does, and refuses the flag.
    header.rtm_flags = flags | (family == .ipv4 ? UInt32(RTM_F_LOOKUP_TABLE) : 0)
    var request = Request(Int(RTM_GETROUTE), "RTM_GETROUTE", header: header)
    request.put(Int(RTA_DST.rawValue), destination.address)
    request.put(Int(RTA_UID.rawValue), destination.uid)
    if destination.mark != 0 { request.put(Int(RTA_MARK.rawValue), destination.mark) }
    return request
  }
}

extension Path.Reason {
  /// What a lookup's errno says about the way; `nil` where it says that the question was wrong.
  init?(lookup error: NetlinkError) {
    switch error.code {
    case ENETUNREACH, ESRCH: self = .noRoute
    case EHOSTUNREACH: self = .unreachable
    case EACCES: self = .prohibited
    // The kernel refuses a request with EINVAL too, but says then what it dislikes.
    case EINVAL where error.message == nil: self = .blackhole
    case EAGAIN: self = .throw
    default: return nil
    }
  }
}

import CLinux
import Connectivity
import Glibc

/// A query of the routing tables about a destination.
struct RouteQuestion {
  enum Subject {
    /// How the kernel would send to the destination.
    case route
    /// The table entry that determines the route.
    case entry
  }

  var destination: Destination
  var subject: Subject

  init(_ destination: Destination, _ subject: Subject) {
    self.destination = destination
    self.subject = subject
  }

  func request() -> Request {
    let (destination, family) = (self.destination, self.destination.address.family)
    let flags = self.subject == .entry ? UInt32(RTM_F_FIB_MATCH) : 0
    var header = rtmsg()
    header.rtm_family = family.netlinkNumber
    header.rtm_dst_len = UInt8(family.bitWidth)
    // IPv4 returns the real table only if requested. IPv6 always does, and rejects the flag.
    header.rtm_flags = flags | (family == .ipv4 ? UInt32(RTM_F_LOOKUP_TABLE) : 0)
    if let source = destination.source { header.rtm_src_len = UInt8(source.family.bitWidth) }
    var request = Request(Int(RTM_GETROUTE), "RTM_GETROUTE", header: header)
    request.put(Int(RTA_DST.rawValue), destination.address)
    if let source = destination.source { request.put(Int(RTA_SRC.rawValue), source) }
    if let outLink = destination.outLink { request.put(Int(RTA_OIF.rawValue), outLink) }
    request.put(Int(RTA_UID.rawValue), destination.uid)
    if destination.mark != 0 { request.put(Int(RTA_MARK.rawValue), destination.mark) }
    if let transport = destination.transport { request.put(transport, family) }
    return request
  }
}

extension Request {
  /// Adds the protocol and ports, if the kernel accepts the protocol. For other protocols, the
  /// kernel's error looks like that of a kernel without the family.
  mutating func put(_ transport: Transport, _ family: AddressFamily) {
    switch CInt(transport.number) {
    case CInt(IPPROTO_TCP), CInt(IPPROTO_UDP):
      self.put(Int(RTA_IP_PROTO.rawValue), transport.number)
      if transport.localPort != 0 { self.put(Int(RTA_SPORT.rawValue), port: transport.localPort) }
      if transport.remotePort != 0 { self.put(Int(RTA_DPORT.rawValue), port: transport.remotePort) }
    // The kernel stores the ICMP type and code in place of the ports.
    case CInt(IPPROTO_ICMP) where family == .ipv4, CInt(IPPROTO_ICMPV6) where family == .ipv6:
      self.put(Int(RTA_IP_PROTO.rawValue), transport.number)
    default: break
    }
  }
}

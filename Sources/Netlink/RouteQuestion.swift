import CLinux
import Connectivity
import Glibc

/// What is asked of the routing tables about a destination.
struct RouteQuestion {
  enum Subject {
    /// By which way the kernel would send to it.
    case way
    /// Which entry of which table that goes by.
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
    // IPv4 names the real table only when asked to; IPv6 always does, and refuses the flag.
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
  /// The kernel refuses protocols other than these, by an error that would be taken for that of a kernel without the family.
  mutating func put(_ transport: Transport, _ family: AddressFamily) {
    switch CInt(transport.number) {
    case CInt(IPPROTO_TCP), CInt(IPPROTO_UDP):
      self.put(Int(RTA_IP_PROTO.rawValue), transport.number)
      if transport.localPort != 0 { self.put(Int(RTA_SPORT.rawValue), port: transport.localPort) }
      if transport.remotePort != 0 { self.put(Int(RTA_DPORT.rawValue), port: transport.remotePort) }
    // Where TCP has ports, the kernel has the message's type and code.
    case CInt(IPPROTO_ICMP) where family == .ipv4, CInt(IPPROTO_ICMPV6) where family == .ipv6:
      self.put(Int(RTA_IP_PROTO.rawValue), transport.number)
    default: break
    }
  }
}

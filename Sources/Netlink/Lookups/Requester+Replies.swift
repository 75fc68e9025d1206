import CLinux
package import Connectivity
import Glibc

/// Implements rule I2.
extension Requester {
  /// Returns whether the kernel drops a connection's replies that arrive on a link. Strict reverse
  /// path filtering (rp_filter=1, RFC 3704) expects them on the link that routes to the remote
  /// address use. IPv6 has no such filter.
  ///
  /// The kernel applies the filter to a lookup as it does to a packet. Any user may make this
  /// lookup.
  ///
  /// - Parameter destination: The connection's destination, with the connection's own address as
  ///   `source`.
  package func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(NetlinkError) -> Bool {
    guard destination.address.family == .ipv4, let local = destination.source else { return false }
    // Netfilter may set the connection's mark on a reply, and the filter respects it if
    // src_valid_mark is set.
    for mark in destination.mark == 0 ? [0] : [0, destination.mark] {
      guard try self.refusesReply(from: destination, to: local, by: link, mark: mark)
      else { return false }
    }
    return true
  }

  private func refusesReply(
    from remote: Destination, to local: IPAddress, by link: UInt32, mark: UInt32
  ) throws(NetlinkError) -> Bool {
    var header = rtmsg()
    header.rtm_family = AddressFamily.ipv4.netlinkNumber
    header.rtm_dst_len = UInt8(AddressFamily.ipv4.bitWidth)
    header.rtm_src_len = header.rtm_dst_len
    var request = Request(Int(RTM_GETROUTE), "RTM_GETROUTE", header: header)
    request.put(Int(RTA_DST.rawValue), local)
    request.put(Int(RTA_SRC.rawValue), remote.address)
    request.put(Int(RTA_IIF.rawValue), link)
    if mark != 0 { request.put(Int(RTA_MARK.rawValue), mark) }
    if let sent = remote.transport {
      let reply = Transport(
        sent.number, localPort: sent.remotePort, remotePort: sent.localPort)
      request.put(reply, .ipv4)
    }
    do throws(NetlinkError) {
      return try self.object(request) { RouteMessage(message: $0) }.map { _ in false } ?? false
    } catch {
      guard error.isAnswer else { throw error }
      // Kernels before 6.13 return EXDEV. An error with an explanation means that the kernel does
      // not understand the request.
      return (error.code == EINVAL || error.code == EXDEV) && error.message == nil
    }
  }
}

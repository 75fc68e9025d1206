import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Returns the kernel's entry for a neighbour, or `nil` if it has none or cannot answer (before
  /// 5.0).
  ///
  /// The query sends nothing to the network: only traffic creates entries.
  package func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(NetlinkError) -> Neighbour? {
    guard let index = Int32(exactly: link), index > 0 else { return nil }
    var header = ndmsg()
    header.ndm_family = address.family.netlinkNumber
    header.ndm_ifindex = index
    var request = Request(Int(RTM_GETNEIGH), "RTM_GETNEIGH", header: header)
    request.put(Int(NDA_DST), address)
    // EAFNOSUPPORT: the kernel has no IPv6.
    let absences = [ENOENT, ENODEV, EOPNOTSUPP, EAFNOSUPPORT]
    return try self.object(request, absentIf: absences) { Neighbour(message: $0) }
  }
}

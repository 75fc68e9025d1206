import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// What the kernel knows of a neighbour; `nil` where it has no entry, or cannot tell (before 5.0).
  ///
  /// Asking makes the kernel ask nobody: an entry comes of traffic alone.
  package func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(NetlinkError) -> Neighbour? {
    guard let index = Int32(exactly: link), index > 0 else { return nil }
    var header = ndmsg()
    header.ndm_family = address.family.netlinkNumber
    header.ndm_ifindex = index
    var request = Request(Int(RTM_GETNEIGH), "RTM_GETNEIGH", header: header)
    request.put(Int(NDA_DST), address)
    // EAFNOSUPPORT: a kernel without IPv6.
    let absences: Set<CInt> = [ENOENT, ENODEV, EOPNOTSUPP, EAFNOSUPPORT]
    return try self.object(request, absentIf: absences) { Neighbour(message: $0) }
  }
}

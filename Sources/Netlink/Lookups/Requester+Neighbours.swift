import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Returns the kernel's entry for a neighbour, or `nil` if none exists or the kernel cannot
  /// answer (before 5.0).
  ///
  /// The query sends nothing to the network: only traffic creates entries.
  package func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(NetlinkError) -> Neighbour? {
    guard let request = Self.request(Int(RTM_GETNEIGH), "RTM_GETNEIGH", address, link) else {
      return nil
    }
    // EAFNOSUPPORT: the kernel has no IPv6.
    let absences = [ENOENT, ENODEV, EOPNOTSUPP, EAFNOSUPPORT]
    return try self.object(request, absentIf: absences) { Neighbour(message: $0) }
  }

  /// Deletes the kernel's entry for a neighbour that has not answered, if there is one. Needs
  /// CAP_NET_ADMIN.
  ///
  /// A packet that is sent while the link has no carrier creates an entry, but the requests for its
  /// MAC address are lost. After three seconds the kernel gives up, and all packets that wait for
  /// the entry fail with EHOSTUNREACH, even if the carrier is back. After a deletion, the next
  /// packet creates a new entry.
  package func forgetUnanswered(_ address: IPAddress, on link: UInt32) throws(NetlinkError) {
    guard let found = try self.neighbour(address, on: link), found.hardwareAddress == nil,
      let request = Self.request(
        Int(RTM_DELNEIGH), "RTM_DELNEIGH", address, link, isCommand: true)
    else { return }
    do throws(NetlinkError) {
      try self.command(request)
    } catch {
      guard error.isAnswer, error.code == ENOENT else { throw error }
    }
  }

  private static func request(
    _ type: Int, _ operation: String, _ address: IPAddress, _ link: UInt32, isCommand: Bool = false
  ) -> Request? {
    guard let index = Int32(exactly: link), index > 0 else { return nil }
    var header = ndmsg()
    header.ndm_family = address.family.netlinkNumber
    header.ndm_ifindex = index
    var request = Request(type, operation, isCommand: isCommand, header: header)
    request.put(Int(NDA_DST), address)
    return request
  }
}

import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Returns the link with an index in this namespace, or `nil` if it does not exist.
  package func link(index: UInt32) throws(NetlinkError) -> Link? {
    guard let number = Int32(exactly: index), number > 0 else { return nil }
    var header = ifinfomsg()
    header.ifi_index = number
    return try self.link(Self.linkRequest(header))
  }

  /// Returns the link with a name or alternative name, or `nil` if it does not exist.
  package func link(named name: String) throws(NetlinkError) -> Link? {
    guard (1..<128).contains(name.utf8.count) else { return nil }
    var request = Self.linkRequest(ifinfomsg())
    // A name has at most 15 bytes (IFNAMSIZ). Kernels before 5.5 have no alternative names.
    request.put(Int(name.utf8.count < 16 ? IFLA_IFNAME : IFLA_ALT_IFNAME), name)
    return try self.link(request)
  }

  /// Waits until the kernel has completed every change that it has announced.
  ///
  /// Three messages precede the removal of routes, and no message follows it: `RTM_DELROUTE` in
  /// IPv4 (`fib_table_delete`), `RTM_DELADDR` (`__inet_del_ifa`), and `RTM_NEWLINK` of a link that
  /// is set down (`__dev_notify_flags`). The kernel holds the RTNL mutex until the change is
  /// complete. A route lookup does not take that mutex. A request for a link does, even if the link
  /// does not exist.
  package func waitForChanges() throws(NetlinkError) {
    var header = ifinfomsg()
    header.ifi_index = .max
    _ = try self.link(Self.linkRequest(header, operation: Self.wait))
  }

  /// The operation of ``waitForChanges()`` in errors.
  package static let wait = "RTM_GETLINK to wait for changes"

  /// Returns all links of this namespace.
  package func links() throws(NetlinkError) -> [Link] {
    try self.objects(Self.linkDump, read: Self.link(of:))
  }

  /// The request for all links.
  static var linkDump: Request { Self.linkRequest(ifinfomsg(), isDump: true) }

  static func link(of message: Message) -> Link? {
    Int(message.type) == Int(RTM_NEWLINK) ? Link(message: message) : nil
  }

  private func link(_ request: consuming Request) throws(NetlinkError) -> Link? {
    try self.object(request, absentIf: [ENODEV]) { Link(message: $0) }
  }

  private static func linkRequest(
    _ header: ifinfomsg, isDump: Bool = false, operation: String = "RTM_GETLINK"
  ) -> Request {
    var request = Request(Int(RTM_GETLINK), operation, isDump: isDump, header: header)
    // The packet counters are most of the cost, and connd does not use them.
    request.put(Int(IFLA_EXT_MASK), UInt32(RTEXT_FILTER_SKIP_STATS))
    return request
  }
}

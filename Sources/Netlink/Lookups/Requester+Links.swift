import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Returns the link with an index in this namespace, or `nil` if it does not exist.
  package func link(index: UInt32) throws(NetlinkError) -> Link? {
    guard let number = Int32(exactly: index), number > 0 else { return nil }
    var header = ifinfomsg()
    header.ifi_index = number
    return try self.object(Self.linkRequest(header), absentIf: [ENODEV]) {
      self.knownLinks.link(index, of: $0)
    }
  }

  /// Returns the link with a name or alternative name, or `nil` if it does not exist.
  package func link(named name: String) throws(NetlinkError) -> Link? {
    guard (1..<128).contains(name.utf8.count) else { return nil }
    var request = Self.linkRequest(ifinfomsg())
    // A name has at most 15 bytes (IFNAMSIZ). Kernels before 5.5 have no alternative names.
    request.put(Int(name.utf8.count < 16 ? IFLA_IFNAME : IFLA_ALT_IFNAME), name)
    return try self.object(request, absentIf: [ENODEV]) { Link(message: $0) }
  }

  /// The request of ``waitForChanges()``: for a link that does not exist.
  static var wait: Request {
    var header = ifinfomsg()
    header.ifi_index = .max
    return Self.linkRequest(header)
  }

  /// Returns all links of this namespace.
  package func links() throws(NetlinkError) -> [Link] {
    try self.objects(Self.linkDump, read: Self.link(of:))
  }

  /// The request for all links.
  static var linkDump: Request { Self.linkRequest(ifinfomsg(), isDump: true) }

  static func link(of message: Message) -> Link? {
    Int(message.type) == Int(RTM_NEWLINK) ? Link(message: message) : nil
  }

  private static func linkRequest(_ header: ifinfomsg, isDump: Bool = false) -> Request {
    var request = Request(Int(RTM_GETLINK), "RTM_GETLINK", isDump: isDump, header: header)
    // The packet counters are most of the cost, and connd does not use them.
    request.put(Int(IFLA_EXT_MASK), UInt32(RTEXT_FILTER_SKIP_STATS))
    return request
  }
}

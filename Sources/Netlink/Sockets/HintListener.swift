import CLinux
import Glibc

/// A socket that receives notifications only as hints: the caller must read the state again.
///
/// Not thread-safe: one thread owns it and polls `fileDescriptor` for reading.
package final class HintListener {
  private let socket: NetlinkSocket

  private init(_ protocol: CInt, group: UInt32, _ name: String) throws(NetlinkError) {
    self.socket = try NetlinkSocket(`protocol`, nonBlocking: true)
    try self.socket.bind()
    guard self.socket.set(NETLINK_ADD_MEMBERSHIP, CInt(bitPattern: group)) else {
      throw .last("join \(name)")
    }
  }

  /// Listens for changes of links.
  ///
  /// - Throws: An error if netlink is unavailable.
  package static func links() throws(NetlinkError) -> HintListener {
    try HintListener(NETLINK_ROUTE, group: UInt32(RTNLGRP_LINK.rawValue), "RTNLGRP_LINK")
  }

  /// Listens for the start and end of Multipath TCP connections and of their subflows. Needs
  /// CAP_NET_ADMIN.
  ///
  /// - Returns: The listener, or `nil` if the kernel does not report them (before 5.12).
  /// - Throws: An error if netlink is unavailable, or this process may not listen.
  package static func multipathConnections() throws(NetlinkError) -> HintListener? {
    let name = MultipathNumbers.events
    let family = try Requester(NETLINK_GENERIC).family(MultipathNumbers.family)
    return try (family?.groups[name]).map { (group) throws(NetlinkError) in
      try HintListener(NETLINK_GENERIC, group: group, name)
    }
  }

  /// The descriptor to poll for reading.
  package var fileDescriptor: CInt { self.socket.fileDescriptor }

  /// Discards the notifications so far.
  ///
  /// - Throws: An error if the socket is unusable. Lost notifications are ignored.
  package func drain() throws(NetlinkError) {
    while true {
      switch self.socket.receive() {
      case .nothing: return
      case .datagram, .truncated, .overrun, .foreign: continue
      case .failed(let code):
        throw NetlinkError(operation: "read notifications", code: code)
      }
    }
  }
}

import CLinux
import Glibc

/// The socket that receives the kernel's notifications of links only. Notifications are hints: the
/// caller must list the links again.
///
/// Not thread-safe: one thread owns it and polls `fileDescriptor` for reading.
package final class LinkListener {
  private let socket: NetlinkSocket

  /// - Throws: An error if netlink is unavailable.
  package init() throws(NetlinkError) {
    self.socket = try NetlinkSocket(nonBlocking: true)
    try self.socket.bind()
    guard self.socket.set(NETLINK_ADD_MEMBERSHIP, CInt(RTNLGRP_LINK.rawValue)) else {
      throw .last("join RTNLGRP_LINK")
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

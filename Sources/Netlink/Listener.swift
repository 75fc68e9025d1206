import CLinux
package import Connectivity
import Glibc

/// The socket that hears what the kernel tells of its own accord.
///
/// What it hears are hints: messages may be lost (`KernelEvent.overrun`), and some changes are never told.
/// Not thread-safe: one thread owns it and polls `fileDescriptor` for reading. The descriptor is closed on exec.
package final class Listener {
  private let socket: any DatagramSocket

  /// Opens a socket that hears of IPv4 and IPv6 addresses and rules, of nexthop objects, and of the links, routes,
  /// neighbours and settings that matter.
  ///
  /// - Parameters:
  ///   - watched: What routes and neighbours matter for, and which links do not.
  ///   - receiveBuffer: The size to ask for, in bytes; the kernel's default where `nil`. What exceeds
  ///     net.core.rmem_max needs CAP_NET_ADMIN, and is otherwise cut to it.
  /// - Throws: where there is no netlink, or a group is refused.
  package convenience init(
    watching watched: Watched, receiveBuffer: Int? = nil
  ) throws(NetlinkError) {
    try self.init(NetlinkSocket(nonBlocking: true), watching: watched, receiveBuffer)
  }

  /// Takes over a NETLINK_ROUTE socket, such as systemd's `ListenNetlink=route` passes.
  ///
  /// It belongs to the listener from this call on, and is closed where this throws.
  package convenience init(
    adopting fileDescriptor: CInt, watching watched: Watched
  ) throws(NetlinkError) {
    try self.init(NetlinkSocket(adopting: fileDescriptor), watching: watched, nil)
  }

  /// Hears by a socket that was opened for it.
  package convenience init(
    on socket: any DatagramSocket, watching watched: Watched
  ) throws(NetlinkError) {
    try self.init(socket, watching: watched, nil)
  }

  private init(
    _ socket: any DatagramSocket, watching watched: Watched, _ receiveBuffer: Int?
  ) throws(NetlinkError) {
    self.socket = socket
    // The filter first: between joining and filtering a storm of routes, or of ARP, could fill the buffer.
    try self.watch(watched)
    if let receiveBuffer {
      let size = CInt(clamping: receiveBuffer)
      if !socket.setSocket(SO_RCVBUFFORCE, size) { _ = socket.setSocket(SO_RCVBUF, size) }
    }
    if socket.port == 0 { try socket.bind() }
    try self.join()
  }

  private func join() throws(NetlinkError) {
    for (group, name) in [
      (RTNLGRP_LINK, "LINK"),
      (RTNLGRP_IPV4_IFADDR, "IPV4_IFADDR"), (RTNLGRP_IPV6_IFADDR, "IPV6_IFADDR"),
      (RTNLGRP_IPV4_ROUTE, "IPV4_ROUTE"), (RTNLGRP_IPV6_ROUTE, "IPV6_ROUTE"),
      (RTNLGRP_IPV4_RULE, "IPV4_RULE"), (RTNLGRP_IPV6_RULE, "IPV6_RULE"),
      (RTNLGRP_NEIGH, "NEIGH"),
    ] {
      guard !self.joins(group) else { continue }
      throw .last("join RTNLGRP_\(name)")
    }
    for (group, name) in [
      // Kernels before 5.3 have neither nexthop objects nor their group, others were made without netconf's.
      (RTNLGRP_NEXTHOP, "NEXTHOP"), (RTNLGRP_IPV4_NETCONF, "IPV4_NETCONF"),
      (RTNLGRP_IPV6_NETCONF, "IPV6_NETCONF"),
    ] {
      guard !self.joins(group), errno != EINVAL else { continue }
      throw .last("join RTNLGRP_\(name)")
    }
  }

  private func joins(_ group: rtnetlink_groups) -> Bool {
    self.socket.set(NETLINK_ADD_MEMBERSHIP, CInt(group.rawValue))
  }

  /// What to poll for reading.
  package var fileDescriptor: CInt { self.socket.fileDescriptor }

  /// Whether something waits to be read.
  package var hasMessages: Bool { KernelSockets().isReadable(self.fileDescriptor) }

  /// Makes routes matter that may hold one of the destinations or a default path, and of neighbours those gateways
  /// of which another hardware address is told than the one given, or that they fail, or do not fail any more, and no
  /// others; of bridges' entries those of the hardware addresses given; and of the links all but some.
  ///
  /// What changed before is not told: a gateway that was read has to be read again once it is watched.
  package func watch(_ watched: Watched) throws(NetlinkError) {
    // The memory for filters is bounded (net.core.optmem_max), and the old one counts until it is replaced.
    for limit in [BPFProgram.longest, 1024, 256, 32] {
      if self.attach(NotificationFilter(watched, limit: limit)) { return }
      guard errno == ENOMEM else { break }
    }
    throw .last("attach a filter")
  }

  private func attach(_ filter: NotificationFilter) -> Bool {
    var program = filter.program
    return program.withUnsafeMutableBufferPointer { program in
      self.socket.setSocket(
        SO_ATTACH_FILTER, sock_fprog(len: UInt16(program.count), filter: program.baseAddress))
    }
  }

  /// Appends what the kernel has told since the last call, without waiting.
  ///
  /// - Parameter limit: After how many events to stop, so that a storm cannot hold the caller. A datagram is
  ///   always taken whole.
  /// - Returns: Whether it stopped at the limit: more may wait.
  /// - Throws: what makes the socket useless. An overrun does not: it is an event.
  package func drain(into events: inout [KernelEvent], limit: Int) throws(NetlinkError) -> Bool {
    let end = events.count + limit
    while events.count < end {
      switch self.socket.receive() {
      case .datagram(let bytes):
        MessageParser.parse(bytes, into: &events)
      case .truncated(let size):
        events.append(.malformed("a datagram of \(size) bytes did not fit and is lost"))
        events.append(.overrun)
      case .overrun:
        events.append(.overrun)
      case .foreign:
        continue
      case .nothing:
        return false
      case .failed(let code):
        throw NetlinkError(operation: "read notifications", code: code)
      }
    }
    return true
  }
}

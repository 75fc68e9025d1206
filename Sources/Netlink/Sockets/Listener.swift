import CLinux
package import Connectivity
import Glibc

/// The socket that receives the kernel's notifications.
///
/// Notifications are hints: messages may be lost (`KernelEvent.overrun`), and the kernel does not
/// report some changes. Not thread-safe: one thread owns it and polls `fileDescriptor` for reading.
/// The descriptor is closed on exec.
package final class Listener {
  private let socket: any DatagramSocket

  /// Opens a socket that receives IPv4 and IPv6 addresses and rules, nexthop objects, and the
  /// watched links, routes, neighbours and settings.
  ///
  /// - Parameters:
  ///   - watched: The subjects to watch.
  ///   - receiveBuffer: The buffer size in bytes, or `nil` for the kernel's default. Without
  ///     CAP_NET_ADMIN it is limited to net.core.rmem_max.
  /// - Throws: An error if netlink is unavailable, or a group is refused.
  package convenience init(
    watching watched: FilterSpec, receiveBuffer: Int? = nil
  ) throws(NetlinkError) {
    try self.init(NetlinkSocket(nonBlocking: true), watching: watched, receiveBuffer)
  }

  /// Adopts a NETLINK_ROUTE socket, such as systemd passes for `ListenNetlink=route`.
  ///
  /// The listener owns the socket from this call on, and closes it if this throws.
  package convenience init(
    adopting fileDescriptor: CInt, watching watched: FilterSpec
  ) throws(NetlinkError) {
    try self.init(NetlinkSocket(adopting: fileDescriptor), watching: watched, nil)
  }

  /// Receives on a socket that was opened for this purpose.
  package convenience init(
    on socket: any DatagramSocket, watching watched: FilterSpec
  ) throws(NetlinkError) {
    try self.init(socket, watching: watched, nil)
  }

  private init(
    _ socket: any DatagramSocket, watching watched: FilterSpec, _ receiveBuffer: Int?
  ) throws(NetlinkError) {
    self.socket = socket
    // Attach the filter first: between joining and filtering, a storm of routes or ARP could fill
    // the buffer.
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
      // Kernels before 5.3 have neither nexthop objects nor their group, and some are built without
      // netconf.
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

  /// The descriptor to poll for reading.
  package var fileDescriptor: CInt { self.socket.fileDescriptor }

  /// Whether messages are waiting.
  package var hasMessages: Bool { KernelSockets().isReadable(self.fileDescriptor) }

  /// Replaces the filter. It passes routes that may affect one of the destinations or a default
  /// path. It passes messages that a gateway has another MAC address, fails, or no longer fails. It
  /// also passes bridge entries of the given MAC addresses, and all links except
  /// ``FilterSpec/unheard``.
  ///
  /// Earlier changes are not reported, so the caller must read a gateway again once it is watched.
  package func watch(_ watched: FilterSpec) throws(NetlinkError) {
    // The memory for filters is limited (net.core.optmem_max), and the old filter counts until it
    // is replaced.
    for limit in [BPFProgram.maxLength, 1024, 256, 32] {
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

  /// Appends the notifications since the last call, without waiting.
  ///
  /// - Parameter limit: The number of events after which to stop, so that a storm cannot block the
  ///   caller. A datagram is always read completely.
  /// - Returns: Whether it stopped at the limit, so that more may be waiting.
  /// - Throws: An error if the socket is unusable. An overrun is an event, not an error.
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

package import Connectivity
private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A subflow of a Multipath TCP connection (RFC 8684): a TCP connection of its own, with two
/// addresses and ports.
package struct Subflow: Hashable, Sendable {
  package var local: IPAddress
  package var localPort: UInt16
  package var remote: IPAddress
  package var remotePort: UInt16
  /// The only link that has the subflow's local address, or `nil` if none or several have it.
  package var link: String?
  /// Whether the subflow is bound to ``link``.
  package var isBound: Bool

  package init(
    _ local: IPAddress, _ localPort: UInt16, to remote: IPAddress, _ remotePort: UInt16,
    on link: String?, isBound: Bool
  ) {
    self.local = local
    self.localPort = localPort
    self.remote = remote
    self.remotePort = remotePort
    self.link = link
    self.isBound = isBound
  }

  /// Whether both subflows have the same addresses and ports.
  func isSame(as other: Subflow) -> Bool {
    (self.local, self.localPort, self.remote, self.remotePort)
      == (other.local, other.localPort, other.remote, other.remotePort)
  }

  /// Returns the established subflows of a connection, or `nil` if the kernel does not list them,
  /// as before Linux 5.16. Returns at most 16; the kernel itself makes at most eight.
  ///
  /// All but the first are made from endpoints, which are usually bound to a link. The kernel does
  /// not list that link, so it is assumed to be the one that has the subflow's address.
  ///
  /// - Parameter descriptor: A socket for which ``SocketOptions/isMultipath`` holds.
  package static func list(of descriptor: CInt) -> [Subflow]? {
    guard let own = try? ConnectedSocket(descriptor: descriptor),
      let (names, states) = SubflowData.read(of: descriptor)
    else { return nil }
    return zip(names, states).compactMap { names, state in
      guard state == SubflowData.established, let local = names.own, let remote = names.peer else {
        return nil
      }
      let isFirst = local.address == own.local && local.port == own.localPort
      return Subflow(
        local.address, local.port, to: remote.address, remote.port,
        on: linkName(of: local.address), isBound: !isFirst)
    }
  }
}

/// The answers of `MPTCP_SUBFLOW_ADDRS` and `MPTCP_TCPINFO` (linux/mptcp.h):
/// `struct mptcp_subflow_data`, followed by an element for each subflow, in the same order.
private enum SubflowData {
  static let established: UInt8 = 1  // TCP_ESTABLISHED

  private static let level: CInt = 284  // SOL_MPTCP
  private static let information: CInt = 2  // MPTCP_TCPINFO
  private static let addresses: CInt = 3  // MPTCP_SUBFLOW_ADDRS
  private static let headerSize = 16
  private static let maxSubflows = 16
  private static let nameSize = 128  // struct sockaddr_storage

  /// The socket names of both ends of a subflow.
  struct Names: Equatable {
    var own: SocketName?
    var peer: SocketName?
  }

  /// Returns the names and states of all subflows. Reads again if a subflow was made or closed in
  /// between, because the lists would not match.
  static func read(of descriptor: CInt) -> (names: [Names], states: [UInt8])? {
    guard var names = self.names(of: descriptor) else { return nil }
    while let states = self.states(of: descriptor), let after = self.names(of: descriptor) {
      if names == after { return (names, states) }
      names = after
    }
    return nil
  }

  private static func names(of descriptor: CInt) -> [Names]? {
    self.read(self.addresses, of: descriptor, size: 2 * self.nameSize) { element in
      let peer = UnsafeRawBufferPointer(rebasing: element[self.nameSize...])
      return Names(own: SocketName(element)?.unmapped, peer: SocketName(peer)?.unmapped)
    }
  }

  /// The state of each subflow, as in `struct tcp_info`.
  private static func states(of descriptor: CInt) -> [UInt8]? {
    self.read(self.information, of: descriptor, size: 8) { $0[0] }
  }

  private static func read<Element>(
    _ option: CInt, of descriptor: CInt, size: Int,
    _ element: (UnsafeRawBufferPointer) -> Element
  ) -> [Element]? {
    var bytes = [UInt8](repeating: 0, count: self.headerSize + self.maxSubflows * size)
    var length = socklen_t(bytes.count)
    return bytes.withUnsafeMutableBytes { bytes in
      bytes.storeBytes(of: UInt32(self.headerSize), as: UInt32.self)
      bytes.storeBytes(of: UInt32(size), toByteOffset: 12, as: UInt32.self)
      guard getsockopt(descriptor, self.level, option, bytes.baseAddress, &length) == 0 else {
        return nil
      }
      let number = Int(bytes.load(fromByteOffset: 4, as: UInt32.self))
      return (0..<min(number, self.maxSubflows)).map { index in
        let start = self.headerSize + index * size
        return element(UnsafeRawBufferPointer(rebasing: bytes[start..<start + size]))
      }
    }
  }
}

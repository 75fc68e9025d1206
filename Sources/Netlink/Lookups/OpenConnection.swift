import CLinux
package import Connectivity
import Glibc

/// A TCP connection of this machine that is established or being made.
package struct OpenConnection: Hashable, Sendable {
  /// The remote end, with the connection's user, ports, and the link it is bound to. The
  /// connection's own address is `source`.
  package var destination: Destination
  /// The inode number of the connection's socket, or 0 if no process has it open.
  package var inode: UInt64
  package var report: SocketReport
  package var state = TCPState.established
  /// The kernel's number of the socket, which it never uses again (`SO_COOKIE`).
  package var cookie: UInt64 = 0
  /// The id of the control group (cgroups(7), version 2) in which the socket was made, or `nil` if
  /// the kernel does not report it.
  package var controlGroup: UInt64?
  /// Whether it is a subflow of Multipath TCP, or was one before the connection fell back to TCP.
  /// All subflows of a connection have the same `inode`. Kernels before 6.15 report this only with
  /// CAP_NET_ADMIN.
  package var isSubflow = false
  /// The kernel's number of the Multipath TCP connection, which all its subflows have. It is `nil`
  /// without CAP_NET_ADMIN, and if the connection fell back to TCP before it had a number.
  package var token: UInt32?
}

/// The states of a TCP socket that connd reads, by their numbers in net/tcp_states.h.
package enum TCPState: UInt8, Hashable, Sendable {
  case established = 1
  /// connect(2) waits for the peer.
  case synSent = 2
  case finWait1 = 4
  case finWait2 = 5
  /// The peer has ended the connection, and this machine has not.
  case closeWait = 8
  case listen = 10
}

extension OpenConnection {
  /// Reads an `inet_diag_msg` with its `tcp_info`, or returns `nil` for a socket to omit.
  init?(message: Message, _ selection: SocketDump.Selection) {
    let bytes = message.payload
    guard
      let family = bytes.load(UInt8.self, at: 0),
      let localPort = bytes.load(UInt16.self, at: Offset.localPort),
      let remotePort = bytes.load(UInt16.self, at: Offset.remotePort),
      let local = bytes.address(at: Offset.local, family),
      let remote = bytes.address(at: Offset.remote, family),
      let link = bytes.load(UInt32.self, at: Offset.link),
      let user = bytes.load(UInt32.self, at: Offset.user),
      let inode = bytes.load(UInt32.self, at: Offset.inode),
      !local.isLoopback, !remote.isLoopback, local.family == remote.family,
      let report = SocketReport(message: message),
      let state = bytes.load(UInt8.self, at: Offset.state).flatMap(TCPState.init)
    else { return nil }
    self.destination = Destination(
      remote, uid: user, mark: Self.mark(bytes), source: local, outLink: link == 0 ? nil : link,
      transport: Transport(
        Transport.tcp, localPort: UInt16(bigEndian: localPort),
        remotePort: UInt16(bigEndian: remotePort)))
    self.inode = UInt64(inode)
    (self.report, self.state) = (report, state)
    // Two 32-bit numbers, so the value has no alignment of eight octets.
    let cookie = [0, 4].compactMap { bytes.load(UInt32.self, at: Offset.cookie + $0) }
    self.cookie = cookie.reversed().reduce(0) { $0 << 32 | UInt64($1) }
    self.controlGroup = Self.attribute(INET_DIAG_CGROUP_ID, of: bytes, as: UInt64.self)
    (self.isSubflow, self.token) = Self.multipath(bytes)
    switch selection {
    case .open: if inode == 0 { return nil }
    case .subflows: if !self.isSubflow || inode == 0 && Self.hasSentAll(bytes) { return nil }
    }
  }

  /// Whether this machine has ended the connection, and the peer has acknowledged all data. The
  /// kernel keeps such a subflow for minutes if its link is lost, because the FIN is
  /// unacknowledged, even after the connection ended over another link.
  private static func hasSentAll(_ bytes: Bytes) -> Bool {
    guard let state = bytes.load(UInt8.self, at: Offset.state),
      let queued = bytes.load(UInt32.self, at: Offset.queued)
    else { return false }
    // TCP_FIN_WAIT1 and TCP_FIN_WAIT2. A FIN counts as one byte.
    return [4, 5].contains(state) && queued <= 1
  }

  /// Returns the mark, or 0 without CAP_NET_ADMIN, because the kernel does not report it then.
  private static func mark(_ bytes: Bytes) -> UInt32 {
    Self.attribute(INET_DIAG_MARK, of: bytes, as: UInt32.self) ?? 0
  }

  private static func attribute<Value: FixedWidthInteger & BitwiseCopyable>(
    _ type: Int, of bytes: Bytes, as _: Value.Type
  ) -> Value? {
    var attributes = AttributeReader(bytes, after: MemoryLayout<inet_diag_msg>.size)
    while let attribute = attributes.next() {
      if attribute.type == type { return attribute.payload.load(Value.self, at: 0) }
    }
    return nil
  }

  /// Whether a socket is a subflow, and the token of its connection.
  private static func multipath(_ bytes: Bytes) -> (isSubflow: Bool, token: UInt32?) {
    var attributes = AttributeReader(bytes, after: MemoryLayout<inet_diag_msg>.size)
    guard var protocols = attributes.nested(in: Int(INET_DIAG_ULP_INFO)) else {
      return (false, nil)
    }
    var isSubflow = false
    var token: UInt32?
    while let attribute = protocols.next() {
      switch attribute.type {
      case Int(INET_ULP_INFO_NAME): isSubflow = attribute.payload.string == "mptcp"
      case Int(INET_ULP_INFO_MPTCP): token = Self.token(AttributeReader(attribute.payload))
      default: break
      }
    }
    return (isSubflow, token)
  }

  private static func token(_ attributes: AttributeReader) -> UInt32? {
    var attributes = attributes
    while let attribute = attributes.next() {
      guard attribute.type == Self.localToken else { continue }
      let token = attribute.payload.load(UInt32.self, at: 0)
      return token == 0 ? nil : token
    }
    return nil
  }

  /// `MPTCP_SUBFLOW_ATTR_TOKEN_LOC` (linux/mptcp.h).
  private static let localToken = 2

  /// Offsets in `struct inet_diag_msg`: four octets, an `inet_diag_sockid`, and five numbers.
  private enum Offset {
    static let state = 1
    static let localPort = 4
    static let remotePort = 6
    static let local = 8
    static let remote = 24
    static let link = 40
    static let cookie = 44
    static let queued = 60
    static let user = 64
    static let inode = 68
  }
}

extension Bytes {
  /// Returns the address in 16 octets. Converts an IPv4-mapped address to IPv4.
  func address(at offset: Int, _ family: UInt8) -> IPAddress? {
    let length = CInt(family) == AF_INET ? 4 : 16
    var octets: [UInt8] = []
    for place in 0..<length {
      guard let octet = self.load(UInt8.self, at: offset + place) else { return nil }
      octets.append(octet)
    }
    return IPAddress(bytes: octets)?.unmapped
  }
}

import CLinux
package import Connectivity
import Glibc

/// An established TCP connection of this machine.
package struct OpenConnection: Hashable, Sendable {
  /// The remote end, with the connection's user, ports, and the link it is bound to. The
  /// connection's own address is `source`.
  package var destination: Destination
  /// The inode number of the connection's socket, or 0 if no process has it open.
  package var inode: UInt64
  package var report: SocketReport
  /// Whether it is a subflow of Multipath TCP, or was one before the connection fell back to TCP.
  /// All subflows of a connection have the same `inode`. Kernels before 6.15 report this only with
  /// CAP_NET_ADMIN.
  package var isSubflow = false
  /// The kernel's number of the Multipath TCP connection, which all its subflows have. It is `nil`
  /// without CAP_NET_ADMIN, and if the connection fell back to TCP before it had a number.
  package var token: UInt32?
}

/// All established TCP connections, read from the kernel in parts (sock_diag(7)).
///
/// Any user may read the connections of all users. Omits connections of loopback addresses.
///
/// Not thread-safe: one thread owns it.
package final class SocketDump {
  /// The connections that a dump returns.
  package enum Selection {
    /// Connections that a process has open.
    case open
    /// Subflows of Multipath TCP, including connections that no process has open: they wait for
    /// accept(2), or they are closed and the kernel still sends their data.
    case subflows
  }

  private let requester: Requester
  private let selection: Selection
  private var families = AddressFamily.allCases
  private var exchange: Exchange?

  /// Opens a socket for the dump.
  package convenience init(_ selection: Selection = .open) throws(NetlinkError) {
    try self.init(selection, on: NetlinkSocket(NETLINK_SOCK_DIAG, nonBlocking: false))
  }

  /// - Parameter socket: A netlink socket of the protocol `NETLINK_SOCK_DIAG` for this dump alone.
  package init(
    _ selection: Selection = .open, on socket: any DatagramSocket
  ) throws(NetlinkError) {
    self.requester = try Requester(on: socket)
    self.selection = selection
  }

  /// Reads the connections of one datagram: about 80.
  ///
  /// - Returns: The next connections, or `nil` after the last ones.
  package func next() throws(NetlinkError) -> [OpenConnection]? {
    guard let family = self.families.first else { return nil }
    var request = Request(socketsOf: family)
    var exchange: Exchange
    if let begun = self.exchange {
      exchange = begun
    } else {
      exchange = try self.requester.begin(&request)
    }
    var connections: [OpenConnection] = []
    let outcome = self.requester.readPart(of: &exchange, request.operation) { message in
      if let connection = OpenConnection(message: message, self.selection) {
        connections.append(connection)
      }
    }
    self.exchange = exchange
    switch outcome {
    case nil: break
    case .complete:
      self.families.removeFirst()
      self.exchange = nil
    case .failed(let error):
      // A kernel without IPv6 has no such sockets.
      guard family == .ipv6, error.isUnsupported || error.code == ENOENT else { throw error }
      self.families.removeFirst()
      self.exchange = nil
    }
    return connections
  }
}

extension Request {
  /// Asks for the sockets in states that still allow data.
  fileprivate init(socketsOf family: AddressFamily) {
    var header = inet_diag_req_v2()
    header.sdiag_family = family.netlinkNumber
    header.sdiag_protocol = UInt8(IPPROTO_TCP)
    header.idiag_ext = UInt8(1 << (INET_DIAG_INFO - 1))
    // TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2 and TCP_CLOSE_WAIT of net/tcp_states.h.
    header.idiag_states = [1, 4, 5, 8].reduce(0) { $0 | 1 << $1 }
    self.init(
      Int(SOCK_DIAG_BY_FAMILY), "SOCK_DIAG_BY_FAMILY", isDump: true, header: header)
  }
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
      let report = SocketReport(message: message)
    else { return nil }
    self.destination = Destination(
      remote, uid: user, mark: Self.mark(bytes), source: local, outLink: link == 0 ? nil : link,
      transport: Transport(
        Transport.tcp, localPort: UInt16(bigEndian: localPort),
        remotePort: UInt16(bigEndian: remotePort)))
    self.inode = UInt64(inode)
    self.report = report
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
    var attributes = AttributeReader(bytes, after: MemoryLayout<inet_diag_msg>.size)
    while let attribute = attributes.next() {
      if attribute.type == INET_DIAG_MARK { return attribute.payload.load(UInt32.self, at: 0) ?? 0 }
    }
    return 0
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

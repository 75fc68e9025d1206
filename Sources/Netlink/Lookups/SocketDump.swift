import CLinux
import Connectivity
import Glibc

/// All TCP connections that are established or being made, read from the kernel in parts
/// (sock_diag(7)).
///
/// Any user may read the connections of all users. Omits connections of loopback addresses.
///
/// Not thread-safe: one thread owns it.
package final class SocketDump {
  /// The connections that a dump returns.
  package enum Selection {
    /// Connections that a process has open, or makes.
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
    var request = Request(socketsOf: family, in: self.selection.states)
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

extension SocketDump.Selection {
  fileprivate var states: [TCPState] {
    let established: [TCPState] = [.established, .finWait1, .finWait2, .closeWait]
    return switch self {
    case .open: established + [.synSent]
    case .subflows: established
    }
  }
}

extension Request {
  /// Asks for the TCP sockets in these states.
  init(socketsOf family: AddressFamily, in states: [TCPState]) {
    var header = inet_diag_req_v2()
    header.sdiag_family = family.netlinkNumber
    header.sdiag_protocol = UInt8(IPPROTO_TCP)
    header.idiag_ext = UInt8(1 << (INET_DIAG_INFO - 1))
    header.idiag_states = states.reduce(0) { $0 | 1 << UInt32($1.rawValue) }
    self.init(
      Int(SOCK_DIAG_BY_FAMILY), "SOCK_DIAG_BY_FAMILY", isDump: true, header: header)
  }
}

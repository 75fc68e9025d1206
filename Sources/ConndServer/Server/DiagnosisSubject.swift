import Connectivity
import ConnectivityProtocol
import GRPCCore
import Glibc

/// The sockets that a diagnosis is about.
struct DiagnosisSubject: Hashable, Sendable {
  static let maxHosts = 64
  static let maxSockets = 1024

  /// The calling user, or `nil` for the sockets of all users.
  var user: UInt32?
  /// Empty for any host.
  var hosts: Set<IPAddress> = []
  /// 0 for any port.
  var port: UInt16 = 0
  /// The inode numbers of sockets, or empty for any socket.
  var sockets: Set<UInt64> = []

  var isFiltered: Bool { !self.hosts.isEmpty || self.port != 0 || !self.sockets.isEmpty }

  func contains(_ sample: SocketSample) -> Bool {
    (self.user == nil || self.user == sample.user)
      && (self.hosts.isEmpty || self.hosts.contains(sample.host))
      && (self.port == 0 || self.port == sample.port)
      && (self.sockets.isEmpty || self.sockets.contains(sample.inode))
  }
}

extension DiagnosisSubject {
  /// - Throws: INVALID_ARGUMENT for an invalid field.
  init(
    _ request: Connectivity_V1_DiagnoseRequest, _ user: UInt32, ownUser: UInt32 = geteuid()
  ) throws(RPCError) {
    self.user = user == 0 || user == ownUser ? nil : user
    guard request.hosts.count <= Self.maxHosts else {
      throw RPCError(code: .invalidArgument, message: "hosts: more than \(Self.maxHosts)")
    }
    guard request.socketInodes.count <= Self.maxSockets else {
      throw RPCError(
        code: .invalidArgument, message: "socket_inodes: more than \(Self.maxSockets)")
    }
    guard let port = UInt16(exactly: request.port) else {
      throw RPCError(code: .invalidArgument, message: "port: not a port")
    }
    (self.port, self.sockets) = (port, Set(request.socketInodes))
    for host in request.hosts {
      do throws(HostAddressError) {
        self.hosts.insert(try IPAddress(ofHost: host, field: "hosts"))
      } catch {
        throw RPCError(code: .invalidArgument, message: error.message)
      }
    }
  }
}

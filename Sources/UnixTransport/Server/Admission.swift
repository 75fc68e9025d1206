import CLinux
package import GRPCCore
package import LinuxSupport

/// The credentials of the process that opened a connection, as recorded by the kernel at that time
/// (SO_PEERCRED, unix(7)).
package struct PeerCredentials: ServerContext.TransportSpecific {
  package var uid: UInt32
  /// The account that limits and turns apply to.
  package var account: Account
  package var user: AccountUser { AccountUser(self.uid, of: self.account) }
  /// Another process may have this pid by now: see `process`.
  package var pid: Int32
  /// The user's groups at the time of the connection.
  package var groups: [UInt32]
  package var process: PeerProcess?

  package init(uid: UInt32, pid: Int32, groups: [UInt32] = [], process: PeerProcess? = nil) {
    self.uid = uid
    self.account = Account(ofUID: uid)
    self.pid = pid
    self.groups = groups
    self.process = process
  }

  init(of socket: CInt) throws(SystemError) {
    var credentials = clinux_credentials()
    guard clinux_peer_credentials(socket, &credentials) == 0 else { throw SystemError() }
    self.init(
      uid: credentials.uid, pid: credentials.pid,
      groups: [credentials.gid] + Self.supplementaryGroups(socket),
      process: PeerProcess(of: socket, pid: credentials.pid))
  }

  /// Returns the groups, or none if there are more than fit here. Linux allows 65,536
  /// (NGROUPS_MAX), which no user has.
  private static func supplementaryGroups(_ socket: CInt) -> [UInt32] {
    withUnsafeTemporaryAllocation(of: gid_t.self, capacity: 256) { buffer in
      var size = socklen_t(buffer.count * MemoryLayout<gid_t>.stride)
      guard getsockopt(socket, SOL_SOCKET, peerGroups, buffer.baseAddress, &size) == 0 else {
        return []
      }
      return Array(buffer.prefix(Int(size) / MemoryLayout<gid_t>.stride))
    }
  }
}

/// SO_PEERGROUPS (include/uapi/asm-generic/socket.h), since Linux 4.13.
private let peerGroups: CInt = 59

extension ServerContext {
  /// The caller's credentials, or `nil` if the transport is not ``UnixServerTransport``.
  package var peer: PeerCredentials? { self.transportSpecific as? PeerCredentials }
}

/// Decides what to admit, and learns of rejected clients. The functions about resources may be
/// called on any thread, the others on the reactor's.
package protocol Admission: Sendable {
  /// Returns the account of a user.
  func account(ofUID uid: UInt32) -> Account

  /// Admits the use of an amount of a resource. Only ``Charge`` calls this, and releases the
  /// amount.
  func admit(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials) throws(Refusal)
  func release(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials)

  /// Called when a connection is being closed because of the client's input.
  ///
  /// - Parameter error: The HTTP/2 error that the client receives (RFC 9113, 7).
  func connectionFailed(of peer: PeerCredentials, _ error: UInt32)

  /// Called when a client's message is longer than the transport accepts.
  ///
  /// - Returns: The reason for the client.
  func refuseMessage(of peer: PeerCredentials, maxLength: Int) -> Refusal
  /// Called when accept(2) failed, because descriptors or memory have run out. Clients wait until
  /// accept(2) succeeds.
  func acceptFailed(_ error: SystemError)
  /// Called when a connection was accepted.
  func accepted()
}

/// The reason for a rejection.
package struct Refusal: Error, Hashable {
  /// The text for the client.
  package var message: String

  package init(_ message: String) {
    self.message = message
  }
}

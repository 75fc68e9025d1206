import CLinux
package import GRPCCore

/// Who is at the other end of a connection, by the kernel's word (SO_PEERCRED, unix(7)).
package struct PeerCredentials: ServerContext.TransportSpecific, Hashable {
  package var uid: UInt32
  /// What limits and turns count it by.
  package var account: Account
  package var pid: Int32
  /// The groups that the user was in when it connected.
  package var groups: [UInt32]

  package init(uid: UInt32, pid: Int32, groups: [UInt32] = []) {
    self.uid = uid
    self.account = Account(ofUID: uid)
    self.pid = pid
    self.groups = groups
  }

  init(of socket: CInt) throws(SystemError) {
    var credentials = clinux_credentials()
    guard clinux_peer_credentials(socket, &credentials) == 0 else { throw SystemError() }
    self.init(
      uid: credentials.uid, pid: credentials.pid,
      groups: [credentials.gid] + Self.supplementaryGroups(socket))
  }

  /// As many as Linux allows (NGROUPS_MAX) are more than anybody is in: of so many nothing is known.
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
  /// Who makes the call; `nil` where the transport is not ``UnixServerTransport``.
  package var peer: PeerCredentials? { self.transportSpecific as? PeerCredentials }
}

/// Decides who may come in, and hears of those who may not. Called on the reactor's thread.
package protocol Admission: Sendable {
  /// The account of a user.
  func account(ofUID uid: UInt32) -> Account

  /// Admits one more connection, until it is released.
  func admitConnection(of peer: PeerCredentials) throws(Refusal)
  func releaseConnection(of peer: PeerCredentials)

  /// A connection is closed because of what the client has sent.
  ///
  /// - Parameter error: what the client is told, of HTTP/2 (RFC 9113, 7).
  func connectionFailed(of peer: PeerCredentials, _ error: UInt32)

  /// Admits one more stream, until it is released.
  func admitStream(of peer: PeerCredentials) throws(Refusal)
  func releaseStream(of peer: PeerCredentials)

  /// Admits bytes that wait for a client or for connd, until they are released.
  func admitMemory(_ bytes: Int, of peer: PeerCredentials) throws(Refusal)
  func releaseMemory(_ bytes: Int, of peer: PeerCredentials)

  /// A client's message is longer than the transport takes.
  ///
  /// - Returns: what it is told.
  func refuseMessage(of peer: PeerCredentials, longest: Int) -> Refusal
  /// The kernel gives no connection: descriptors or memory have run out. Clients wait until it does.
  func acceptFailed(_ error: SystemError)
  /// A connection was accepted.
  func accepted()
}

/// Why somebody is turned away.
package struct Refusal: Error, Hashable {
  /// For the client.
  package var message: String

  package init(_ message: String) {
    self.message = message
  }
}

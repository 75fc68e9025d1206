import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc
import LinuxSupport

/// A TCP connection of a program that knows nothing of connd, as connd lists it.
struct ReapableConnection: Hashable, Sendable {
  var flow: FlowGuard.Flow
  /// The kernel's number of the socket, which it never uses again.
  var cookie: UInt64
  /// The number of the socket in /proc/PID/fd.
  var inode: UInt64
  var user: UInt32
  /// The id of the control group in which the socket was made.
  var controlGroup: UInt64?
  var isConnecting = false
  var isSubflow = false
  /// Whether this machine accepts connections on its port.
  var isAccepted = false
  /// The link with its own address, or `nil` if the machine does not have the address.
  var link: KernelPath.Link?
  /// The path before the loss that the list reports, or else the path in the list. If it is lost
  /// before connd guards the connection, connd finds the difference.
  var madeOn: KernelPath?
  /// How long the peer has been silent, or `nil` if the connection has just ended.
  var silence: Duration?
  /// Why it is not viable according to the list.
  var reason: Invalidation.Reason?
}

extension ReapableConnection {
  /// Reads an entry of connd's list, or returns `nil` for a connection that is never ended, because
  /// both of its ends have the same address (R5).
  ///
  /// - Parameter isOfRoot: Whether root has asked for the list.
  init?(_ connection: Connectivity_V1_Connection, isOfRoot: Bool = geteuid() == 0) {
    guard connection.socketCookie != 0, connection.local != connection.remote,
      let local = IPAddress(connection.local), let remote = IPAddress(connection.remote),
      !local.isLoopback, !remote.isLoopback
    else { return nil }
    var flow = FlowGuard.Flow(
      remote: remote, local: local,
      transport: Transport(
        Transport.tcp, localPort: UInt16(clamping: connection.localPort),
        remotePort: UInt16(clamping: connection.remotePort)))
    // Only root gets the connections of other users, and may have connd judge them for their users.
    if isOfRoot { flow.user = connection.user }
    flow.isNew = false
    self.flow = flow
    self.cookie = connection.socketCookie
    self.inode = connection.socketInode
    self.user = connection.user
    self.controlGroup = connection.hasControlGroup ? connection.controlGroup : nil
    self.isConnecting = connection.tcpState == .synSent
    self.isSubflow = connection.subflow
    self.isAccepted = connection.accepted
    if connection.hasInterface, let index = linkIndex(connection.interface) {
      self.link = KernelPath.Link(index: index, name: connection.interface)
    }
    if connection.hasSocket {
      self.silence = .zero - SocketTestimony(connection.socket).lastHeard
    }
    self.reason = connection.hasReason ? Invalidation.Reason(connection.reason) : nil
    let listed = try? KernelPath(connection.path)
    if self.reason?.isLoss == true {
      self.madeOn = self.link.map {
        KernelPath(status: .satisfied, chain: [$0], source: local)
      }
    } else if let listed, listed.status == .satisfied {
      self.madeOn = listed
    }
  }

  var localPort: UInt16 { self.flow.transport?.localPort ?? 0 }
  var remotePort: UInt16 { self.flow.transport?.remotePort ?? 0 }

  /// The text `203.0.113.9:443`.
  var peer: String {
    self.flow.remote.family == .ipv6
      ? "[\(self.flow.remote)]:\(self.remotePort)" : "\(self.flow.remote):\(self.remotePort)"
  }
}

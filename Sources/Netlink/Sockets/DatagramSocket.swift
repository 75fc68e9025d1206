import CLinux
import Glibc

/// The netlink socket of listeners and requesters. It is the boundary to the kernel, at which the
/// traffic can be recorded and a recording replayed.
///
/// If a function returns `false`, errno has the reason. Not thread-safe: one thread owns it.
package protocol DatagramSocket: AnyObject {
  /// The descriptor to poll for reading, or -1 if there is nothing to poll.
  var fileDescriptor: CInt { get }

  /// The port, or 0 before the socket is bound.
  var port: UInt32 { get }

  /// Binds to a port that the kernel chooses.
  func bind() throws(NetlinkError)

  /// Sets an option of level SOL_NETLINK.
  func set(_ option: CInt, _ value: CInt) -> Bool

  /// Sets an option of level SOL_SOCKET.
  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool

  /// Sends one datagram.
  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError)

  /// Reads one datagram.
  ///
  /// - Parameter flags: The flags of recvmsg(2).
  func receive(flags: CInt) -> Reception

  /// Waits for small datagrams from the kernel, such as answers about single routes, and reads all
  /// that have arrived.
  ///
  /// - Parameter take: Parses the bytes, and returns whether that succeeded.
  /// - Returns: Whether all datagrams arrived in time, fitted, and could be parsed, and none was
  ///   lost.
  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool
}

extension DatagramSocket {
  func set(_ option: CInt) -> Bool { self.set(option, 1) }

  func receive() -> Reception { self.receive(flags: 0) }
}

/// The result of reading a datagram.
package enum Reception {
  /// A datagram from the kernel. The bytes are valid until the next call.
  case datagram(UnsafeRawBufferPointer)
  /// A datagram did not fit and is lost. The buffer has grown so that such a datagram fits next
  /// time.
  case truncated(size: Int)
  /// A datagram that another process sent.
  case foreign
  /// No datagram is waiting, or none arrived in time (EAGAIN).
  case nothing
  /// The kernel dropped messages for lack of buffer space (ENOBUFS).
  case overrun
  case failed(errno: CInt)
}

/// The purpose of a netlink socket.
package enum SocketRole: UInt8, Hashable, Sendable, CaseIterable {
  /// Receives changes of links, addresses, routes, rules and neighbours.
  case listener = 1
  /// Queries the same objects.
  case requester
  /// Receives changes of Wi-Fi links.
  case wirelessListener
  /// Queries Wi-Fi links.
  case wirelessRequester
  /// Queries TCP sockets.
  case socketDiagnosis
  /// Lists all links for a client.
  case linkDump
}

/// Opens netlink sockets.
package protocol SocketSource {
  /// - Throws: An error if netlink is unavailable.
  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket

  /// Returns whether a descriptor of one of these sockets is readable.
  func isReadable(_ fileDescriptor: CInt) -> Bool
}

/// Opens real netlink sockets. A recording or a replay has other sources.
package struct KernelSockets: SocketSource {
  private let adopted: CInt?

  /// - Parameter adopted: A NETLINK_ROUTE socket for the first listener, such as systemd passes for
  ///   `ListenNetlink=route`. The listener owns it, and closes it if it is unusable.
  package init(adopting adopted: CInt? = nil) { self.adopted = adopted }

  package func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    switch role {
    case .listener:
      if let adopted { return try NetlinkSocket(adopting: adopted) }
      return try NetlinkSocket(nonBlocking: true)
    case .requester, .linkDump: return try NetlinkSocket(nonBlocking: false)
    case .wirelessListener: return try NetlinkSocket(NETLINK_GENERIC, nonBlocking: true)
    case .wirelessRequester: return try NetlinkSocket(NETLINK_GENERIC, nonBlocking: false)
    case .socketDiagnosis: return try NetlinkSocket(NETLINK_SOCK_DIAG, nonBlocking: false)
    }
  }

  package func isReadable(_ fileDescriptor: CInt) -> Bool {
    var descriptor = pollfd(fd: fileDescriptor, events: Int16(POLLIN), revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }
}

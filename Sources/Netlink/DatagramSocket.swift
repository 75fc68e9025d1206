import CLinux
import Glibc

/// What the listeners and the requesters need of a netlink socket: the edge to the kernel, on which what goes over it can be
/// recorded, and a recording be replayed.
///
/// Where a function says `false`, errno says why. Not thread-safe: one thread owns it.
package protocol DatagramSocket: AnyObject {
  /// What to poll for reading; -1 where there is nothing to be polled.
  var fileDescriptor: CInt { get }

  /// The port, 0 before the socket is bound.
  var port: UInt32 { get }

  /// Binds to a port of the kernel's choice.
  func bind() throws(NetlinkError)

  /// Sets an option of level SOL_NETLINK.
  func set(_ option: CInt, _ value: CInt) -> Bool

  /// Sets an option of level SOL_SOCKET.
  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool

  /// Sends one datagram.
  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError)

  /// Reads one datagram.
  ///
  /// - Parameter flags: those of recvmsg(2).
  func receive(flags: CInt) -> Reception

  /// Waits for datagrams of the kernel's that are small, as answers about single routes are, and reads those that are there.
  ///
  /// - Parameter take: returns whether it can make sense of the bytes.
  /// - Returns: whether all is well: nothing came too late, was too large, was lost, or makes no sense.
  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool
}

extension DatagramSocket {
  func set(_ option: CInt) -> Bool { self.set(option, 1) }

  func receive() -> Reception { self.receive(flags: 0) }
}

/// What came of reading a datagram.
package enum Reception {
  /// A datagram of the kernel's. The bytes are valid until the next call.
  case datagram(UnsafeRawBufferPointer)
  /// A datagram did not fit. It is lost; the buffer has grown so that its like will fit.
  case truncated(size: Int)
  /// Another process sent it.
  case foreign
  /// Nothing waits, or did not come in time (EAGAIN).
  case nothing
  /// The kernel dropped messages for want of space (ENOBUFS).
  case overrun
  case failed(errno: CInt)
}

/// What a netlink socket is for.
package enum SocketRole: UInt8, Hashable, Sendable, CaseIterable {
  /// Hears what happens to links, addresses, routes, rules and neighbours.
  case listener = 1
  /// Asks for them.
  case requester
  /// Hears what happens to Wi-Fi.
  case wirelessListener
  /// Asks about Wi-Fi.
  case wirelessRequester
  /// Asks about TCP sockets.
  case socketDiagnosis
}

/// Where netlink sockets come from.
package protocol SocketSource {
  /// - Throws: where there is no netlink.
  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket

  /// Whether a descriptor is readable, which stands for some of these sockets.
  func isReadable(_ fileDescriptor: CInt) -> Bool
}

/// The kernel's.
package struct KernelSockets: SocketSource {
  private let adopted: CInt?

  /// - Parameter adopted: A NETLINK_ROUTE socket, such as systemd's `ListenNetlink=route` passes, to be the first listener. It
  ///   belongs to that one, and is closed where it is of no use.
  package init(adopting adopted: CInt? = nil) { self.adopted = adopted }

  package func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    switch role {
    case .listener:
      if let adopted { return try NetlinkSocket(adopting: adopted) }
      return try NetlinkSocket(nonBlocking: true)
    case .requester: return try NetlinkSocket(nonBlocking: false)
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

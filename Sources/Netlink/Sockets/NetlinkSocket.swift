import CLinux
import CMnl
import Glibc

/// A netlink socket and its read buffer.
///
/// libmnl opens, binds and closes the socket. Reading is done here, because `mnl_socket_recvfrom`
/// hides the sender, and any process may send to a netlink port. That function also reports a
/// truncated message as an error, so that the message is lost.
///
/// Not thread-safe: one thread owns it.
///
/// Implements rule D8.
final class NetlinkSocket: DatagramSocket {
  private let handle: OpaquePointer
  private var buffer: UnsafeMutableRawBufferPointer
  let fileDescriptor: CInt

  /// The kernel packs dumps into datagrams of at most 32 KiB. Notifications are much smaller.
  private static let initialCapacity = 64 << 10

  /// Opens a socket. It is not bound before `bind()`, so that a filter can be attached first.
  ///
  /// - Parameter protocol: `NETLINK_ROUTE` or `NETLINK_GENERIC`.
  init(_ protocol: CInt = NETLINK_ROUTE, nonBlocking: Bool) throws(NetlinkError) {
    let flags = CInt(SOCK_CLOEXEC.rawValue) | (nonBlocking ? CInt(SOCK_NONBLOCK.rawValue) : 0)
    guard let handle = mnl_socket_open2(`protocol`, flags) else {
      throw .last("open a netlink socket")
    }
    self.handle = handle
    self.fileDescriptor = mnl_socket_get_fd(handle)
    self.buffer = .allocate(byteCount: Self.initialCapacity, alignment: 8)
  }

  /// Adopts a socket that another process opened. The socket is closed with this object, or if this
  /// throws.
  init(adopting fileDescriptor: CInt) throws(NetlinkError) {
    guard
      Self.option(SO_DOMAIN, of: fileDescriptor) == AF_NETLINK,
      Self.option(SO_PROTOCOL, of: fileDescriptor) == NETLINK_ROUTE
    else {
      close(fileDescriptor)
      throw NetlinkError(
        operation: "adopt file descriptor \(fileDescriptor)", code: ENOTSOCK,
        message: "not a NETLINK_ROUTE socket")
    }
    guard
      fcntl(fileDescriptor, F_SETFD, FD_CLOEXEC) == 0,
      case let flags = fcntl(fileDescriptor, F_GETFL), flags >= 0,
      fcntl(fileDescriptor, F_SETFL, flags | O_NONBLOCK) == 0,
      let handle = mnl_socket_fdopen(fileDescriptor)
    else {
      let error = NetlinkError.last("adopt file descriptor \(fileDescriptor)")
      close(fileDescriptor)
      throw error
    }
    self.handle = handle
    self.fileDescriptor = fileDescriptor
    self.buffer = .allocate(byteCount: Self.initialCapacity, alignment: 8)
  }

  deinit {
    mnl_socket_close(self.handle)
    self.buffer.deallocate()
  }

  private static func option(_ name: CInt, of fileDescriptor: CInt) -> CInt? {
    var value: CInt = 0
    var size = socklen_t(MemoryLayout<CInt>.size)
    let result = getsockopt(fileDescriptor, SOL_SOCKET, name, &value, &size)
    return result == 0 ? value : nil
  }

  /// The port, or 0 before the socket is bound.
  var port: UInt32 { mnl_socket_get_portid(self.handle) }

  /// Binds to a port that the kernel chooses, because another socket of this process may use the
  /// process id.
  func bind() throws(NetlinkError) {
    guard mnl_socket_bind(self.handle, 0, pid_t(MNL_SOCKET_AUTOPID)) == 0 else {
      throw .last("bind a netlink socket")
    }
  }

  /// Sets an option of level SOL_NETLINK. Returns `false`, with errno, if the kernel refuses.
  func set(_ option: CInt, _ value: CInt) -> Bool {
    var value = value
    let size = socklen_t(MemoryLayout<CInt>.size)
    return mnl_socket_setsockopt(self.handle, option, &value, size) == 0
  }

  /// Sets an option of level SOL_SOCKET.
  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool {
    var value = value
    let size = socklen_t(MemoryLayout<Value>.size)
    return setsockopt(self.fileDescriptor, SOL_SOCKET, option, &value, size) == 0
  }

  /// Sends one datagram.
  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    while mnl_socket_sendto(self.handle, messages.baseAddress, messages.count) < 0 {
      guard errno == EINTR else { throw .last(operation) }
    }
  }

  /// Reads one datagram.
  func receive(flags: CInt) -> Reception {
    var sender = sockaddr_nl()
    var slice = iovec(iov_base: self.buffer.baseAddress, iov_len: self.buffer.count)
    var header = msghdr()
    let count = withUnsafeMutablePointer(to: &sender) { sender in
      withUnsafeMutablePointer(to: &slice) { slice in
        header.msg_name = UnsafeMutableRawPointer(sender)
        header.msg_namelen = socklen_t(MemoryLayout<sockaddr_nl>.size)
        header.msg_iov = slice
        header.msg_iovlen = 1
        // MSG_TRUNC returns the datagram's real size.
        while true {
          let count = recvmsg(self.fileDescriptor, &header, flags | CInt(MSG_TRUNC))
          if count >= 0 || errno != EINTR { return count }
        }
      }
    }
    guard count >= 0 else {
      switch errno {
      case EAGAIN: return .nothing
      case ENOBUFS: return .overrun
      case let code: return .failed(errno: code)
      }
    }
    guard
      Int(header.msg_namelen) == MemoryLayout<sockaddr_nl>.size, sender.nl_pid == 0
    else { return .foreign }
    guard count <= self.buffer.count else {
      self.buffer.deallocate()
      self.buffer = .allocate(byteCount: count, alignment: 8)
      return .truncated(size: count)
    }
    return .datagram(UnsafeRawBufferPointer(rebasing: self.buffer[..<count]))
  }

  /// The maximum number of small datagrams per read.
  static let maxSmallDatagrams = 32
  private static let smallDatagram = initialCapacity / maxSmallDatagrams

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    withUnsafeTemporaryAllocation(of: clinux_datagram.self, capacity: Self.maxSmallDatagrams) {
      datagrams in
      let part = Self.smallDatagram
      var count: CInt
      repeat {
        count = clinux_receive_datagrams(
          self.fileDescriptor, self.buffer.baseAddress, part, UInt32(Self.maxSmallDatagrams),
          datagrams.baseAddress)
      } while count < 0 && errno == EINTR
      guard count > 0 else { return false }
      var isWell = true
      for (place, datagram) in datagrams[..<Int(count)].enumerated() where datagram.sender == 0 {
        let bytes = self.buffer[(place * part)...].prefix(datagram.size)
        isWell = datagram.size <= part && take(UnsafeRawBufferPointer(rebasing: bytes)) && isWell
      }
      return isWell
    }
  }
}

import Glibc
import LinuxSupport

/// The Unix datagram socket for notifications to systemd, with a path or an abstract name.
///
/// The socket is not connected, so it still reaches a manager that has re-created its socket.
///
/// Thread-safety: any thread may send. The kernel keeps datagrams whole.
final class NotifySocket: Sendable {
  private let descriptor: Int32
  private let address: UnixAddress

  /// How long a notification that must arrive may wait for space in systemd's queue.
  private static let maxWait = timeval(tv_sec: 5, tv_usec: 0)

  /// - Parameter name: The value of `NOTIFY_SOCKET`: `/path`, or `@name` for an abstract name.
  /// - Throws: `EAFNOSUPPORT` for another kind of name, `ENAMETOOLONG`, or the error of creating
  ///   the socket.
  init(name: String) throws(SystemdError) {
    let operation = "NOTIFY_SOCKET=\(name)"
    var bytes = Array(name.utf8)
    guard bytes.count > 1, bytes[0] == UInt8(ascii: "/") || bytes[0] == UInt8(ascii: "@") else {
      throw SystemdError(operation, errno: EAFNOSUPPORT)
    }
    // An abstract name starts with a null byte and ends with the address.
    if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
    guard let address = UnixAddress(name: bytes) else {
      throw SystemdError(operation, errno: ENAMETOOLONG)
    }
    self.address = address
    self.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard self.descriptor >= 0 else { throw SystemdError(operation, errno: errno) }
    var maxWait = Self.maxWait
    _ = setsockopt(
      self.descriptor, SOL_SOCKET, SO_SNDTIMEO, &maxWait, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit {
    if self.descriptor >= 0 { close(self.descriptor) }
  }

  /// Sends one notification.
  ///
  /// - Parameter mayWait: Whether to wait for space in systemd's queue, for at most five seconds.
  ///   If not, a full queue throws `EAGAIN`.
  func send(_ message: String, mayWait: Bool) throws(SystemdError) {
    var message = message
    let flags = Int32(MSG_NOSIGNAL) | (mayWait ? 0 : Int32(MSG_DONTWAIT))
    let failure: Int32 = message.withUTF8 { bytes in
      self.address.with { address, length in
        while true {
          let sent = sendto(
            self.descriptor, bytes.baseAddress, bytes.count, flags, address, length)
          if sent >= 0 { return 0 }
          if errno != EINTR { return errno }
        }
      }
    }
    if failure != 0 { throw SystemdError("notify systemd", errno: failure) }
  }
}

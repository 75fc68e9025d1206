import CLinux
import ConnectivityMonitor
import Glibc
import LinuxSupport

/// A descriptor of connctl for the socket of another process (pidfd_getfd(2)).
///
/// It is closed with the last reference. It must be held only for a moment: while it is open, the
/// kernel sends no FIN if the program closes its own descriptor, and epoll(7) still reports events
/// of the socket.
final class HeldSocket: SocketOptions {
  private let descriptor: CInt

  /// Why a socket cannot be held.
  enum Obstacle: Error {
    /// The process or its descriptor is gone, or belongs to another socket by now.
    case gone
    /// The kernel does not let this user: `errno`.
    case forbidden(CInt)
  }

  /// - Parameter cookie: The kernel's number of the socket that is meant. A socket of Multipath TCP
  ///   has another one than its subflows, which the kernel lists, and so is not held (R5).
  init(_ owner: ProcessTree.Descriptor, cookie: UInt64) throws(Obstacle) {
    let process = clinux_process_descriptor(pid_t(owner.process))
    guard process >= 0 else { throw .gone }
    defer { close(process) }
    let descriptor = clinux_descriptor_of(process, owner.number)
    guard descriptor >= 0 else {
      throw errno == ESRCH || errno == EBADF ? .gone : .forbidden(errno)
    }
    self.descriptor = descriptor
    guard self.option(SOL_SOCKET, Option.cookie, UInt64(0)) == cookie else { throw .gone }
  }

  deinit { close(self.descriptor) }

  enum Ending: String, Sendable {
    /// Like a reset by the peer: a reader does not take a cut response for a complete one.
    case disconnected
    /// The kernel does not disconnect it: kernel TLS (EOPNOTSUPP), or a waiting thread on a kernel
    /// of 2023 (EBUSY).
    case shutDown = "shut down"
  }

  /// Ends the connection (R4).
  ///
  /// - Parameter link: The link of the connection.
  func end(link: UInt32?) -> Ending {
    self.end(self.descriptor, link: link) ? .disconnected : .shutDown
  }

  func option<Value: BitwiseCopyable & Sendable>(
    _ level: CInt, _ name: CInt, _ empty: Value
  ) -> Value? {
    var value = empty
    var length = socklen_t(MemoryLayout<Value>.size)
    return getsockopt(self.descriptor, level, name, &value, &length) == 0 ? value : nil
  }

  func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool {
    var value = value
    return setsockopt(
      self.descriptor, level, name, &value, socklen_t(MemoryLayout<CInt>.size)) == 0
  }

  /// Constants that the C library's module lacks (asm-generic/socket.h).
  private enum Option {
    static let cookie: CInt = 57  // SO_COOKIE
  }
}

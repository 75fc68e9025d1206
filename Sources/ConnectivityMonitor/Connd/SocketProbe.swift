private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Connects to connd's socket, and checks whether the listening user is trusted (``ServerOwner``).
///
/// gRPC distinguishes a missing socket from a forbidden one only in its error text, and after a
/// pause.
package enum SocketProbe {
  /// Connects to the socket. Does not block.
  ///
  /// The method is not named `connect`, because that name would hide the C function.
  ///
  /// - Returns: A non-blocking socket, which the caller closes, or `nil` if the listen backlog
  ///   (listen(2)) is full.
  /// - Throws: ``ConndError`` with the code `notAvailable`, `refused`, or `failed` for other
  ///   errors, such as a path that is too long, or no descriptors left.
  package static func connection(to path: String) throws(ConndError) -> CInt? {
    guard let address = UnixAddress(path: path) else {
      throw .failed("\(path) is too long for a Unix socket's path")
    }
    let descriptor = openSocket()
    guard descriptor >= 0 else { throw Self.error(errno, path) }
    let result = address.with { connect(descriptor, $0, $1) }
    let number = errno
    if result == 0 {
      do throws(ConndError) {
        try ServerOwner.check(descriptor, path)
        return descriptor
      } catch {
        close(descriptor)
        throw error
      }
    }
    close(descriptor)
    if number == EAGAIN { return nil }
    throw Self.error(number, path)
  }

  /// Whether no process listens on the socket.
  static func isSilent(_ path: String) -> Bool {
    do throws(ConndError) {
      if let descriptor = try self.connection(to: path) { close(descriptor) }
      return false
    } catch {
      return error.code == .notAvailable
    }
  }

  /// Closes a connection that is not needed.
  static func disconnect(_ descriptor: CInt) { close(descriptor) }

  static func error(_ number: CInt, _ path: String) -> ConndError {
    switch number {
    case ENOENT, ENOTDIR: .notAvailable("there is no \(path)")
    case ECONNREFUSED: .notAvailable("no process listens on \(path)")
    case EACCES, EPERM:
      .refused(
        "\(path): \(SystemError(number)) (join the group of the socket, or of its directory, or ask as root)"
      )
    default: .failed("\(path): \(SystemError(number))")
    }
  }
}

/// Opens a non-blocking Unix socket, closed on exec.
private func openSocket() -> CInt {
  #if canImport(Glibc)
    let stream = CInt(SOCK_STREAM.rawValue)
  #else
    let stream = SOCK_STREAM
  #endif
  #if os(Linux)
    // SOCK_CLOEXEC and SOCK_NONBLOCK have these values (linux/net.h), but Glibc's module has them
    // as an enumeration.
    return socket(AF_UNIX, stream | O_CLOEXEC | O_NONBLOCK, 0)
  #else
    let descriptor = socket(AF_UNIX, stream, 0)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    return descriptor
  #endif
}

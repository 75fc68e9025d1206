private import Glibc

/// Asks the kernel whether somebody listens on a Unix socket.
///
/// gRPC tells a socket that is not there from one that may not be used in words only, and after a pause.
enum SocketProbe {
  /// Connects to the socket and hangs up.
  ///
  /// The corresponding C function is `connect`.
  ///
  /// - Throws: ``ConndError/notThere(_:)``, ``ConndError/refused(_:)``, or ``ConndError/failed(_:)`` for what
  ///   is neither: a path that is too long, no descriptors left.
  static func connect(to path: String) throws(ConndError) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let fits = withUnsafeMutableBytes(of: &address.sun_path) { field in
      // One byte is for the terminating zero.
      guard bytes.count < field.count else { return false }
      field.copyBytes(from: bytes)
      return true
    }
    guard fits else { throw .failed("\(path) is too long for a Unix socket's path") }

    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, type, 0)
    guard descriptor >= 0 else { throw Self.error(errno, path) }
    defer { close(descriptor) }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    // EAGAIN: the backlog is full, so there is a listener.
    guard result == 0 || errno == EAGAIN else { throw Self.error(errno, path) }
  }

  static func error(_ number: CInt, _ path: String) -> ConndError {
    switch number {
    case ENOENT, ENOTDIR: .notThere("there is no \(path)")
    case ECONNREFUSED: .notThere("nobody listens on \(path)")
    case EACCES, EPERM: .refused("\(path): \(String(cString: strerror(number)))")
    default: .failed("\(path): \(String(cString: strerror(number)))")
    }
  }
}

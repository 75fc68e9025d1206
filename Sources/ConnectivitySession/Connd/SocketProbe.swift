#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Checks whether a process listens on a Unix socket, and whether its user is trusted
/// (``ServerOwner``).
///
/// gRPC distinguishes a missing socket from a forbidden one only in its error text, and after a
/// pause.
package enum SocketProbe {
  /// Connects to the socket and disconnects.
  ///
  /// The corresponding C function is `connect`.
  ///
  /// - Throws: ``ConndError/notThere(_:)``, ``ConndError/refused(_:)``, or
  ///   ``ConndError/failed(_:)`` for other errors, such as a path that is too long, or no
  ///   descriptors left.
  package static func connect(to path: String) throws(ConndError) {
    if let descriptor = try Self.open(path) { close(descriptor) }
  }

  /// Connects to the socket. If the listen backlog (listen(2)) is full, waits up to 200 ms for
  /// room.
  ///
  /// - Returns: A non-blocking socket, which the caller closes, or `nil` if the backlog stayed
  ///   full.
  package static func connection(to path: String) throws(ConndError) -> CInt? {
    guard let descriptor = try Self.open(path, waits: true) else { return nil }
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    return descriptor
  }

  /// Returns why connd closes connections right after accepting them, or `nil` if it does not. The
  /// reason is in HTTP/2's GOAWAY with ENHANCE_YOUR_CALM (RFC 9113, 6.8). Otherwise connd only
  /// sends settings at first.
  ///
  /// Blocks its thread for at most 50 ms.
  package static func farewell(from path: String) -> String? {
    guard let descriptor = (try? Self.open(path)) ?? nil else { return nil }
    defer { close(descriptor) }
    var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    var bytes = [UInt8](repeating: 0, count: 4096)
    let patience = CInt(Self.patience / .milliseconds(1))
    guard poll(&wait, 1, patience) > 0 else { return nil }
    let count = recv(descriptor, &bytes, bytes.count, 0)
    guard count > 0 else { return nil }
    return Self.reason(in: bytes[..<count])
  }

  /// How long to wait for connd's GOAWAY.
  package static let patience = Duration.milliseconds(50)

  /// Returns the reason in the first GOAWAY frame.
  package static func reason(in bytes: ArraySlice<UInt8>) -> String? {
    var rest = bytes
    while rest.count >= 9 {
      let header = Array(rest.prefix(9))
      let length = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
      let payload = rest.dropFirst(9).prefix(length)
      guard payload.count == length else { return nil }
      let (goAway, enhanceYourCalm): (UInt8, UInt8) = (7, 0xB)
      if header[3] == goAway, length > 8, payload.dropFirst(7).first == enhanceYourCalm {
        return String(decoding: payload.dropFirst(8), as: UTF8.self)
      }
      rest = rest.dropFirst(9 + length)
    }
    return nil
  }

  /// Opens a connection to the socket of a trusted user. Returns `nil` if the listener's backlog is
  /// full.
  private static func open(_ path: String, waits: Bool = false) throws(ConndError) -> CInt? {
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

    let descriptor = openSocket(waits: waits)
    guard descriptor >= 0 else { throw Self.error(errno, path) }
    // The timeout also applies to connect(2) (unix(7)).
    var patience = timeval(tv_sec: 0, tv_usec: 200_000)
    setsockopt(
      descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connectSocket(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
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

  static func error(_ number: CInt, _ path: String) -> ConndError {
    switch number {
    case ENOENT, ENOTDIR: .notThere("there is no \(path)")
    case ECONNREFUSED: .notThere("no process listens on \(path)")
    case EACCES, EPERM:
      .refused(
        "\(path): \(String(cString: strerror(number))) (join the group of the socket, or of its directory, or ask as root)"
      )
    default: .failed("\(path): \(String(cString: strerror(number)))")
    }
  }
}

/// Opens a Unix socket, closed on exec.
private func openSocket(waits: Bool) -> CInt {
  #if canImport(Glibc)
    let stream = CInt(SOCK_STREAM.rawValue)
  #else
    let stream = SOCK_STREAM
  #endif
  #if os(Linux)
    // SOCK_CLOEXEC and SOCK_NONBLOCK have these values (linux/net.h), but Glibc's module has them
    // as an enumeration.
    return socket(AF_UNIX, stream | O_CLOEXEC | (waits ? 0 : O_NONBLOCK), 0)
  #else
    let descriptor = socket(AF_UNIX, stream, 0)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    if !waits { _ = fcntl(descriptor, F_SETFL, O_NONBLOCK) }
    return descriptor
  #endif
}

/// Calls connect(2) from a scope in which a method hides it.
private func connectSocket(
  _ descriptor: CInt, _ address: UnsafePointer<sockaddr>, _ length: socklen_t
) -> CInt { connect(descriptor, address, length) }

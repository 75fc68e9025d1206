private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

extension SocketOptions {
  /// Ends a TCP connection like a reset by the peer (R4): with `ECONNRESET`, or `EPIPE`. If it were
  /// only shut down, a reader could take a cut response for a complete one. If it were only
  /// disconnected, a program that polls for input alone would spin. The owner must still close the
  /// descriptor.
  ///
  /// - Parameter link: The index of the link that the connection was made on, or `nil` if unknown.
  ///   The reset leaves by this link or not at all. On another link, its source address would be
  ///   wrong.
  /// - Returns: Whether the kernel has disconnected the socket. Kernel TLS refuses that
  ///   (EOPNOTSUPP), as do kernels of 2023 while a thread waits (EBUSY).
  @discardableResult
  package func end(_ descriptor: CInt, link: UInt32?) -> Bool {
    // 0 means that connd did not report an index.
    let index = link.map { CInt(bitPattern: $0) } ?? 0
    if index == 0 || !self.set(SOL_SOCKET, bindToLink, index) {
      _ = self.set(SOL_SOCKET, SO_DONTROUTE, 1)
    }
    var none = sockaddr()
    none.sa_family = sa_family_t(AF_UNSPEC)
    let isDisconnected = connect(descriptor, &none, socklen_t(MemoryLayout<sockaddr>.size)) == 0
    shutdown(descriptor, CInt(SHUT_RDWR))
    return isDisconnected
  }
}

/// SO_BINDTOIFINDEX, which C library modules lack (asm-generic/socket.h).
private let bindToLink: CInt = 62

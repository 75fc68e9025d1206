internal import NIOCore

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#endif

/// Whether a connection may use several networks at once (Multipath TCP, RFC 8684).
///
/// The kernel creates additional subflows, from the endpoints that the administrator or
/// `connd-multipath` has set. If the kernel or the server does not support Multipath TCP, the
/// connection uses plain TCP. A connection that may not use every network (C8) also uses plain TCP,
/// because a subflow might use a forbidden network.
@nonexhaustive public enum MultipathService: Hashable, Sendable {
  /// Plain TCP over a single network.
  case none
  /// Another network takes over when the first one stops passing traffic.
  case handover
  /// All networks with an endpoint that is not `backup` pass traffic, and each answer uses the
  /// fastest network. Linux decides that by endpoint and not by connection, so on Linux this equals
  /// `handover`.
  case interactive
}

extension NIOCore.Channel {
  /// Replaces a channel's TCP socket by a Multipath TCP socket, before the channel is registered
  /// with its event loop. Does nothing if the kernel does not support Multipath TCP.
  ///
  /// NIO's `enableMPTCP` fails without support in the kernel, and gRPC does not offer it. The new
  /// socket has the defaults of NIO's sockets, so set options afterwards.
  ///
  /// Implements rule M1.
  func useMultipath(_ service: MultipathService) {
    #if os(Linux)
      guard service != .none, !self.isActive, self.localAddress?.port ?? 0 == 0 else { return }
      _ = try? self.pipeline.syncOperations.withUnsafeTransportIfAvailable(
        of: NIOBSDSocket.Handle.self
      ) { replaceByMultipath($0) }
    #endif
  }
}

#if os(Linux)
  // Constants that C library modules lack (asm-generic/socket.h, linux/in.h).
  private let domainOption: CInt = 39  // SO_DOMAIN
  private let protocolOption: CInt = 38  // SO_PROTOCOL
  private let multipath: CInt = 262  // IPPROTO_MPTCP

  /// Replaces a TCP socket that is not connected. The descriptor keeps its number.
  private func replaceByMultipath(_ descriptor: CInt) {
    guard let domain = option(domainOption, of: descriptor),
      domain == AF_INET || domain == AF_INET6,
      option(protocolOption, of: descriptor) == CInt(IPPROTO_TCP)
    else { return }
    #if canImport(Glibc)
      let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    #else
      let type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
    #endif
    // Fails if the kernel does not support Multipath TCP, or if it is disabled (net.mptcp.enabled).
    let new = socket(domain, type, multipath)
    guard new >= 0 else { return }
    defer { close(new) }
    var one: CInt = 1
    setsockopt(new, CInt(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<CInt>.size))
    guard dup2(new, descriptor) >= 0 else { return }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  private func option(_ name: CInt, of descriptor: CInt) -> CInt? {
    var value: CInt = 0
    var size = socklen_t(MemoryLayout<CInt>.size)
    return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
  }
#endif

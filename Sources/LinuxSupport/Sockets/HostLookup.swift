#if canImport(Glibc)
  // The headers of CLinux include those of the C library, so the compiler may attribute SOCK_STREAM
  // to CLinux.
  private import CLinux
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The error of a host name that cannot be resolved, with the message of the system's resolver.
package struct HostLookupError: Error, CustomStringConvertible {
  package let description: String
  /// Whether no name server answered, so that the host may exist.
  package let isTemporary: Bool
}

/// Looks up the addresses of a host, in the order in which applications try them (RFC 6724).
///
/// Calls getaddrinfo(3), which blocks. The C library reads resolv.conf(5) at the start of each
/// lookup (glibc since 2.26).
///
/// - Returns: Socket names with port 0.
package func addresses(ofHost host: String) throws(HostLookupError) -> [SocketName] {
  var hints = addrinfo()
  #if canImport(Glibc)
    hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
  #else
    hints.ai_socktype = SOCK_STREAM
  #endif
  hints.ai_protocol = CInt(IPPROTO_TCP)
  var list: UnsafeMutablePointer<addrinfo>?
  let code = getaddrinfo(host, nil, &hints, &list)
  guard code == 0 else {
    let text = code == EAI_SYSTEM ? SystemError().description : String(cString: gai_strerror(code))
    throw HostLookupError(description: text, isTemporary: code == EAI_AGAIN)
  }
  defer { freeaddrinfo(list) }
  return sequence(first: list, next: { $0?.pointee.ai_next }).compactMap { entry in
    entry?.pointee.ai_addr.flatMap { SocketName($0) }
  }
}

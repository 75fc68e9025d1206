package import Connectivity
private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A reason not to guard a network connection.
package enum GuardObstacle: String {
  /// The kernel does not list the subflows (before Linux 5.16), so the loss of the last one cannot
  /// be detected.
  case multipath = "the kernel does not list the subflows of the Multipath TCP connection"
  /// Packets to this address arrive here by rules that connd does not see, such as those of a
  /// transparent proxy.
  case foreignAddress = "its own address does not belong to this machine"

  package var error: ConndError { ConndError(.notGuardable, self.rawValue) }
}

/// Access to the options of a socket.
package protocol SocketOptions {
  /// - Returns: The value, or `nil` if the socket has no such option.
  func option<Value: BitwiseCopyable & Sendable>(
    _ level: CInt, _ name: CInt, _ empty: Value
  ) -> Value?

  /// - Returns: Whether the option could be set.
  func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool
}

extension SocketOptions {
  /// The mark of the socket's packets (`SO_MARK`); 0 means none.
  package var mark: UInt32 { self.option(SOL_SOCKET, Option.mark, UInt32(0)) ?? 0 }

  /// The name of the link that the socket is bound to, or `nil` if it is not bound.
  package var boundLink: String? {
    linkName(UInt32(bitPattern: self.option(SOL_SOCKET, Option.boundLink, CInt(0)) ?? 0))
  }

  /// The number of the socket's protocol, which may exceed a packet's protocol field.
  var protocolNumber: CInt { self.option(SOL_SOCKET, Option.protocol, CInt(0)) ?? 0 }

  /// Whether the socket uses Multipath TCP, or is about to. If the peer does not support it, the
  /// kernel falls back to TCP, and the socket has TCP's options instead.
  package var isMultipath: Bool {
    guard self.protocolNumber == Option.multipath else { return false }
    if let information = self.option(
      Option.multipathLevel, Option.multipathInformation, MultipathInformation())
    {
      return information.flags & MultipathInformation.fallback == 0
    }
    // Before Linux 5.16, MPTCP sockets have no options of their own. Unlike TCP sockets, they lack
    // TCP_MAXSEG.
    return self.option(Option.tcpLevel, Option.segmentSize, CInt(0)) == nil
  }

  /// Returns why the connection must not be guarded, or `nil` if it may be.
  ///
  /// - Parameter local: The connection's own address.
  package func obstacle(from local: IPAddress) -> GuardObstacle? {
    self.mayBeForeign && !local.isOwn ? .foreignAddress : nil
  }

  /// Whether the socket may be bound to an address that does not belong to this machine.
  private var mayBeForeign: Bool {
    Option.foreign.contains { (self.option($0.level, $0.name, CInt(0)) ?? 0) != 0 }
  }
}

/// The beginning of `struct mptcp_info` (linux/mptcp.h).
private struct MultipathInformation: BitwiseCopyable {
  static let fallback: UInt32 = 1  // MPTCP_INFO_FLAG_FALLBACK

  /// The numbers of subflows and addresses.
  var counts: UInt64 = 0
  var flags: UInt32 = 0
}

/// Constants that C library modules lack, or that are specific to Linux (asm-generic/socket.h,
/// linux/in.h, linux/in6.h, linux/mptcp.h).
private enum Option {
  static let mark: CInt = 36  // SO_MARK
  static let boundLink: CInt = 62  // SO_BINDTOIFINDEX
  static let `protocol`: CInt = 38  // SO_PROTOCOL
  static let multipath: CInt = 262  // IPPROTO_MPTCP
  static let multipathLevel: CInt = 284  // SOL_MPTCP
  static let multipathInformation: CInt = 1  // MPTCP_INFO
  static let tcpLevel: CInt = 6  // SOL_TCP
  static let segmentSize: CInt = 2  // TCP_MAXSEG
  static let foreign: [(level: CInt, name: CInt)] = [
    (0, 15), (0, 19),  // SOL_IP: IP_FREEBIND, IP_TRANSPARENT
    (41, 78), (41, 75),  // SOL_IPV6: IPV6_FREEBIND, IPV6_TRANSPARENT
  ]
}

extension IPAddress {
  /// Whether the address belongs to this machine. If so, the kernel chooses it as the source for
  /// packets to that address. Sends nothing.
  fileprivate var isOwn: Bool {
    // The link of the address is not known here.
    if self.needsLink { return true }
    let isIPv6 = self.family == .ipv6
    #if canImport(Glibc)
      let kind = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
    #elseif canImport(Musl)
      let kind = SOCK_DGRAM | SOCK_CLOEXEC
    #else
      let kind = SOCK_DGRAM
    #endif
    let descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, kind, 0)
    guard descriptor >= 0 else { return true }
    defer { close(descriptor) }
    let result = SocketName(self, Self.discard).with { connect(descriptor, $0, $1) }
    guard result == 0, let socket = try? ConnectedSocket(descriptor: descriptor) else {
      return false
    }
    return socket.local == self
  }

  private static let discard: UInt16 = 9
}

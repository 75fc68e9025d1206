#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A keepalive probe of TCP that asks the peer of an idle connection for a sign of life.
///
/// The kernel sends it as soon as the socket has been idle for a second, and restarts its timer
/// when `TCP_KEEPIDLE` is set (`tcp_sock_set_keepidle_locked` in net/ipv4/tcp.c). The peer's kernel
/// answers. ``end(on:)`` sets the socket's options back. Afterwards nothing else has changed.
///
/// Implements rule E4.
package struct KeepaliveProbe: Sendable {
  private let wasOn: CInt
  private let idleTime: CInt

  /// How long the options stay changed: until the socket has been idle for a second, and a little
  /// longer, because the kernel rounds its timers up.
  package static let time = Duration.milliseconds(1500)

  /// Sends a probe. Returns `nil` if the socket has no such options, or if it would end the
  /// connection: a socket with `TCP_USER_TIMEOUT` does not outlive a second probe without an
  /// answer.
  package init?(on socket: some SocketOptions) {
    guard let wasOn = socket.option(SOL_SOCKET, Option.keepalive, CInt(0)),
      let idleTime = socket.option(Option.tcpLevel, Option.keepaliveIdle, CInt(0))
    else { return nil }
    let userTimeout = socket.option(Option.tcpLevel, Option.userTimeout, CInt(0)) ?? 0
    guard userTimeout == 0 || socket.unansweredProbes == 0 else { return nil }
    (self.wasOn, self.idleTime) = (wasOn, idleTime)
    // In this order: only the second one restarts the timer with the time that has passed.
    guard socket.set(SOL_SOCKET, Option.keepalive, 1),
      socket.set(Option.tcpLevel, Option.keepaliveIdle, 1)
    else {
      self.end(on: socket)
      return nil
    }
  }

  /// Sets the options back.
  package func end(on socket: some SocketOptions) {
    _ = socket.set(Option.tcpLevel, Option.keepaliveIdle, self.idleTime)
    _ = socket.set(SOL_SOCKET, Option.keepalive, self.wasOn)
  }
}

extension SocketOptions {
  /// The number of probes without an answer (`tcpi_probes`, the fourth octet).
  fileprivate var unansweredProbes: UInt8 {
    let octets = self.option(Option.tcpLevel, Option.information, SIMD4<UInt8>.zero)
    return octets?[3] ?? 0
  }
}

/// Constants of Linux (asm-generic/socket.h, linux/tcp.h).
private enum Option {
  static let keepalive: CInt = 9  // SO_KEEPALIVE
  static let tcpLevel: CInt = 6  // SOL_TCP
  static let keepaliveIdle: CInt = 4  // TCP_KEEPIDLE
  static let userTimeout: CInt = 18  // TCP_USER_TIMEOUT
  static let information: CInt = 11  // TCP_INFO
}

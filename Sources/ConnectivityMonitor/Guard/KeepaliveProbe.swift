#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A TCP keepalive probe, which checks whether the peer of an idle connection responds.
///
/// The kernel sends the probe once the socket has been idle for a second, and restarts its timer
/// when `TCP_KEEPIDLE` is set (`tcp_sock_set_keepidle_locked` in net/ipv4/tcp.c). The peer's kernel
/// answers. ``repeat(on:)`` sends another probe, because the first may be lost. ``end(on:)``
/// restores the socket's options, so that nothing else has changed.
///
/// Implements rule E4.
package struct KeepaliveProbe: Sendable {
  private let wasOn: CInt
  private let idleTime: CInt
  /// How many more probes may be sent without an answer.
  private var left: CInt
  /// Whether the timeout is that of ``OutageOptions``, which must not end the connection because of
  /// the probe.
  private let raisesTimeout: Bool

  /// How long the options stay changed: until the socket has been idle for a second, and slightly
  /// longer because the kernel rounds timers up.
  package static let time = Duration.milliseconds(1500)

  /// When the probe is repeated: soon enough for a near peer, and later than a short interruption.
  package static let repeats = [Duration.milliseconds(80), .milliseconds(600)]

  /// Sends a probe. Returns `nil` if the socket has no keepalive options, or if the probe might end
  /// the connection. The kernel ends the connection after `TCP_KEEPCNT` unanswered probes in a row,
  /// or with `TCP_USER_TIMEOUT` after one if the peer was not heard for that time
  /// (`tcp_keepalive_timer` in net/ipv4/tcp_timer.c). The timeout of ``OutageOptions`` is raised
  /// during the probe. The number of probes does not count then.
  package init?(on socket: some SocketOptions) {
    func option(_ name: CInt) -> CInt? { socket.option(Option.tcpLevel, name, CInt(0)) }
    guard let wasOn = socket.option(SOL_SOCKET, Option.keepalive, CInt(0)),
      let idleTime = option(Option.keepaliveIdle), Self.settable.contains(idleTime),
      let count = option(Option.keepaliveCount), let interval = option(Option.keepaliveInterval)
    else { return nil }
    let unanswered = socket.unansweredProbes
    let timeout = option(Option.userTimeout) ?? 0
    self.raisesTimeout = timeout == OutageOptions.userTimeout && wasOn == 0
    let hasTimeout = timeout != 0 && !self.raisesTimeout
    if hasTimeout, wasOn != 0 || unanswered != 0 { return nil }
    // With an interval of one second, a second probe follows before the options are restored.
    let left = self.raisesTimeout ? .max : count - 1 - unanswered - (interval > 1 ? 1 : 2)
    guard left >= 0 else { return nil }
    (self.wasOn, self.idleTime) = (wasOn, idleTime)
    // connd may ask twice more before it gives the connection up (E2).
    self.left = hasTimeout ? 0 : max(0, left - 2)
    if self.raisesTimeout { _ = socket.set(Option.tcpLevel, Option.userTimeout, .max) }
    // The order matters: only the second option restarts the timer with the elapsed idle time.
    guard socket.set(SOL_SOCKET, Option.keepalive, 1),
      socket.set(Option.tcpLevel, Option.keepaliveIdle, 1)
    else {
      self.end(on: socket)
      return nil
    }
  }

  /// Sends another probe, unless the peer was heard within the last second, or the kernel might end
  /// the connection because of it.
  package mutating func `repeat`(on socket: some SocketOptions) {
    guard self.left > 0 else { return }
    self.left -= 1
    _ = socket.set(Option.tcpLevel, Option.keepaliveIdle, 1)
  }

  /// The values of `TCP_KEEPIDLE` that can be restored, in seconds (`MAX_TCP_KEEPIDLE`).
  private static let settable: ClosedRange<CInt> = 1...32767

  /// Restores the options. Keepalive is off meanwhile, so that no probe is due immediately.
  package func end(on socket: some SocketOptions) {
    _ = socket.set(SOL_SOCKET, Option.keepalive, 0)
    _ = socket.set(Option.tcpLevel, Option.keepaliveIdle, self.idleTime)
    if self.raisesTimeout, socket.option(Option.tcpLevel, Option.userTimeout, CInt(0)) == .max {
      _ = socket.set(Option.tcpLevel, Option.userTimeout, OutageOptions.userTimeout)
    }
    if self.wasOn != 0 { _ = socket.set(SOL_SOCKET, Option.keepalive, self.wasOn) }
  }
}

extension SocketOptions {
  /// The number of probes without an answer (`tcpi_probes`, the fourth octet).
  fileprivate var unansweredProbes: CInt {
    let octets = self.option(Option.tcpLevel, Option.information, SIMD4<UInt8>.zero)
    return CInt(octets?[3] ?? 0)
  }
}

/// Constants of Linux (asm-generic/socket.h, linux/tcp.h).
private enum Option {
  static let keepalive: CInt = 9  // SO_KEEPALIVE
  static let tcpLevel: CInt = 6  // SOL_TCP
  static let keepaliveIdle: CInt = 4  // TCP_KEEPIDLE
  static let keepaliveInterval: CInt = 5  // TCP_KEEPINTVL
  static let keepaliveCount: CInt = 6  // TCP_KEEPCNT
  static let userTimeout: CInt = 18  // TCP_USER_TIMEOUT
  static let information: CInt = 11  // TCP_INFO
}

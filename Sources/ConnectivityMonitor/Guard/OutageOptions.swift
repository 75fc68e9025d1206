package import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The options by which a TCP connection continues soon after an outage.
///
/// After an outage, TCP waits for its next retransmission: 24 s after 30 s, and up to two minutes.
/// `TCP_RTO_MAX_MS` limits that wait (Linux 6.15). Alone, it would end the connection after 28 s,
/// because the kernel derives the life of a connection from that limit (`tcp_model_timeout` in
/// net/ipv4/tcp_timer.c). `TCP_USER_TIMEOUT` replaces that life, so it is set first.
///
/// Data that has never left waits in another timer, which counts 15 probes whatever the timeout is
/// (`tcp_probe_timer`). So the options hold only while the path is satisfied.
///
/// Implements rule C11.
package struct OutageOptions: Sendable {
  /// How long the kernel retransmits by default, in milliseconds (`tcp_retries2`).
  static let userTimeout: CInt = 924_600
  /// The longest wait for a retransmission, in milliseconds.
  static let maxWait: CInt = 2000

  /// The limit before, or `nil` if the options are not set.
  private var formerMax: CInt?
  private let isEnabled: Bool

  package init(isEnabled: Bool) { self.isEnabled = isEnabled }

  /// Sets the options if connd reports a satisfied path, and restores them if the path is lost.
  package mutating func note(_ event: FlowEvent, on socket: some SocketOptions) {
    if event.ownPath?.status == .satisfied {
      self.set(on: socket)
    } else if event.path.map({ $0.status != .satisfied }) ?? false
      || event.invalidation?.isSurvivable == false
    {
      self.restore(on: socket)
    }
  }

  /// Sets the options, unless the program has a timeout or keepalive of its own.
  /// `TCP_USER_TIMEOUT` would replace the number of keepalive probes.
  private mutating func set(on socket: some SocketOptions) {
    guard self.isEnabled, self.formerMax == nil, !socket.isMultipath,
      socket.option(SOL_SOCKET, Option.keepalive, CInt(0)) == 0,
      socket.option(Option.tcpLevel, Option.userTimeout, CInt(0)) == 0,
      let former = socket.option(Option.tcpLevel, Option.maxWait, CInt(0)), former > Self.maxWait,
      socket.set(Option.tcpLevel, Option.userTimeout, Self.userTimeout)
    else { return }
    if socket.set(Option.tcpLevel, Option.maxWait, Self.maxWait) {
      self.formerMax = former
    } else {
      _ = socket.set(Option.tcpLevel, Option.userTimeout, 0)
    }
  }

  /// Restores the options, unless the program has changed them.
  package mutating func restore(on socket: some SocketOptions) {
    guard let former = self.formerMax.take() else { return }
    if socket.option(Option.tcpLevel, Option.maxWait, CInt(0)) == Self.maxWait {
      _ = socket.set(Option.tcpLevel, Option.maxWait, former)
    }
    // A probe has raised it.
    let own: [CInt?] = [Self.userTimeout, .max]
    if own.contains(socket.option(Option.tcpLevel, Option.userTimeout, CInt(0))) {
      _ = socket.set(Option.tcpLevel, Option.userTimeout, 0)
    }
  }
}

/// Constants of Linux (asm-generic/socket.h, linux/tcp.h).
private enum Option {
  static let keepalive: CInt = 9  // SO_KEEPALIVE
  static let tcpLevel: CInt = 6  // SOL_TCP
  static let userTimeout: CInt = 18  // TCP_USER_TIMEOUT
  static let maxWait: CInt = 44  // TCP_RTO_MAX_MS
}

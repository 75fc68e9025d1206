import Connectivity
import Glibc
import LinuxSupport
import UnixTransport

/// Asks a router with a single datagram whether it works.
enum RouterProbe {
  enum Answer: String, Sendable {
    /// The router refuses the datagram, so it works.
    case answers
    /// No answer came. Many routers drop such datagrams.
    case silent
    /// The datagram could not be sent.
    case notSent
  }

  /// traceroute(8) uses this port because no program listens on it.
  private static let port: UInt16 = 33_434
  private static let timeout = Duration.milliseconds(300)
  private static let interval = Duration.milliseconds(10)

  /// Sends a datagram to a closed port, and waits for the refusal.
  ///
  /// - Parameter link: The index of the link, for a link-local address.
  static func ask(
    _ router: IPAddress, on link: UInt32, port: UInt16 = port
  ) async -> Answer {
    let family = router.family == .ipv4 ? AF_INET : AF_INET6
    let descriptor = socket(
      family, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else { return .notSent }
    defer { close(descriptor) }
    let name = SocketName(router, port, link: router.needsLink ? link : 0)
    guard name.with({ connect(descriptor, $0, $1) }) == 0, send(descriptor, "", 0, 0) == 0 else {
      return .notSent
    }
    let end = ContinuousClock.now + Self.timeout
    while true {
      var byte: UInt8 = 0
      // An answer of a program shows as much as a refusal.
      if recv(descriptor, &byte, 1, 0) >= 0 || errno == ECONNREFUSED { return .answers }
      guard errno == EAGAIN || errno == EINTR else { return .silent }
      guard ContinuousClock.now < end else { return .silent }
      try? await Task.sleep(for: Self.interval)
    }
  }
}

import Glibc

/// Receives a service's messages in systemd's place, as sent by sd_notify(3).
///
/// One thread at a time may wait for messages.
public final class NotificationReceiver: Sendable {
  /// The value for `NOTIFY_SOCKET`.
  public let path: String
  private let descriptor: CInt

  /// - Parameter path: the path of the socket.
  public init(path: String) throws {
    self.path = path
    self.descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
      throw CommandError("\(path): too long")
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(self.descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else { throw CommandError("\(path): errno \(errno)") }
  }

  deinit { close(self.descriptor) }

  /// Drops earlier messages. The socket holds few (net.unix.max_dgram_qlen), and loses all
  /// that do not fit.
  public func discard() {
    var byte: UInt8 = 0
    while recv(self.descriptor, &byte, 1, CInt(MSG_DONTWAIT)) >= 0 {}
  }

  /// The first variable from here on for which `matches` holds: `READY=1`, `STATUS=…`.
  ///
  /// - Throws: if it does not come in time.
  @discardableResult
  public func variable(
    within deadline: Duration = .seconds(20), where matches: (String) -> Bool
  ) throws -> String {
    let patience = Patience(deadline)
    var seen: [String] = []
    while patience.awaitInput(of: self.descriptor) {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = recv(self.descriptor, &buffer, buffer.count, CInt(MSG_DONTWAIT))
      guard count > 0 else { continue }
      let variables = String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n")
      if let found = variables.map(String.init).first(where: matches) { return found }
      seen += variables.map(String.init)
    }
    throw CommandError("not notified in time; seen: \(seen)")
  }
}

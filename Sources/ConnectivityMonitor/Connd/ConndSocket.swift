private import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The Unix socket on which connd listens.
public struct ConndSocket: Hashable, Sendable, ExpressibleByStringLiteral {
  /// The path of the socket.
  public var path: String
  /// Whether loopback connections are guarded, too. Only tests that simulate a network on loopback
  /// need this.
  package var guardsLoopback: Bool

  public init(path: String) { self.init(path: path, guardsLoopback: false) }

  public init(stringLiteral path: String) { self.init(path: path) }

  package init(path: String, guardsLoopback: Bool) {
    self.path = path
    self.guardsLoopback = guardsLoopback
  }

  /// `CONND_SOCKET` if it is set. Otherwise `/run/connd/connd.sock`. If that does not exist and the
  /// user is not root, `$XDG_RUNTIME_DIR/connd.sock`.
  ///
  /// Reads the environment and the file system at each call.
  public static var `default`: ConndSocket {
    let path = DefaultSocket.path(
      environment: { name in getenv(name).map { String(cString: $0) } },
      uid: geteuid(),
      exists: { access($0, F_OK) == 0 })
    return ConndSocket(path: path)
  }
}

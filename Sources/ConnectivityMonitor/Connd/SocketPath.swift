private import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The path of connd's socket.
public enum SocketPath {
  /// `CONND_SOCKET` if it is set. Otherwise `/run/connd/connd.sock`. If that does not exist and the
  /// user is not root, `$XDG_RUNTIME_DIR/connd.sock`.
  ///
  /// Reads the environment and the file system at each call.
  public static var `default`: String {
    DefaultSocket.path(
      environment: { name in getenv(name).map { String(cString: $0) } },
      uid: geteuid(),
      exists: { access($0, F_OK) == 0 })
  }
}

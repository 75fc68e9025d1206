private import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Where connd's socket is.
public enum SocketPath {
  /// `CONND_SOCKET` where it is set; else `/run/connd/connd.sock`; else, for another user than root where that
  /// does not exist, `$XDG_RUNTIME_DIR/connd.sock`.
  ///
  /// Environment and file system are read at each call.
  public static var `default`: String {
    DefaultSocket.path(
      environment: { name in getenv(name).map { String(cString: $0) } },
      uid: geteuid(),
      exists: { access($0, F_OK) == 0 })
  }
}

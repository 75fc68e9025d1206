#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Network namespaces, by the inodes that the messages name.
package enum NetworkNamespace {
  /// That of this process: of the thread that asks first. `nil` where /proc does not tell.
  package static let own = Self.inode(of: "/proc/thread-self/ns/net")

  /// That of this process as connd tells it; 0 where /proc does not tell.
  package static let told = Self.own ?? 0

  /// The corresponding C function is `stat`.
  static func inode(of path: String) -> UInt64? {
    var status = stat()
    return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
  }
}

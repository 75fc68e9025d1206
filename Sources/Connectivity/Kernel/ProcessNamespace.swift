#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The network namespace of this process, identified by its inode as in connd's messages.
package enum ProcessNamespace {
  /// The namespace of the thread that first reads this property, usually that of the whole process,
  /// or `nil` if /proc does not reveal it.
  package static let own = Self.inode(of: "/proc/thread-self/ns/net")

  /// The namespace of this process as connd reports it, or 0 if /proc does not reveal it.
  package static let reported = Self.own ?? 0

  /// Returns the inode of a file, or `nil` if stat(2) fails.
  static func inode(of path: String) -> UInt64? {
    var status = stat()
    return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
  }
}

private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Checks which user listens on connd's socket. Another user could have put a socket of its own at
/// the path, and its answers would start and stop programs and end connections.
package enum ServerOwner {
  /// - Parameter connection: A socket that is connected to the path.
  /// - Throws: ``ConndError/notThere(_:)`` if the user that listens could not have been meant.
  static func check(_ connection: CInt, _ path: String) throws(ConndError) {
    guard let server = Self.user(listeningOn: connection) else {
      throw .failed("\(path): \(SystemError())")
    }
    let directory = Self.directory(of: path)
    if Self.isTrusted(server, by: geteuid(), inDirectoryOf: Self.owner(of: directory)) { return }
    throw .notThere(
      "uid \(server) listens on \(path), but is neither root nor this user and does not own \(directory)"
    )
  }

  /// Returns whether a server may be trusted. Root can do anything anyway. The owner of a directory
  /// controls its contents, so a user who names the path trusts that owner. In a container with its
  /// own user IDs, both may be the placeholder for unknown users.
  package static func isTrusted(
    _ server: UInt32, by user: UInt32, inDirectoryOf owner: UInt32?
  ) -> Bool {
    server == 0 || server == user || server == owner
  }

  /// Returns the user that called listen(2), or `nil` with errno set if the query fails.
  private static func user(listeningOn connection: CInt) -> UInt32? {
    #if os(Linux)
      // struct ucred of unix(7), which Glibc's module does not have: pid, uid and gid.
      var credentials: (CInt, UInt32, UInt32) = (0, 0, 0)
      var size = socklen_t(MemoryLayout.size(ofValue: credentials))
      guard getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else {
        return nil
      }
      return credentials.1
    #else
      var (user, group) = (uid_t(), gid_t())
      return getpeereid(connection, &user, &group) == 0 ? user : nil
    #endif
  }

  /// Returns the directory of a socket, with symbolic links resolved.
  private static func directory(of path: String) -> String {
    let resolved = realpath(path, nil)
    defer { free(resolved) }
    let path = resolved.map { String(cString: $0) } ?? path
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func owner(of directory: String) -> UInt32? {
    var status = stat()
    return stat(directory, &status) == 0 ? status.st_uid : nil
  }
}

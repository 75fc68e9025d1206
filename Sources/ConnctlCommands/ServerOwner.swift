import CLinux
import ConnectivitySession
import Glibc
import UnixTransport

/// Checks which user listens on connd's socket. Another user could have put a socket of its own at
/// the path, and its answers would start and stop programs.
enum ServerOwner {
  /// - Throws: ``ConndError/notThere(_:)`` if the user that listens could not have been meant.
  static func check(_ connection: CInt, _ path: String) throws(ConndError) {
    var server = clinux_credentials()
    guard clinux_peer_credentials(connection, &server) == 0 else {
      throw .failed("\(path): \(SystemError())")
    }
    let directory = Self.directory(of: path)
    if Self.isTrusted(server.uid, by: geteuid(), inDirectoryOf: Self.owner(of: directory)) {
      return
    }
    throw .notThere(
      "uid \(server.uid) listens on \(path), but is neither root nor this user and does not own \(directory)"
    )
  }

  /// Returns whether a server may be trusted. Root can do anything anyway. The owner of a directory
  /// controls its contents, so a user who names the path trusts that owner. In a container with its
  /// own user IDs, both may be the placeholder for unknown users.
  static func isTrusted(_ server: uid_t, by user: uid_t, inDirectoryOf owner: uid_t?) -> Bool {
    server == 0 || server == user || server == owner
  }

  /// Returns the directory of a socket, with symbolic links resolved.
  private static func directory(of path: String) -> String {
    let resolved = realpath(path, nil)
    defer { free(resolved) }
    let path = resolved.map { String(cString: $0) } ?? path
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func owner(of directory: String) -> uid_t? {
    var status = stat()
    return stat(directory, &status) == 0 ? status.st_uid : nil
  }
}

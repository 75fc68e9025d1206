private import Connectivity
private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Checks which user listens on connd's socket. Another user could put a socket at the path. The
/// answers of that socket would start and stop programs and end connections.
package enum ServerOwner {
  /// - Parameter connection: A socket that is connected to the path.
  /// - Throws: ``ConndError/Code/notAvailable`` if the user that listens is not trusted.
  static func check(_ connection: CInt, _ path: String) throws(ConndError) {
    guard let server = Self.user(listeningOn: connection) else {
      throw .failed("\(path): \(SystemError())")
    }
    let user = geteuid()
    let owner = Self.isNamedByEnvironment(path) ? nil : Self.owner(ofDirectoryOf: path, for: user)
    if Self.isTrusted(server, by: user, inDirectoryOf: owner) { return }
    throw .notAvailable(
      "uid \(server) listens on \(path), but is neither root nor this user and does not own the directory that this user named"
    )
  }

  /// Whether the path comes from the environment, which may be another user's, as after `su -m`.
  private static func isNamedByEnvironment(_ path: String) -> Bool {
    func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
    guard path != DefaultSocket.system else { return false }
    return path == variable("CONND_SOCKET")
      || path == variable("XDG_RUNTIME_DIR").map { "\($0)/connd.sock" }
  }

  /// Returns whether a server may be trusted. Root can do anything anyway. The owner of a directory
  /// controls its contents, so a user who names the path trusts that owner. In a container with its
  /// own user IDs, server and owner may both be the placeholder for unknown users.
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

  /// Returns the owner of the directory of a socket, or `nil` if it cannot be read. Also `nil` if a
  /// third user owns a symbolic link in the path, because that user chooses the directory.
  package static func owner(ofDirectoryOf path: String, for user: UInt32) -> UInt32? {
    var names = path.split(separator: "/")[...]
    var place = path.hasPrefix("/") ? "/" : "."
    var links = 0
    while let name = names.popFirst() {
      var status = stat()
      guard lstat("\(place)/\(name)", &status) == 0 else { return nil }
      if status.st_mode & S_IFMT == S_IFLNK {
        links += 1
        guard [0, user].contains(status.st_uid), links <= Self.maxLinks,
          let target = Self.target(of: "\(place)/\(name)")
        else { return nil }
        if target.hasPrefix("/") { place = "/" }
        names = target.split(separator: "/") + names
      } else if names.isEmpty {
        return stat(place, &status) == 0 ? status.st_uid : nil
      } else {
        place += "/\(name)"
      }
    }
    return nil
  }

  /// The kernel's limit on symbolic links (path_resolution(7)).
  private static let maxLinks = 40

  /// Returns the text of a symbolic link, or `nil` if it cannot be read.
  private static func target(of link: String) -> String? {
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(link, &bytes, bytes.count)
    guard count > 0, count < bytes.count else { return nil }
    return String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}

import CLinux
import Glibc
import LinuxSupport
import Synchronization

/// The Unix socket for clients, if connd opens it itself.
///
/// connd holds a lock file (flock(2)) as long as it runs, so that it never removes a socket that
/// another connd serves.
///
/// Implements rule D2.
final class ListeningSocket {
  private let path: String
  private let lock: CInt
  private var descriptor: CInt?
  /// Whether the path must be removed at the end.
  private var isBound = false

  /// The number of clients that may wait to be accepted, as in `systemd/connd.socket`. All clients
  /// may reconnect at the same time. A longer backlog would let clients that constantly reconnect
  /// delay others for longer.
  static let backlog: CInt = 2048

  /// Opens the socket for all users. The directory's permissions decide which users can reach it.
  init(path: String) throws(ListeningError) {
    guard path.utf8.count <= UnixAddress.maxPath else {
      throw ListeningError(
        path: path, reason: .system(SystemError(ENAMETOOLONG), "use a shorter path (--socket)"))
    }
    self.path = path
    try Self.makeDirectory(of: path)
    self.lock = try Self.takeLock(path)
    // If this fails, deinit releases the lock.
    self.descriptor = try Self.listen(path)
    self.isBound = true
  }

  deinit {
    // The socket is removed before the lock, so that the next holder of the lock does not find it.
    if self.isBound { unlink(self.path) }
    unlink(Self.lockPath(self.path))
    close(self.lock)
    if let descriptor { close(descriptor) }
  }

  /// Returns the descriptor. The caller must close it.
  func takeDescriptor() -> CInt? {
    defer { self.descriptor = nil }
    return self.descriptor
  }

  /// Creates the directory if only its last part is missing, such as /run/connd after boot. If more
  /// is missing, taking the lock fails.
  private static func makeDirectory(of path: String) throws(ListeningError) {
    guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return }
    let directory = String(path[..<slash])
    guard mkdir(directory, 0o755) != 0 else { return }
    let error = SystemError()
    // For an existing directory the error may be other than EEXIST, for example on a read-only file
    // system.
    guard access(directory, F_OK) != 0, error.code != ENOENT, error.code != ENOTDIR else { return }
    throw ListeningError(path: "\(directory) cannot be created", error)
  }

  private static func lockPath(_ path: String) -> String { "\(path).lock" }

  /// Takes the lock next to the socket. The lock file contains the holder's PID.
  private static func takeLock(_ path: String) throws(ListeningError) -> CInt {
    let lockPath = Self.lockPath(path)
    while true {
      let lock = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard lock >= 0 else { throw ListeningError(path: lockPath, SystemError()) }
      guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
        defer { close(lock) }
        if errno == EWOULDBLOCK { throw ListeningError(path: path, reason: .inUse(holder(lock))) }
        throw ListeningError(path: lockPath, SystemError())
      }
      // The previous holder may have removed the file between opening and locking.
      var opened = stat()
      var present = stat()
      if fstat(lock, &opened) == 0, stat(lockPath, &present) == 0, opened.st_ino == present.st_ino {
        ftruncate(lock, 0)
        let text = Array("\(getpid())\n".utf8)
        write(lock, text, text.count)
        return lock
      }
      close(lock)
    }
  }

  private static func holder(_ lock: CInt) -> String? {
    var bytes = [UInt8](repeating: 0, count: 32)
    let count = pread(lock, &bytes, bytes.count, 0)
    guard count > 0 else { return nil }
    return String(decoding: bytes[..<count].prefix { $0 != 0x0A }, as: UTF8.self)
  }

  private static func listen(_ path: String) throws(ListeningError) -> CInt {
    let descriptor = socket(
      AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw ListeningError(path: path, SystemError()) }
    do throws(ListeningError) {
      try Self.removeStale(path)
      guard Self.bindForAll(descriptor, path) == 0 else {
        throw ListeningError(path: path, SystemError())
      }
      guard Glibc.listen(descriptor, Self.backlog) == 0 else {
        throw ListeningError(path: path, SystemError())
      }
      return descriptor
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Serializes changes of the process's umask. Otherwise one thread could restore the mask that
  /// another has set.
  private static let mask = Mutex(())

  /// Binds a socket that every user may connect to as soon as the path exists.
  private static func bindForAll(_ descriptor: CInt, _ path: String) -> CInt {
    self.mask.withLock { _ in
      let mask = umask(0o111)
      defer { umask(mask) }
      return withUnixAddress(path) { bind(descriptor, $0, $1) }
    }
  }

  /// Removes a socket that no process listens on, and nothing else.
  private static func removeStale(_ path: String) throws(ListeningError) {
    var file = stat()
    guard lstat(path, &file) == 0 else { return }
    guard file.st_mode & S_IFMT == S_IFSOCK else {
      throw ListeningError(path: path, reason: .notASocket)
    }
    let probe = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    guard probe >= 0 else { throw ListeningError(path: path, SystemError()) }
    defer { close(probe) }
    if withUnixAddress(path, { connect(probe, $0, $1) }) == 0 {
      // The listener, for example systemd, does not use the lock.
      var credentials = clinux_credentials()
      let isKnown = clinux_peer_credentials(probe, &credentials) == 0
      throw ListeningError(path: path, reason: .inUse(isKnown ? "\(credentials.pid)" : nil))
    }
    guard errno == ECONNREFUSED else { throw ListeningError(path: path, SystemError()) }
    guard unlink(path) == 0 else { throw ListeningError(path: path, SystemError()) }
  }
}

/// The reason why connd cannot listen, and what to do about it.
struct ListeningError: Error, CustomStringConvertible {
  enum Reason {
    /// The PID of the process that uses the path, or `nil` if it is unknown.
    case inUse(String?)
    case notASocket
    case system(SystemError, String)
  }

  var path: String
  var reason: Reason

  init(path: String, reason: Reason) {
    self.path = path
    self.reason = reason
  }

  fileprivate init(path: String, _ error: SystemError) {
    let advice =
      switch error.code {
      case EACCES, EPERM, EROFS: "use a path that you can write to (--socket or CONND_SOCKET)"
      case ENOENT, ENOTDIR: "create the directory, or use another path (--socket or CONND_SOCKET)"
      default: "use another path (--socket or CONND_SOCKET)"
      }
    self.init(path: path, reason: .system(error, advice))
  }

  /// Whether a permission is missing.
  var isPermission: Bool {
    if case .system(let error, _) = self.reason {
      error.code == EACCES || error.code == EPERM
    } else {
      false
    }
  }

  var description: String {
    switch self.reason {
    case .inUse(let holder?):
      "\(self.path): in use by another connd (process \(holder)); stop it, or use another path (--socket)"
    case .inUse(nil):
      "\(self.path): in use by another process; stop it, or use another path (--socket)"
    case .notASocket:
      "\(self.path): is not a socket; remove it, or use another path (--socket)"
    case .system(let error, let advice):
      "\(self.path): \(error); \(advice)"
    }
  }
}

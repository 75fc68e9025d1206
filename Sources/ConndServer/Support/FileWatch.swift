import Glibc

/// Reports through inotify(7) that files may have changed, so that an idle machine does not wake
/// (D7).
final class FileWatch {
  /// Becomes readable when something may have changed; -1 if the user has no inotify instance left,
  /// so that changes go unnoticed.
  let fileDescriptor: CInt

  /// The events of a file that is written in place, or replaced by another.
  private static let changes =
    UInt32(IN_CLOSE_WRITE) | UInt32(IN_MOVED_TO) | UInt32(IN_MOVED_FROM) | UInt32(IN_DELETE)
  /// The events of a new directory.
  private static let arrivals = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO)

  init() { self.fileDescriptor = inotify_init1(CInt(IN_CLOEXEC) | CInt(IN_NONBLOCK)) }

  deinit { if self.fileDescriptor >= 0 { close(self.fileDescriptor) } }

  /// Watches the changes in a directory. If it does not exist, watches for its creation. An
  /// existing watch stays.
  func watch(directory: String) { self.watch(directory, Self.changes | UInt32(IN_ONLYDIR)) }

  /// Watches the changes of a file. If it does not exist, watches for its creation.
  func watch(file: String) { self.watch(file, Self.changes) }

  /// Watches a file, its directory, and the directory of each symbolic link to it. The file may be
  /// written in place, as when a container borrows it, and each link may be replaced. Missing parts
  /// may be created later.
  func watch(fileBehindLinks path: String) {
    var rest: [Substring] = path.split(separator: "/").reversed()
    var (resolved, links) = ("", 0)
    while let name = rest.popLast(), links <= Self.maxLinks {
      if name == "." { continue }
      if name == ".." {
        resolved = Self.directory(of: resolved)
        continue
      }
      guard let target = Self.target(ofLink: "\(resolved)/\(name)") else {
        resolved += "/\(name)"
        continue
      }
      links += 1
      self.watch(directory: "\(resolved)/")
      if target.hasPrefix("/") { resolved = "" }
      rest += target.split(separator: "/").reversed()
    }
    guard links <= Self.maxLinks else { return }
    self.watch(file: resolved)
    self.watch(directory: "\(Self.directory(of: resolved))/")
  }

  /// The maximum number of links that the kernel follows (ELOOP).
  private static let maxLinks = 40

  private static func directory(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
  }

  /// Returns the target of a symbolic link, or `nil` if the path is not a symbolic link.
  private static func target(ofLink path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &buffer, buffer.count)
    guard count > 0 else { return nil }
    return String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Watches a path. If it does not exist, watches the nearest existing directory above it.
  private func watch(_ path: String, _ mask: UInt32) {
    guard self.fileDescriptor >= 0 else { return }
    var (path, mask) = (path, mask)
    while inotify_add_watch(self.fileDescriptor, path, mask | UInt32(IN_MASK_ADD)) < 0 {
      guard errno == ENOENT, let end = path.lastIndex(of: "/"), end != path.startIndex else {
        return
      }
      path = String(path[..<end])
      mask = Self.arrivals | UInt32(IN_ONLYDIR)
    }
  }

  /// Clears pending events. It does not matter which file changed, because all are read again.
  ///
  /// - Returns: Whether there was an event.
  @discardableResult
  func clear() -> Bool {
    guard self.fileDescriptor >= 0 else { return false }
    var buffer = [UInt8](repeating: 0, count: 4096)
    var isReported = false
    while read(self.fileDescriptor, &buffer, buffer.count) > 0 { isReported = true }
    return isReported
  }
}

import Glibc

/// inotify(7), which tells when files may be others: an idle machine does not wake (D7).
final class FileWatch {
  /// Becomes readable when something may have changed; -1 where the user has no inotify instance left: then nothing tells.
  let fileDescriptor: CInt

  /// What tells of a file that is written in place, and of one that is moved to another's place.
  private static let changes =
    UInt32(IN_CLOSE_WRITE) | UInt32(IN_MOVED_TO) | UInt32(IN_MOVED_FROM) | UInt32(IN_DELETE)
  /// What tells that a directory is there from now on.
  private static let arrivals = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO)

  init() { self.fileDescriptor = inotify_init1(CInt(IN_CLOEXEC) | CInt(IN_NONBLOCK)) }

  deinit { if self.fileDescriptor >= 0 { close(self.fileDescriptor) } }

  /// Watches what changes in a directory; where it is not there, that it comes. A watch that there is already stays as it is.
  func watch(directory: String) { self.watch(directory, Self.changes | UInt32(IN_ONLYDIR)) }

  /// The same of a file.
  func watch(file: String) { self.watch(file, Self.changes) }

  /// Watches a file, its directory, and the directory of each symbolic link that leads there: a file may be written in place,
  /// as one that a container was lent is, and each link may be replaced. What is not there yet may come.
  func watch(fileBehindLinks path: String) {
    var rest: [Substring] = path.split(separator: "/").reversed()
    var (resolved, links) = ("", 0)
    while let name = rest.popLast(), links <= Self.mostLinks {
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
    guard links <= Self.mostLinks else { return }
    self.watch(file: resolved)
    self.watch(directory: "\(Self.directory(of: resolved))/")
  }

  /// The kernel follows no more (ELOOP).
  private static let mostLinks = 40

  private static func directory(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
  }

  /// The target of a symbolic link, or `nil` if there is none of that name.
  private static func target(ofLink path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &buffer, buffer.count)
    guard count > 0 else { return nil }
    return String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Watches a path; where it is not there, the nearest directory above it, in which it may come.
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

  /// Takes what was told. Which file it was does not matter: all that counts is what they say now.
  ///
  /// - Returns: whether anything was told.
  @discardableResult
  func clear() -> Bool {
    guard self.fileDescriptor >= 0 else { return false }
    var buffer = [UInt8](repeating: 0, count: 4096)
    var isTold = false
    while read(self.fileDescriptor, &buffer, buffer.count) > 0 { isTold = true }
    return isTold
  }
}

import CLinux
import Connectivity
import Glibc

/// The seam to the files that say whom names are asked of. Owned by the monitor's thread.
protocol DNSSource {
  /// Becomes readable when something may have changed; -1 where nothing tells.
  var fileDescriptor: CInt { get }

  /// What holds now; `nil` where that cannot be read. What was told until now is over.
  func read() -> DNSSettings?
}

/// The files, and inotify(7), which tells when they may be others: an idle machine does not wake (D7).
final class DNSWatch: DNSSource {
  private let files: DNSFiles
  /// -1 where the user has no inotify instance left: then whom names are asked of is read at the start, and not again.
  let fileDescriptor: CInt

  /// What tells of a file that is written in place, and of one that is moved to another's place.
  private static let changes =
    UInt32(IN_CLOSE_WRITE) | UInt32(IN_MOVED_TO) | UInt32(IN_MOVED_FROM) | UInt32(IN_DELETE)
  /// What tells that a directory is there from now on.
  private static let arrivals = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO)

  init(_ files: DNSFiles = DNSFiles()) {
    self.files = files
    self.fileDescriptor = inotify_init1(CInt(IN_CLOEXEC) | CInt(IN_NONBLOCK))
  }

  deinit { if self.fileDescriptor >= 0 { close(self.fileDescriptor) } }

  func read() -> DNSSettings? {
    self.clear()
    // First the watches: what changes in between is told.
    self.watch()
    return self.files.read()
  }

  /// Watches what is there now. A watch that there is already stays as it is.
  private func watch() {
    guard self.fileDescriptor >= 0 else { return }
    for directory in self.files.directories {
      self.watch(directory, Self.changes | UInt32(IN_ONLYDIR))
    }
    // A link leads into a directory of somebody else's; a file that a container was lent is written where nobody sees the
    // directory change.
    let main = self.files.root + DNSFiles.main
    guard let path = Self.target(of: main) else { return }
    self.watch(path, Self.changes)
    if let end = path.lastIndex(of: "/") {
      self.watch(String(path[..<end]), Self.changes | UInt32(IN_ONLYDIR))
    }
  }

  /// Where a link leads to in the end, also if nothing is there yet: a resolver may start later.
  private static func target(of path: String) -> String? {
    if let target = realpath(path, nil) {
      defer { free(target) }
      return String(cString: target)
    }
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &buffer, buffer.count)
    guard count > 0, let end = path.lastIndex(of: "/") else { return nil }
    let target = String(
      decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    return target.hasPrefix("/") ? target : path[...end] + target
  }

  /// Watches a path; where it is not there, the nearest directory above it, in which it may come.
  private func watch(_ path: String, _ mask: UInt32) {
    var (path, mask) = (path, mask)
    while inotify_add_watch(self.fileDescriptor, path, mask | UInt32(IN_MASK_ADD)) < 0 {
      guard errno == ENOENT, let end = path.lastIndex(of: "/"), end != path.startIndex else {
        return
      }
      path = String(path[..<end])
      mask = Self.arrivals | UInt32(IN_ONLYDIR)
    }
  }

  private func clear() {
    guard self.fileDescriptor >= 0 else { return }
    var buffer = [UInt8](repeating: 0, count: 4096)
    // Which file it was does not matter: all that counts is what they say now.
    while Glibc.read(self.fileDescriptor, &buffer, buffer.count) > 0 {}
  }
}

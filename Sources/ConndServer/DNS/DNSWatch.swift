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

/// The files, and what tells when they may be others.
final class DNSWatch: DNSSource {
  private let files: DNSFiles
  private let changes = FileWatch()

  init(_ files: DNSFiles = DNSFiles()) { self.files = files }

  var fileDescriptor: CInt { self.changes.fileDescriptor }

  func read() -> DNSSettings? {
    self.changes.clear()
    // First the watches: what changes in between is told.
    self.watch()
    return self.files.read()
  }

  /// Watches what is there now.
  private func watch() {
    for directory in self.files.directories { self.changes.watch(directory: directory) }
    // A link leads into a directory of somebody else's; a file that a container was lent is written where nobody sees the
    // directory change.
    let main = self.files.root + DNSFiles.main
    guard let path = Self.target(of: main) else { return }
    self.changes.watch(file: path)
    if let end = path.lastIndex(of: "/") { self.changes.watch(directory: String(path[..<end])) }
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
}

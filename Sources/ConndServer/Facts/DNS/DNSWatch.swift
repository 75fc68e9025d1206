import Connectivity
import Glibc

/// The DNS files, and the watch that reports their changes.
final class DNSWatch: FactSource {
  private let files: DNSFiles
  private let changes = FileWatch()

  init(_ files: DNSFiles = DNSFiles()) { self.files = files }

  let timeout: Duration? = nil

  var descriptors: [pollfd] { [pollfd(readable: self.changes.fileDescriptor)] }

  func process() -> [FactUpdate] {
    self.changes.clear()
    // Watches are set before reading, so that changes in between are reported.
    self.watch()
    return self.files.read().map { [.dns($0)] } ?? []
  }

  /// Watches the files and directories that exist now.
  private func watch() {
    for directory in self.files.directories { self.changes.watch(directory: directory) }
    // resolv.conf is often a symbolic link into the directory of a resolver, sometimes through
    // another link.
    self.changes.watch(fileBehindLinks: self.files.root + DNSFiles.main)
  }
}

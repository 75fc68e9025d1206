import Connectivity

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
    // Resolvers make it a link into their own directory, sometimes by way of another link.
    self.changes.watch(fileBehindLinks: self.files.root + DNSFiles.main)
  }
}

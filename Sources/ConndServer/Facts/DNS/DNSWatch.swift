import Connectivity

/// The interface to the files with the DNS settings. Owned by the monitor thread.
protocol DNSSource {
  /// Becomes readable when the settings may have changed; -1 if changes go unnoticed.
  var fileDescriptor: CInt { get }

  /// Clears pending events and reads the settings, or returns `nil` if they cannot be read.
  func read() -> DNSSettings?
}

/// The DNS files, and the watch that reports their changes.
final class DNSWatch: DNSSource {
  private let files: DNSFiles
  private let changes = FileWatch()

  init(_ files: DNSFiles = DNSFiles()) { self.files = files }

  var fileDescriptor: CInt { self.changes.fileDescriptor }

  func read() -> DNSSettings? {
    self.changes.clear()
    // Watches are set before reading, so that changes in between are reported.
    self.watch()
    return self.files.read()
  }

  /// Watches the files and directories that exist now.
  private func watch() {
    for directory in self.files.directories { self.changes.watch(directory: directory) }
    // Resolvers make it a link into their own directory, sometimes through another link.
    self.changes.watch(fileBehindLinks: self.files.root + DNSFiles.main)
  }
}

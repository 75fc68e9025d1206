import Connectivity
import Glibc

/// The DNS files, and the watch that reports their changes.
///
/// A program that writes the resolver's file in place may first empty and close it
/// (`: >resolv.conf; cat new >resolv.conf`). So a file that has lost all its servers is read again
/// after a moment, unless it changes earlier.
final class DNSWatch: FactSource {
  private let files: DNSFiles
  private let changes = FileWatch()
  private let now: () -> ContinuousClock.Instant
  /// Whether the facts that were returned last have servers.
  private var hadServers = false
  /// When to accept a file without servers, or `nil` if none is pending.
  private var due: ContinuousClock.Instant?

  /// - Parameter now: The clock.
  init(
    _ files: DNSFiles = DNSFiles(),
    now: @escaping () -> ContinuousClock.Instant = { ContinuousClock.now }
  ) {
    (self.files, self.now) = (files, now)
  }

  /// How long a program may take to write a file that it has emptied.
  private static let maxWait = Duration.milliseconds(100)

  var timeout: Duration? { self.due.map { max(.zero, self.now().duration(to: $0)) } }

  var descriptors: [pollfd] { [pollfd(readable: self.changes.fileDescriptor)] }

  func process() -> [FactUpdate] {
    self.changes.clear()
    // Watches are set before reading, so that changes in between are reported.
    self.watch()
    guard let settings = self.files.read() else {
      self.due = nil
      return []
    }
    if settings.servers.isEmpty, self.hadServers, self.files.exist {
      let now = self.now()
      let due = self.due ?? now.advanced(by: Self.maxWait)
      guard due <= now else {
        self.due = due
        return []
      }
    }
    (self.due, self.hadServers) = (nil, !settings.servers.isEmpty)
    return [.dns(settings)]
  }

  /// Watches the files and directories that exist now.
  private func watch() {
    for directory in self.files.directories { self.changes.watch(directory: directory) }
    // resolv.conf is often a symbolic link into the directory of a resolver, sometimes through
    // another link.
    self.changes.watch(fileBehindLinks: self.files.root + DNSFiles.main)
  }
}

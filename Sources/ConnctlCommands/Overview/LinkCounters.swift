import Glibc

/// The kernel's counters for the links of this process's network namespace, read on demand.
///
/// The counters are read from /proc, because sysfs shows the namespace in which sysfs was mounted.
/// connd is not asked, because any process may read the counters without waking connd.
enum LinkCounters {
  /// Reads the counters, or returns `nil` if /proc does not have them.
  static func read() -> [String: Rates.Octets]? {
    let file = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count < Self.maxSize {
      let count = Glibc.read(file, &piece, piece.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += piece.prefix(count)
    }
    return Rates.Octets.reading(bytes)
  }

  /// The maximum size of the file in bytes, enough for 60,000 links.
  private static let maxSize = 8 << 20
}

/// The names of processes.
enum ProcessName {
  /// Returns the name as in ps(1) (proc_pid_comm(5)), or `nil` if the process does not exist or is
  /// hidden from this user.
  static func read(_ process: some BinaryInteger, in proc: String = "/proc") -> String? {
    ProcFiles.text(at: "\(proc)/\(process)/comm", upTo: 64).map { text in
      String(text.prefix { $0 != "\n" })
    }
  }
}

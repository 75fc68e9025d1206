import Glibc

/// The kernel's counters of the links of this process's network namespace, asked for when somebody looks.
///
/// From /proc and not from sysfs, which shows the namespace that it was mounted in; and not from connd, which need not be woken for
/// what every process may read.
enum LinkCounters {
  /// `nil` where /proc does not tell.
  static func read() -> [String: Rates.Octets]? {
    let file = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count < Self.most {
      let count = Glibc.read(file, &piece, piece.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += piece.prefix(count)
    }
    return Rates.Octets.reading(bytes)
  }

  /// Of sixty thousand links.
  private static let most = 8 << 20
}

/// What processes are called.
enum ProcessName {
  /// As ps(1) shows it (proc_pid_comm(5)); `nil` where there is no such process, or it is hidden from this user.
  static func read(_ process: UInt32) -> String? {
    let file = open("/proc/\(process)/comm", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = Glibc.read(file, &bytes, bytes.count)
    guard count > 0 else { return nil }
    return String(decoding: bytes.prefix(count).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
  }
}

import CLinux
import Glibc

/// Finds another program that manages the endpoints.
enum OtherManager {
  /// The name of the Multipath TCP daemon's process.
  static let name = "mptcpd"

  /// The number of a running mptcpd in this network namespace, or `nil` without one.
  static var process: pid_t? {
    guard let directory = opendir("/proc") else { return nil }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      guard let name = clinux_entry_name(entry), let process = pid_t(String(cString: name)) else {
        continue
      }
      if readFile("/proc/\(process)/comm") == self.name + "\n", self.sharesNamespace(process) {
        return process
      }
    }
    return nil
  }

  /// Also `true` if it is unknown.
  private static func sharesNamespace(_ process: pid_t) -> Bool {
    var (own, other) = (stat(), stat())
    guard stat("/proc/self/ns/net", &own) == 0, stat("/proc/\(process)/ns/net", &other) == 0 else {
      return true
    }
    return own.st_ino == other.st_ino
  }
}

import CLinux
import Glibc

/// Finds another program that manages the endpoints.
///
/// A name proves nothing, because any user may call a program mptcpd. So only a process that can
/// change the endpoints of this network namespace counts: it has CAP_NET_ADMIN in this user
/// namespace.
struct OtherManager {
  /// The name of the Multipath TCP daemon's process.
  static let name = "mptcpd"

  /// CAP_NET_ADMIN (linux/capability.h).
  private static let netAdmin = 12

  /// The mount point of proc(5).
  var proc = "/proc"

  /// The PID of a running mptcpd, or `nil` if none is running.
  var process: pid_t? {
    guard let directory = opendir(self.proc) else { return nil }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      guard let name = clinux_entry_name(entry), let process = pid_t(String(cString: name)) else {
        continue
      }
      if self.read(process, "comm") == Self.name + "\n", self.canManageEndpoints(process) {
        return process
      }
    }
    return nil
  }

  private func canManageEndpoints(_ process: pid_t) -> Bool {
    guard let status = self.read(process, "status"), Self.canAdministerNetworks(status) else {
      return false
    }
    // A process has all capabilities in its own user namespace, but no user can create a user
    // namespace with connd-multipath's uid map.
    let map = self.read(process, "uid_map")
    return map != nil && map == readFile("\(self.proc)/self/uid_map")
      && self.sharesNamespace(process)
  }

  /// Whether CAP_NET_ADMIN is in the effective or permitted set of a status file.
  private static func canAdministerNetworks(_ status: String) -> Bool {
    status.split(separator: "\n").contains { line in
      guard line.hasPrefix("CapEff:") || line.hasPrefix("CapPrm:") else { return false }
      let digits = line.drop { $0 != "\t" }.dropFirst()
      return (UInt64(digits, radix: 16) ?? 0) >> self.netAdmin & 1 != 0
    }
  }

  /// Whether a process is in this network namespace. If the namespace's link is not readable, inode
  /// numbers are compared: each namespace has its own files in /proc/PID/net.
  private func sharesNamespace(_ process: pid_t) -> Bool {
    for file in ["ns/net", "net/dev"] {
      if let own = self.number(of: "self/\(file)"),
        let other = self.number(of: "\(process)/\(file)")
      {
        return own == other
      }
    }
    return false
  }

  private func number(of file: String) -> ino_t? {
    var status = stat()
    return stat("\(self.proc)/\(file)", &status) == 0 ? status.st_ino : nil
  }

  private func read(_ process: pid_t, _ file: String) -> String? {
    readFile("\(self.proc)/\(process)/\(file)")
  }
}

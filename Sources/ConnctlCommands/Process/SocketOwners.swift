import Connectivity
import Glibc

/// A process that has a socket open.
struct SocketOwner: Hashable, Sendable {
  var process: Int
  /// The name of its program, at most 15 bytes (proc_pid_comm(5)).
  var name: String
}

/// Finds the processes that have sockets open, as far as this user may read /proc: the user's own,
/// or all for root.
enum SocketOwners {
  /// Returns the owners of sockets by the sockets' inode numbers. If several processes share a
  /// socket, the owner is the process with the lowest number, which usually made the socket.
  static func read(_ sockets: Set<UInt64>, in proc: String = "/proc") -> [UInt64: SocketOwner] {
    guard !sockets.isEmpty else { return [:] }
    var owners: [UInt64: SocketOwner] = [:]
    for process in (ProcFiles.entries(of: proc) ?? []).compactMap({ Int($0) }).sorted() {
      for descriptor in ProcFiles.entries(of: "\(proc)/\(process)/fd") ?? [] {
        guard let socket = ProcFiles.socket(at: "\(proc)/\(process)/fd/\(descriptor)"),
          sockets.contains(socket), owners[socket] == nil
        else { continue }
        owners[socket] = SocketOwner(
          process: process, name: ProcessName.read(process, in: proc)?.printable ?? "-")
      }
    }
    return owners
  }

  /// Returns the sockets of processes, of all kinds, by their inode numbers.
  ///
  /// - Returns: `nil` if this user may read the sockets of none of them.
  static func sockets(of processes: [Int], in proc: String = "/proc") -> Set<UInt64>? {
    var sockets: Set<UInt64> = []
    var isReadable = false
    for process in processes {
      let directory = "\(proc)/\(process)/fd"
      let descriptors = ProcFiles.entries(of: directory) ?? []
      isReadable = isReadable || !descriptors.isEmpty || access(directory, R_OK) == 0
      sockets.formUnion(descriptors.compactMap { ProcFiles.socket(at: "\(directory)/\($0)") })
    }
    return isReadable ? sockets : nil
  }

  /// Returns the numbers of the processes with a program's name (proc_pid_comm(5)). The kernel cuts
  /// names after 15 bytes.
  static func processes(named program: String, in proc: String = "/proc") -> [Int] {
    let name = Array(program.utf8.prefix(15))
    return (ProcFiles.entries(of: proc) ?? []).compactMap { Int($0) }.filter {
      ProcessName.read($0, in: proc).map { Array($0.utf8) == name } ?? false
    }.sorted()
  }
}

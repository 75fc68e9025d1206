import CLinux
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
    for process in self.entries(of: proc).compactMap({ Int($0) }).sorted() {
      for descriptor in self.entries(of: "\(proc)/\(process)/fd") {
        guard let socket = self.socket(at: "\(proc)/\(process)/fd/\(descriptor)"),
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
      let descriptors = self.entries(of: directory)
      isReadable = isReadable || !descriptors.isEmpty || access(directory, R_OK) == 0
      sockets.formUnion(descriptors.compactMap { self.socket(at: "\(directory)/\($0)") })
    }
    return isReadable ? sockets : nil
  }

  /// Returns the numbers of the processes with a program's name (proc_pid_comm(5)). The kernel cuts
  /// names after 15 bytes.
  static func processes(named program: String, in proc: String = "/proc") -> [Int] {
    let name = Array(program.utf8.prefix(15))
    return self.entries(of: proc).compactMap { Int($0) }.filter {
      ProcessName.read($0, in: proc).map { Array($0.utf8) == name } ?? false
    }.sorted()
  }

  private static func entries(of directory: String) -> [String] {
    guard let stream = opendir(directory) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = String(cString: clinux_entry_name(entry))
      if name.first?.isNumber == true { names.append(name) }
    }
    return names
  }

  /// Returns the number in `socket:[4711]`, or `nil` for a file of another kind.
  private static func socket(at path: String) -> UInt64? {
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = bytes.withUnsafeMutableBytes { bytes in
      bytes.baseAddress.map { readlink(path, $0, bytes.count) } ?? -1
    }
    guard count > 0 else { return nil }
    let target = String(decoding: bytes.prefix(count), as: UTF8.self)
    guard target.hasPrefix("socket:["), target.hasSuffix("]") else { return nil }
    return UInt64(target.dropFirst("socket:[".count).dropLast())
  }
}

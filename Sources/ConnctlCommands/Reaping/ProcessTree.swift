import CLinux
import Glibc

/// The descendants of a process, and the sockets that they have open, as /proc shows them.
enum ProcessTree {
  /// A descriptor of a process.
  struct Descriptor: Hashable, Sendable {
    var process: Int
    var number: CInt
  }

  /// Returns the descriptors of all sockets of the process's descendants, by the sockets' numbers.
  /// Orphans belong to the process if it is their subreaper (`PR_SET_CHILD_SUBREAPER`).
  ///
  /// - Parameter hidden: Receives each descendant that hides its descriptors from this user, and
  ///   the error.
  static func sockets(
    ofDescendantsOf root: Int, in proc: String = "/proc", hidden: (Int, CInt) -> Void = { _, _ in }
  ) -> [UInt64: [Descriptor]] {
    var sockets: [UInt64: [Descriptor]] = [:]
    for process in self.descendants(of: root, in: proc) {
      let directory = "\(proc)/\(process)/fd"
      guard let names = ProcFiles.entries(of: directory) else {
        // A process that has just ended is not hidden.
        if errno == EACCES { hidden(process, EACCES) }
        continue
      }
      for name in names {
        guard let number = CInt(name), let socket = ProcFiles.socket(at: "\(directory)/\(name)")
        else { continue }
        sockets[socket, default: []].append(Descriptor(process: process, number: number))
      }
    }
    return sockets
  }

  static func descendants(of root: Int, in proc: String = "/proc") -> [Int] {
    var children: [Int: [Int]] = [:]
    for process in (ProcFiles.entries(of: proc) ?? []).compactMap({ Int($0) }) {
      guard let parent = self.parent(of: process, in: proc) else { continue }
      children[parent, default: []].append(process)
    }
    var found: [Int] = []
    var next = children[root] ?? []
    while let process = next.popLast() {
      found.append(process)
      next += children[process] ?? []
    }
    return found
  }

  /// Returns the parent (proc_pid_stat(5)). The name before it may contain any character.
  private static func parent(of process: Int, in proc: String) -> Int? {
    guard let text = ProcFiles.text(at: "\(proc)/\(process)/stat", upTo: 512),
      let end = text.lastIndex(of: ")")
    else { return nil }
    let fields = text[text.index(after: end)...].split(separator: " ", maxSplits: 2)
    return fields.count > 1 ? Int(fields[1]) : nil
  }
}

import CLinux
import Glibc

/// The control groups of this machine (cgroups(7), version 2), by their ids.
struct ControlGroups: Sendable {
  /// The path of each group below the root.
  private var paths: [UInt64: String] = [:]

  /// The maximum depth of groups that are read.
  private static let maxDepth = 16

  /// Reads the groups. The id of a group is the inode number of its directory.
  static func read(in root: String = "/sys/fs/cgroup") -> ControlGroups {
    var groups = ControlGroups()
    groups.add(root, path: "", depth: 0)
    return groups
  }

  private mutating func add(_ root: String, path: String, depth: Int) {
    guard depth < Self.maxDepth, let stream = opendir(root + path) else { return }
    defer { closedir(stream) }
    var children: [String] = []
    while let entry = readdir(stream) {
      guard entry.pointee.d_type == UInt8(DT_DIR) else { continue }
      let name = String(cString: clinux_entry_name(entry))
      if name == "." {
        self.paths[UInt64(entry.pointee.d_ino)] = path
      } else if name != ".." {
        children.append(name)
      }
    }
    for child in children { self.add(root, path: "\(path)/\(child)", depth: depth + 1) }
  }

  /// Returns the systemd units that contain a group, the outermost first.
  func units(of group: UInt64) -> [String] {
    (self.paths[group] ?? "").split(separator: "/").map(String.init).filter { $0.contains(".") }
  }
}

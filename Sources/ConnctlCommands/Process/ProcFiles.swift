import CLinux
import Glibc

/// Reads files of /proc (proc(5)).
enum ProcFiles {
  /// Returns the numbered entries of a directory, or `nil` with `errno` set.
  static func entries(of directory: String) -> [String]? {
    guard let stream = opendir(directory) else { return nil }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = String(cString: clinux_entry_name(entry))
      if name.first?.isNumber == true { names.append(name) }
    }
    return names
  }

  /// Returns the number in `socket:[4711]`, or `nil` for a descriptor of another kind.
  static func socket(at path: String) -> UInt64? {
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = bytes.withUnsafeMutableBytes { bytes in
      bytes.baseAddress.map { readlink(path, $0, bytes.count) } ?? -1
    }
    guard count > 0 else { return nil }
    let target = String(decoding: bytes.prefix(count), as: UTF8.self)
    guard target.hasPrefix("socket:["), target.hasSuffix("]") else { return nil }
    return UInt64(target.dropFirst("socket:[".count).dropLast())
  }

  /// Returns the beginning of a file, or `nil` if it cannot be read.
  static func text(at path: String, upTo size: Int) -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: size)
    let count = Glibc.read(file, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
  }
}

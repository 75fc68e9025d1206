import CLinux
import Glibc
import UnixTransport

/// Finds the link that pppd(8) has created on a serial line. For a bearer over PPP, ModemManager
/// only names the line (`ttyUSB2`), and the kernel does not connect it with the link.
///
/// The lock file of the line and the PID file of the link name the same process. NetworkManager and
/// others have pppd lock the line.
struct SerialLines {
  /// The prefix of all paths. Empty outside of tests.
  var root = ""
  /// The owner of locks that are trusted. Any user may write to the directory.
  var owner: uid_t = 0

  private static let locks = "/run/lock"
  /// The directories of pppd versions before 2.5 and from 2.5 on.
  private static let numbers = ["/run", "/run/pppd"]
  /// In bytes.
  private static let longestNumber = 64
  /// /run has some dozens of files.
  private static let mostFiles = 4096

  static func isLine(_ name: String) -> Bool { name.hasPrefix("tty") }

  /// Returns the name of the link on a line, or `nil` if it is not known.
  func link(of line: String) -> String? {
    let lock = "\(self.root)\(Self.locks)/LCK..\(line)"
    var status = stat()
    guard lstat(lock, &status) == 0, status.st_uid == self.owner,
      let process = Self.number(in: lock)
    else { return nil }
    for directory in Self.numbers {
      for link in self.links(in: directory)
      where Self.number(in: "\(self.root)\(directory)/\(link).pid") == process { return link }
    }
    return nil
  }

  /// Returns the links that have a PID file.
  private func links(in directory: String) -> [String] {
    guard let stream = opendir(self.root + directory) else { return [] }
    defer { closedir(stream) }
    var (links, count): ([String], Int) = ([], 0)
    while let entry = readdir(stream), count < Self.mostFiles {
      count += 1
      let name = String(cString: clinux_entry_name(entry))
      let link = String(name.dropLast(4))
      // PID files of daemons, which belong to no link, are not opened.
      if name.hasSuffix(".pid"), if_nametoindex(link) != 0 { links.append(link) }
    }
    return links.sorted()
  }

  /// Returns the number that is the whole content of a file, or `nil` if there is anything else.
  private static func number(in path: String) -> pid_t? {
    guard let bytes = try? contents(of: path, most: Self.longestNumber, followsLinks: false) else {
      return nil
    }
    let digits = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
    return pid_t(digits).flatMap { $0 > 0 ? $0 : nil }
  }
}

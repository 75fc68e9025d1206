import CLinux
import Glibc
import UnixTransport

/// Which link pppd(8) makes of a serial line. ModemManager names the line (`ttyUSB2`) of a bearer that somebody has to run PPP over, and
/// the kernel does not tell the link's.
///
/// By the process that has locked the line, as NetworkManager and others have pppd do, and that has left its number for the link.
struct SerialLines {
  /// What all paths begin with; empty outside of tests.
  var root = ""
  /// Whose locks are believed: everybody may write to the directory.
  var owner: uid_t = 0

  private static let locks = "/run/lock"
  /// Of versions before and from 2.5 on.
  private static let numbers = ["/run", "/run/pppd"]
  /// In octets.
  private static let longestNumber = 64
  /// /run holds some dozens of files.
  private static let mostFiles = 4096

  /// Whether a name is that of a serial line.
  static func isLine(_ name: String) -> Bool { name.hasPrefix("tty") }

  /// The name of the link; `nil` where that is not known.
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

  /// Those for which a process has left its number.
  private func links(in directory: String) -> [String] {
    guard let stream = opendir(self.root + directory) else { return [] }
    defer { closedir(stream) }
    var (links, count): ([String], Int) = ([], 0)
    while let entry = readdir(stream), count < Self.mostFiles {
      count += 1
      let name = String(cString: clinux_entry_name(entry))
      let link = String(name.dropLast(4))
      // A daemon's own, which is no link's, is not looked into.
      if name.hasSuffix(".pid"), if_nametoindex(link) != 0 { links.append(link) }
    }
    return links.sorted()
  }

  /// The number that is all that a file holds.
  private static func number(in path: String) -> pid_t? {
    guard let bytes = try? contents(of: path, most: Self.longestNumber, followsLinks: false) else {
      return nil
    }
    let digits = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
    return pid_t(digits).flatMap { $0 > 0 ? $0 : nil }
  }
}

/// Maps serial lines to the links that pppd(8) has created on them. The kernel does not report
/// this, and for a bearer over PPP, ModemManager only names the line (`ttyUSB2`).
///
/// pppd writes its PID to a file named after the link. If NetworkManager or another program has
/// pppd lock the line, the lock file has the same PID. Any user may write to the lock directory and
/// replace a lock at any time. So a lock is opened first, and then its owner must be root.
///
/// Implements rule K5.
package struct SerialLines {
  private let root: String
  private let run: String
  private let files: any FileReader

  /// The maximum number of files in /run to consider. Usually there are some dozens.
  private static let maxFiles = 4096

  /// - Parameters:
  ///   - root: The mount point of sysfs.
  ///   - run: The directory for data that lasts until the next boot.
  ///   - files: Reads the files.
  package init(
    root: String = "/sys", run: String = "/run", from files: any FileReader = MachineFiles()
  ) {
    self.root = root
    self.run = run
    self.files = files
  }

  /// Returns whether the name is that of a serial line (`ttyUSB2`) rather than of a console
  /// (`tty2`) or a link.
  package static func isLine(_ name: String) -> Bool {
    let kind = name.dropFirst(3)
    return name.hasPrefix("tty") && !name.contains("/") && kind.first.map { !$0.isNumber } ?? false
  }

  /// Returns the name of the link on a line, or `nil` if it is not known.
  package func link(on line: String) -> String? {
    guard let process = self.owner(ofLine: line) else { return nil }
    for directory in self.directories {
      for link in self.links(in: directory)
      where self.number(.page, "\(directory)/\(link).pid") == process { return link }
    }
    return nil
  }

  /// Returns the PID in the lock of a line, or `nil` without a lock that belongs to root.
  func owner(ofLine line: String) -> UInt32? {
    self.number(.rootPage, "\(self.run)/lock/LCK..\(line)")
  }

  /// Returns the PID of the pppd of a link, or `nil` if it is not known.
  func owner(ofLink link: String) -> UInt32? {
    self.directories.lazy.compactMap { self.number(.page, "\($0)/\(link).pid") }.first
  }

  /// The directories for PID files of pppd before 2.5, and since 2.5.
  private var directories: [String] { [self.run, "\(self.run)/pppd"] }

  /// Returns the links that have a PID file. Ignores PID files that are not named after a link.
  private func links(in directory: String) -> [String] {
    self.files.names(in: directory, limit: Self.maxFiles).filter { $0.hasSuffix(".pid") }
      .map { String($0.dropLast(4)) }.filter(self.isLink).sorted()
  }

  private func isLink(_ name: String) -> Bool {
    let question = FileQuestion(.existence, "\(self.root)/class/net/\(name)")
    return (try? self.files.answer(question).get()) != nil
  }

  /// Returns the number in a file, or `nil` if the file contains anything else.
  private func number(_ kind: FileQuestion.Kind, _ path: String) -> UInt32? {
    guard let bytes = try? self.files.answer(FileQuestion(kind, path)).get(), bytes.count <= 64
    else { return nil }
    let digits = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
    return UInt32(digits).flatMap { $0 > 0 ? $0 : nil }
  }
}

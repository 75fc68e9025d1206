import CLinux
import Glibc

/// Something that is read of this machine beside netlink.
package struct FileQuestion: Hashable, Sendable {
  package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
    /// Whether there is such a path: the answer is empty, or ENOENT.
    case existence = 1
    /// The first 4096 bytes of a file: those of sysfs are no longer than a page.
    case page
    /// All of a file.
    case file
    /// What a symbolic link points to.
    case linkTarget
    /// The names in a directory, each with a zero byte after it, in no order.
    case names
    /// The index of the network link of this name (if_nametoindex(3)), in decimal.
    case linkIndex
    /// The name of the network link of this index, in decimal (if_indextoname(3)).
    case linkName
    /// As `page`, of a file that is root's and no symbolic link: for a directory to which everybody may write.
    case rootPage
  }

  package var kind: Kind
  /// The path, or what else is asked about.
  package var subject: String

  package init(_ kind: Kind, _ subject: String) {
    self.kind = kind
    self.subject = subject
  }
}

/// Why there is no answer: an errno.
package struct FileError: Error, Hashable, Sendable {
  package var code: CInt

  package init(code: CInt) { self.code = code }
}

package typealias FileAnswer = Result<[UInt8], FileError>

/// What answers questions about files: the machine, or a recording of what it answered once.
package protocol FileReader {
  func answer(_ question: FileQuestion) -> FileAnswer
}

/// The machine's files, as far as sysfs is asked for. (`linkIndex`, `linkName` and `file` are what others ask.)
package struct DeviceFiles: FileReader {
  private let root: UInt32

  /// - Parameter root: Who is root; another outside of machines.
  package init(root: UInt32 = 0) { self.root = root }

  package func answer(_ question: FileQuestion) -> FileAnswer {
    let answer: [UInt8]? =
      switch question.kind {
      case .existence: access(question.subject, F_OK) == 0 ? [] : nil
      case .page: page(question.subject)
      case .rootPage: page(question.subject, owner: self.root)
      case .linkTarget: target(ofLink: question.subject)
      case .names: names(in: question.subject)
      case .file, .linkIndex, .linkName: nil
      }
    return answer.map(FileAnswer.success) ?? .failure(FileError(code: errno))
  }
}

/// - Parameter owner: Whose it must be, and no symbolic link; `nil`: anybody's.
private func page(_ path: String, owner: uid_t? = nil) -> [UInt8]? {
  // Not waiting for the writer of a pipe that somebody has put there.
  let file = open(path, O_RDONLY | O_CLOEXEC | (owner == nil ? 0 : O_NOFOLLOW | O_NONBLOCK))
  guard file >= 0 else { return nil }
  defer { close(file) }
  if let owner {
    var status = stat()
    guard fstat(file, &status) == 0, status.st_uid == owner else {
      errno = EPERM
      return nil
    }
  }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = read(file, &bytes, bytes.count)
  return count >= 0 ? Array(bytes.prefix(count)) : nil
}

private func target(ofLink path: String) -> [UInt8]? {
  var target = [CChar](repeating: 0, count: Int(PATH_MAX))
  let count = readlink(path, &target, target.count)
  return count > 0 ? target.prefix(count).map(UInt8.init(bitPattern:)) : nil
}

private func names(in directory: String) -> [UInt8]? {
  guard let stream = opendir(directory) else { return nil }
  defer { closedir(stream) }
  var names: [UInt8] = []
  while let entry = readdir(stream) {
    let name = clinux_entry_name(entry)
    names += UnsafeRawBufferPointer(start: name, count: name.map(strlen) ?? 0)
    names.append(0)
  }
  return names
}

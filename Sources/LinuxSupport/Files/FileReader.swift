#if os(Linux)
  private import CLinux
#endif
#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A query about this machine that netlink does not answer.
package struct FileQuestion: Hashable, Sendable {
  package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
    /// Whether a path exists: the answer is empty, or ENOENT.
    case existence = 1
    /// The first 4096 bytes of a file. Files in sysfs are no longer than a page.
    case page
    /// The whole file.
    case file
    /// The target of a symbolic link.
    case linkTarget
    /// The names in a directory, each followed by a zero byte, in any order.
    case names
    /// The index of the network link with this name (if_nametoindex(3)), in decimal.
    case linkIndex
    /// The name of the network link with this index, in decimal (if_indextoname(3)).
    case linkName
    /// Like `page`, but the file must belong to root and must not be a symbolic link. For
    /// world-writable directories.
    case rootPage
  }

  package var kind: Kind
  /// The path, or another subject of the query.
  package var subject: String

  package init(_ kind: Kind, _ subject: String) {
    self.kind = kind
    self.subject = subject
  }
}

/// The bytes of the answer, or the error.
package typealias FileAnswer = Result<[UInt8], SystemError>

/// Answers queries about files: from this machine, or from a recording.
package protocol FileReader {
  func answer(_ question: FileQuestion) -> FileAnswer
}

extension FileReader {
  /// Returns the names in a directory, at most `limit` of them, or none if it cannot be read.
  package func names(in directory: String, limit: Int = .max) -> [String] {
    let names = (try? self.answer(FileQuestion(.names, directory)).get()) ?? []
    return names.split(separator: 0).prefix(limit).map { String(decoding: $0, as: UTF8.self) }
  }
}

/// The files of this machine.
package struct MachineFiles: FileReader {
  /// The maximum size of a whole file, in bytes.
  private static let maxFile = 64 * 1024

  private let root: UInt32

  /// - Parameter root: The user id of root. Tests may set another.
  package init(root: UInt32 = 0) { self.root = root }

  package func answer(_ question: FileQuestion) -> FileAnswer {
    switch question.kind {
    case .existence: access(question.subject, F_OK) == 0 ? .success([]) : .lastError
    case .page: page(question.subject)
    case .rootPage: page(question.subject, owner: self.root)
    case .file:
      FileAnswer { () throws(SystemError) in try contents(of: question.subject, max: Self.maxFile) }
    case .linkTarget: target(ofLink: question.subject)
    case .names: entries(of: question.subject)
    case .linkIndex: index(ofLink: question.subject)
    case .linkName:
      UInt32(question.subject).flatMap { linkName($0) }.map { .success(Array($0.utf8)) }
        ?? .failure(SystemError(ENXIO))
    }
  }
}

extension FileAnswer {
  /// The error of the system call that has just failed.
  fileprivate static var lastError: Self { .failure(SystemError()) }
}

/// - Parameter owner: The required owner (which excludes symbolic links), or `nil` for any.
private func page(_ path: String, owner: uid_t? = nil) -> FileAnswer {
  // O_NONBLOCK, because the file may be a pipe without a writer.
  let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (owner == nil ? 0 : O_NOFOLLOW))
  guard file >= 0 else { return .lastError }
  defer { close(file) }
  if let owner {
    var status = stat()
    guard fstat(file, &status) == 0 else { return .lastError }
    guard status.st_uid == owner else { return .failure(SystemError(EPERM)) }
  }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = read(file, &bytes, bytes.count)
  return count >= 0 ? .success(Array(bytes.prefix(count))) : .lastError
}

private func target(ofLink path: String) -> FileAnswer {
  var target = [CChar](repeating: 0, count: Int(PATH_MAX))
  let count = readlink(path, &target, target.count)
  return count > 0 ? .success(target.prefix(count).map(UInt8.init(bitPattern:))) : .lastError
}

private func index(ofLink name: String) -> FileAnswer {
  let index = if_nametoindex(name)
  return index == 0 ? .lastError : .success(Array("\(index)".utf8))
}

private func entries(of directory: String) -> FileAnswer {
  guard let stream = opendir(directory) else { return .lastError }
  defer { closedir(stream) }
  var names: [UInt8] = []
  while let entry = readdir(stream) {
    #if os(Linux)
      let name = clinux_entry_name(entry)
      names += UnsafeRawBufferPointer(start: name, count: name.map(strlen) ?? 0) + [0]
    #endif
  }
  return .success(names)
}

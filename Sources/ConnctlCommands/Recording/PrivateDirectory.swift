import ArgumentParser
import CLinux
import Glibc
import LinuxSupport

/// A directory that only this user can access, for as long as connctl runs.
struct PrivateDirectory: Sendable {
  let path: String

  /// - Throws: ``OutputError``.
  init() throws {
    // A socket's path has at most 107 bytes.
    let places = [Console.variable("XDG_RUNTIME_DIR"), Console.variable("TMPDIR"), "/tmp"]
      .compactMap { $0 }.filter {
        $0.hasPrefix("/") && $0.utf8.count < 80
      }
    for place in places {
      var template = Array("\(place)/connctl-XXXXXX".utf8CString)
      if mkdtemp(&template) != nil {
        self.path = String(
          decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        return
      }
    }
    throw OutputError(description: "cannot create a directory in /tmp: \(SystemError())")
  }

  /// Removes the directory and its files.
  func remove() {
    guard let stream = opendir(self.path) else { return }
    while let entry = readdir(stream) {
      let name = String(cString: clinux_entry_name(entry))
      if name != ".", name != ".." { unlink("\(self.path)/\(name)") }
    }
    closedir(stream)
    rmdir(self.path)
  }
}

/// A new file for the user, which never replaces an existing one.
struct NewFile: Sendable {
  let path: String

  /// - Throws: `ValidationError` if the name stands for standard output.
  static func checkName(_ path: String) throws {
    guard !["-", "/dev/stdout"].contains(path) else {
      throw ValidationError("“\(path)” is not a file: name a file that does not exist yet")
    }
  }

  /// - Throws: ``OutputError`` if the file exists or cannot be created.
  init(_ path: String) throws {
    // The file is private, because addresses and network names reveal the user's location.
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw OutputError(
        description: errno == EEXIST
          ? "\(path) already exists: name another file, or remove it"
          : "cannot create \(path): \(SystemError())")
    }
    close(descriptor)
    self.path = path
  }

  /// Writes the contents.
  ///
  /// - Throws: ``OutputError``.
  func write(_ bytes: [UInt8]) throws {
    let descriptor = open(self.path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      throw OutputError(description: "cannot write \(self.path): \(SystemError())")
    }
    defer { close(descriptor) }
    do {
      try bytes.withUnsafeBytes { try Console.writeAll($0, to: descriptor) }
    } catch let error as OutputError {
      throw OutputError(description: "\(self.path): \(error)")
    }
  }

  /// The size in bytes.
  var size: Int { Self.size(of: self.path) }

  static func size(of path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  /// - Throws: ``OutputError`` if the file cannot be read.
  static func contents(of path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      throw OutputError(description: "cannot read \(path): \(SystemError())")
    }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: Self.size(of: path))
    var count = 0
    while count < bytes.count {
      let part = bytes.withUnsafeMutableBytes { buffer in
        read(descriptor, buffer.baseAddress.map { $0 + count }, buffer.count - count)
      }
      if part < 0, errno == EINTR { continue }
      guard part > 0 else {
        throw OutputError(description: "cannot read \(path): \(SystemError())")
      }
      count += part
    }
    return bytes
  }

  func remove() { unlink(self.path) }
}

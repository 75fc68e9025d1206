import Glibc
import LinuxSupport
import Synchronization

/// The ID of one group, from /etc/group (group(5)). The file is read directly, because a name
/// service may hang on a directory server.
///
/// The file is read again when it has changed, on a separate thread because it may be long. Safe to
/// use from any thread.
final class GroupFile: Sendable {
  /// The maximum size of the file in bytes.
  private static let maxSize = 16 << 20

  private let path: String
  private let name: String
  private let known: Mutex<Known>

  private struct Known {
    var version: FileVersion?
    var id: UInt32?
  }

  /// Reads the file for the first time.
  init(name: String, path: String = "/etc/group") {
    (self.name, self.path) = (name, path)
    let version = FileVersion(of: path)
    self.known = Mutex(Known(version: version, id: Self.id(of: name, path)))
  }

  /// Returns the group's ID, or `nil` if the group does not exist.
  func id() async -> UInt32? {
    let version = FileVersion(of: self.path)
    let known = self.known.withLock { $0 }
    if version == known.version { return known.id }
    return await withCheckedContinuation { continuation in
      let isStarted = Thread.start(named: "connd-group") {
        let id = Self.id(of: self.name, self.path)
        self.known.withLock { $0 = Known(version: version, id: id) }
        continuation.resume(returning: id)
      }
      if !isStarted { continuation.resume(returning: nil) }
    }
  }

  private static func id(of name: String, _ path: String) -> UInt32? {
    guard let bytes = try? contents(of: path, max: Self.maxSize) else { return nil }
    let start = Array("\(name):".utf8)
    let line = bytes.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: start) }
    let fields = line?.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false) ?? []
    return fields.count > 2 ? UInt32(String(decoding: fields[2], as: UTF8.self)) : nil
  }
}

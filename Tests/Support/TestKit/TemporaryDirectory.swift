import Glibc

/// A test's own directory, removed with the last reference. Its path is short enough for Unix
/// sockets in it.
public final class TemporaryDirectory: Sendable {
  public let path: String

  public init() throws {
    var template = Array("/tmp/connd-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw CommandError("mkdtemp: errno \(errno)") }
    self.path = String(
      decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  deinit { _ = try? Command.run(["rm", "-rf", self.path]) }

  /// Lets every user in.
  public func open() { chmod(self.path, 0o755) }

  /// Writes a file, replacing an existing one.
  ///
  /// - Returns: Its path.
  @discardableResult
  public func write(_ text: String, to name: String) throws -> String {
    let path = "\(self.path)/\(name)"
    guard let file = fopen(path, "we") else { throw CommandError("\(path): errno \(errno)") }
    defer { fclose(file) }
    guard fputs(text, file) >= 0 else { throw CommandError("\(path): errno \(errno)") }
    return path
  }
}

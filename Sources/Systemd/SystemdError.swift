import Glibc

/// What systemd's interfaces answered instead of doing what they were asked for.
public struct SystemdError: Error, Hashable, CustomStringConvertible {
  /// What was tried, as it reads before a colon.
  public let operation: String

  /// The system's number for what went wrong.
  public let errno: Int32

  init(_ operation: String, errno: Int32) {
    self.operation = operation
    self.errno = errno
  }

  public var description: String {
    "\(self.operation): \(String(cString: strerror(self.errno)))"
  }
}

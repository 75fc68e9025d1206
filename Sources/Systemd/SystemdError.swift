import LinuxSupport

/// An error of systemd's interfaces.
public struct SystemdError: Error, Hashable, CustomStringConvertible {
  /// The operation that failed, to be shown before a colon.
  public let operation: String

  /// The errno.
  public let errno: Int32

  init(_ operation: String, errno: Int32) {
    self.operation = operation
    self.errno = errno
  }

  public var description: String {
    "\(self.operation): \(SystemError(self.errno))"
  }
}

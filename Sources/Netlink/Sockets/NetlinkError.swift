import Glibc
import LinuxSupport

/// The error of a netlink operation.
///
/// Implements rule K8.
package struct NetlinkError: Error, Hashable, Sendable {
  /// The operation, in the kernel's terms: `RTM_GETROUTE`, `join RTNLGRP_LINK`.
  package var operation: String
  /// The errno.
  package var code: CInt
  /// The kernel's explanation (`NLMSGERR_ATTR_MSG`), if any.
  package var message: String?
  /// Whether the kernel answered the request with this error. Such an error concerns that request
  /// alone. Any other error concerns the socket.
  package var isAnswer: Bool

  package init(
    operation: String, code: CInt, message: String? = nil, isAnswer: Bool = false
  ) {
    self.operation = operation
    self.code = code
    self.message = message
    self.isAnswer = isAnswer
  }

  /// Returns the kernel's error for one request.
  static func answer(_ operation: String, _ code: CInt, _ message: String? = nil) -> NetlinkError {
    NetlinkError(operation: operation, code: code, message: message, isAnswer: true)
  }

  /// Whether this process lacks the permission, because of a sandbox or a security module.
  package var isPermission: Bool { self.code == EPERM || self.code == EACCES }

  /// Whether this kernel does not support the operation.
  package var isUnsupported: Bool {
    switch self.code {
    case EOPNOTSUPP, EPROTONOSUPPORT, EAFNOSUPPORT, ENOPROTOOPT, ENOSYS: true
    default: false
    }
  }

  /// Returns the error of the C function that failed last.
  static func last(_ operation: String) -> NetlinkError {
    NetlinkError(operation: operation, code: errno)
  }
}

extension NetlinkError: CustomStringConvertible {
  package var description: String {
    "\(self.operation): \(SystemError(self.code))" + (self.message.map { " (\($0))" } ?? "")
  }
}

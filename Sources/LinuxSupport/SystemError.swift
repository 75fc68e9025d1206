#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// The error of a system call.
package struct SystemError: Error, Hashable, CustomStringConvertible {
  package var code: CInt

  package init(_ code: CInt = errno) {
    self.code = code
  }

  package var description: String { String(cString: strerror(self.code)) }
}

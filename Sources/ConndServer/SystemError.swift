import Glibc

/// What a system call answered.
struct SystemError: Error, Hashable, CustomStringConvertible {
  var code: CInt

  init(_ code: CInt = errno) {
    self.code = code
  }

  var description: String { String(cString: strerror(self.code)) }
}

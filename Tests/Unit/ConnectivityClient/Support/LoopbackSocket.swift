import Glibc
import TestKit

/// A TCP socket connected to a port of this machine.
final class LoopbackSocket {
  let descriptor: CInt

  init(port: Int) throws {
    self.descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    let result = LoopbackName(port: port).withPointer { connect(self.descriptor, $0, $1) }
    guard result == 0 else { throw CommandError("connect to port \(port): errno \(errno)") }
  }

  deinit { close(self.descriptor) }

  /// Whether a reader gets the end of the stream, or an error.
  var hasEnded: Bool {
    var byte: UInt8 = 0
    let count = recv(self.descriptor, &byte, 1, CInt(MSG_DONTWAIT))
    return count == 0 || count < 0 && errno != EAGAIN
  }
}

/// The bytes of a `sockaddr_in` of 127.0.0.1 (ip(7)). Several modules define that type, and which of
/// them the compiler finds depends on the other files that it compiles.
struct LoopbackName {
  private var bytes: [UInt8]

  init(port: Int = 0) {
    self.bytes = withUnsafeBytes(of: sa_family_t(AF_INET)) { Array($0) }
    self.bytes += [UInt8(truncatingIfNeeded: port >> 8), UInt8(truncatingIfNeeded: port)]
    self.bytes += [127, 0, 0, 1] + [UInt8](repeating: 0, count: 8)
  }

  var port: Int { Int(self.bytes[2]) << 8 | Int(self.bytes[3]) }

  func withPointer(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    self.bytes.withUnsafeBytes {
      body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
  }

  /// Reads the name of a bound socket.
  mutating func read(of descriptor: CInt) -> CInt {
    var length = socklen_t(self.bytes.count)
    return self.bytes.withUnsafeMutableBytes {
      getsockname(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
    }
  }
}

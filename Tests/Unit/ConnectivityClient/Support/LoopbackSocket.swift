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

/// The name of a port of 127.0.0.1 (ip(7)). Not a `sockaddr_in`: several modules define that type,
/// and which of them the compiler finds depends on the other files that it compiles.
struct LoopbackName {
  private var address = sockaddr()
  private static let size = socklen_t(MemoryLayout<sockaddr>.size)

  init(port: Int = 0) {
    self.address.sa_family = sa_family_t(AF_INET)
    withUnsafeMutableBytes(of: &self.address) { bytes in
      bytes[2] = UInt8(truncatingIfNeeded: port >> 8)
      bytes[3] = UInt8(truncatingIfNeeded: port)
      (bytes[4], bytes[7]) = (127, 1)
    }
  }

  var port: Int { withUnsafeBytes(of: self.address) { Int($0[2]) << 8 | Int($0[3]) } }

  func withPointer(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    withUnsafePointer(to: self.address) { body($0, Self.size) }
  }

  /// Reads the name of a bound socket.
  mutating func read(of descriptor: CInt) -> CInt {
    var length = Self.size
    return getsockname(descriptor, &self.address, &length)
  }
}

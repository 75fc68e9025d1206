import Glibc
import TestKit

/// A TCP socket connected to a port of this machine.
final class LoopbackSocket {
  let descriptor: CInt

  init(port: Int) throws {
    self.descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = in_port_t(truncatingIfNeeded: port).bigEndian
    let result = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        connect(self.descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else { throw CommandError("connect to port \(port): errno \(errno)") }
  }

  deinit { close(self.descriptor) }

  /// Whether a reader gets the end of the stream.
  var hasEnded: Bool {
    var byte: UInt8 = 0
    return recv(self.descriptor, &byte, 1, CInt(MSG_DONTWAIT)) == 0
  }
}

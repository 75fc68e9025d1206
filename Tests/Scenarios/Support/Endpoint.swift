import Glibc
import TestKit

/// An address and a port, IPv4 or IPv6.
struct Endpoint {
  var family: CInt
  private var storage = sockaddr_storage()
  private var length: socklen_t

  init(_ text: String, port: UInt16 = 0) throws {
    var (ipv4, ipv6) = (sockaddr_in(), sockaddr_in6())
    if inet_pton(AF_INET, text, &ipv4.sin_addr) == 1 {
      ipv4.sin_family = sa_family_t(AF_INET)
      ipv4.sin_port = port.bigEndian
      self.family = AF_INET
      self.length = socklen_t(MemoryLayout<sockaddr_in>.size)
      withUnsafeMutableBytes(of: &self.storage) { storage in
        withUnsafeBytes(of: ipv4) { storage.copyMemory(from: $0) }
      }
    } else if inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1 {
      ipv6.sin6_family = sa_family_t(AF_INET6)
      ipv6.sin6_port = port.bigEndian
      self.family = AF_INET6
      self.length = socklen_t(MemoryLayout<sockaddr_in6>.size)
      withUnsafeMutableBytes(of: &self.storage) { storage in
        withUnsafeBytes(of: ipv6) { storage.copyMemory(from: $0) }
      }
    } else {
      throw CommandError("\(text) is no address")
    }
  }

  func withAddress(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    withUnsafePointer(to: self.storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, self.length) }
    }
  }

  /// The local end of a socket.
  static func name(of descriptor: CInt) throws -> Endpoint {
    var endpoint = try Endpoint("::")
    endpoint.length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutablePointer(to: &endpoint.storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        getsockname(descriptor, $0, &endpoint.length)
      }
    }
    guard result == 0 else { throw CommandError("getsockname: errno \(errno)") }
    endpoint.family = CInt(endpoint.storage.ss_family)
    return endpoint
  }

  var port: UInt16 {
    // The port is at the same offset in both families.
    withUnsafeBytes(of: self.storage) {
      UInt16(bigEndian: $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
    }
  }

  var address: String {
    let isIPv4 = self.family == AF_INET
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    withUnsafeBytes(of: self.storage) { bytes in
      _ = inet_ntop(
        self.family, bytes.baseAddress?.advanced(by: isIPv4 ? 4 : 8), &text,
        socklen_t(text.count))
    }
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// `192.0.2.7:443`, `[2001:db8::7]:443`.
  var text: String {
    self.family == AF_INET ? "\(self.address):\(self.port)" : "[\(self.address)]:\(self.port)"
  }
}

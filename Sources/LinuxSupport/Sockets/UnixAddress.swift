#if canImport(Glibc)
  package import Glibc
#elseif canImport(Musl)
  package import Musl
#else
  package import Darwin
#endif

/// The address of a Unix socket: a path or an abstract name (unix(7)).
package struct UnixAddress: Sendable {
  /// The maximum length of a path in bytes, without the terminating zero.
  package static let maxPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private let address: sockaddr_un
  private let length: socklen_t

  /// - Returns: `nil` if the path is too long.
  package init?(path: String) {
    guard path.utf8.count <= Self.maxPath else { return nil }
    self.init(name: Array(path.utf8))
  }

  /// - Parameter name: A path, or a null byte and an abstract name. A path that fills the field has
  ///   no terminating zero.
  /// - Returns: `nil` if the name is too long.
  package init?(name: [UInt8]) {
    guard name.count <= Self.maxPath + 1 else { return nil }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    self.address = address
    let start = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
    self.length = socklen_t(start + name.count)
  }

  /// Calls bind(2), connect(2) or sendto(2) with the address.
  package func with<Result>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    withUnsafePointer(to: self.address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, self.length) }
    }
  }

  /// Returns the path of a socket, or `nil` if it has an abstract name or none.
  package static func path(of descriptor: CInt) -> String? {
    var address = sockaddr_un()
    var size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let result = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
    }
    guard result == 0 else { return nil }
    // A path that fills the field has no null byte, so its length is limited here.
    let path = withUnsafeBytes(of: address.sun_path) { $0.prefix { $0 != 0 } }
    return path.isEmpty ? nil : String(decoding: path, as: UTF8.self)
  }
}

/// Calls bind(2) or connect(2) with the address of a Unix socket. Fails with `ENAMETOOLONG` if the
/// path is too long.
package func withUnixAddress(
  _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
) -> CInt {
  guard let address = UnixAddress(path: path) else {
    errno = ENAMETOOLONG
    return -1
  }
  return address.with(body)
}

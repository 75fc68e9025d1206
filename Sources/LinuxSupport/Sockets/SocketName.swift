package import Connectivity

#if canImport(Glibc)
  package import Glibc
#elseif canImport(Musl)
  package import Musl
#else
  package import Darwin
#endif

/// The address and port of an IP socket: `struct sockaddr_in` or `sockaddr_in6`.
package struct SocketName: Hashable, Sendable {
  package var address: IPAddress
  package var port: UInt16
  /// The index of the link that a link-local address belongs to, or 0.
  package var link: UInt32

  package init(_ address: IPAddress, _ port: UInt16, link: UInt32 = 0) {
    self.address = address
    self.port = port
    self.link = link
  }

  /// - Parameter bytes: A `struct sockaddr` of any family. Other bytes may follow it.
  /// - Returns: `nil` if the address is neither IPv4 nor IPv6, or if bytes are missing.
  package init?(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= MemoryLayout<sockaddr_in>.size else { return nil }
    let address: IPAddress?
    switch CInt(bytes.loadUnaligned(as: sockaddr.self).sa_family) {
    case AF_INET:
      let name = bytes.loadUnaligned(as: sockaddr_in.self)
      address = withUnsafeBytes(of: name.sin_addr) { IPAddress(bytes: Array($0)) }
      self.port = UInt16(bigEndian: name.sin_port)
      self.link = 0
    case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
      let name = bytes.loadUnaligned(as: sockaddr_in6.self)
      address = withUnsafeBytes(of: name.sin6_addr) { IPAddress(bytes: Array($0)) }
      self.port = UInt16(bigEndian: name.sin6_port)
      self.link = name.sin6_scope_id
    default: return nil
    }
    guard let address else { return nil }
    self.address = address
  }

  /// - Parameter pointer: An address of any family, with the full length for that family.
  /// - Returns: `nil` if the address is neither IPv4 nor IPv6.
  package init?(_ pointer: UnsafePointer<sockaddr>) {
    let isIPv6 = CInt(pointer.pointee.sa_family) == AF_INET6
    let size = isIPv6 ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size
    self.init(UnsafeRawBufferPointer(start: pointer, count: size))
  }

  /// The name with an IPv4 address instead of an IPv4-mapped IPv6 address.
  package var unmapped: SocketName {
    SocketName(self.address.unmapped, self.port, link: self.link)
  }

  /// The address, with the zone if it is link-local, as getnameinfo(3) returns it.
  package var host: String {
    let zone = self.link == 0 ? "" : "%\(linkName(self.link) ?? "\(self.link)")"
    return "\(self.address)\(zone)"
  }

  /// Calls bind(2) or connect(2) with the name.
  package func with(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    func call<Name>(_ name: Name) -> CInt {
      withUnsafePointer(to: name) { name in
        name.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          body($0, socklen_t(MemoryLayout<Name>.size))
        }
      }
    }
    switch self.address.family {
    case .ipv4:
      var name = sockaddr_in()
      name.sin_family = sa_family_t(AF_INET)
      name.sin_port = self.port.bigEndian
      withUnsafeMutableBytes(of: &name.sin_addr) { $0.copyBytes(from: self.address.bytes) }
      return call(name)
    case .ipv6:
      var name = sockaddr_in6()
      name.sin6_family = sa_family_t(AF_INET6)
      name.sin6_port = self.port.bigEndian
      name.sin6_scope_id = self.link
      withUnsafeMutableBytes(of: &name.sin6_addr) { $0.copyBytes(from: self.address.bytes) }
      return call(name)
    }
  }
}

import Connectivity
import Glibc

/// Calls `body` with an address and a port in the form of the socket calls.
func withSocketAddress<Result>(
  _ address: IPAddress, _ port: UInt16, scope: UInt32 = 0,
  _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
  func pass<Target>(_ target: Target) -> Result {
    withUnsafePointer(to: target) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<Target>.size))
      }
    }
  }
  switch address.family {
  case .ipv4:
    var target = sockaddr_in()
    target.sin_family = sa_family_t(AF_INET)
    target.sin_port = in_port_t(port).bigEndian
    withUnsafeMutableBytes(of: &target.sin_addr) { $0.copyBytes(from: address.bytes) }
    return pass(target)
  case .ipv6:
    var target = sockaddr_in6()
    target.sin6_family = sa_family_t(AF_INET6)
    target.sin6_port = in_port_t(port).bigEndian
    target.sin6_scope_id = scope
    withUnsafeMutableBytes(of: &target.sin6_addr) { $0.copyBytes(from: address.bytes) }
    return pass(target)
  }
}

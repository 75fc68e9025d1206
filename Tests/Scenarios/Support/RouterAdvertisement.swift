import Glibc
import TestKit

/// A router advertisement (RFC 4861).
struct RouterAdvertisement {
  /// How many seconds hosts may use it as their default router.
  var lifetime: UInt16
  /// The URI of the network's captive portal (RFC 8910), if it advertises one.
  var portal: String?

  private var options: [UInt8] {
    guard let portal = self.portal else { return [] }
    let text = Array(portal.utf8)
    let units = (2 + text.count + 7) / 8
    let padding = [UInt8](repeating: 0, count: units * 8 - 2 - text.count)
    return [37, UInt8(units)] + text + padding
  }

  /// Sends it repeatedly, as routers do, until the kernel has a route with a lifetime over that
  /// link.
  ///
  /// - Parameter router: the router's own address, or any.
  func announce(to laboratory: Laboratory, by link: String, as router: String = "") throws {
    try self.announce(to: laboratory, by: link) {
      try laboratory.namespace.ip("-6 route show default").split(separator: "\n")
        .contains { $0.contains("via \(router)") && $0.contains("expires") }
    }
  }

  /// Sends it repeatedly until it `hasArrived`.
  ///
  /// One advertisement can get lost: the kernel reports a carrier up to a second late, and neither
  /// end uses IPv6 before.
  func announce(to laboratory: Laboratory, by link: String, until hasArrived: () throws -> Bool)
    throws
  {
    try waitUntil("the router behind \(link) is known") {
      try self.send(from: laboratory.outside, by: link)
      return try hasArrived()
    }
  }

  /// Sends it to all hosts of a link, from the link's own address.
  func send(from namespace: NetworkNamespace, by link: String) throws {
    let message: [UInt8] =
      [
        134, 0, 0, 0,  // type, code, and the checksum, which the kernel fills in
        64, 0,  // hop limit, flags
        UInt8(self.lifetime >> 8), UInt8(truncatingIfNeeded: self.lifetime),
        0, 0, 0, 0, 0, 0, 0, 0,  // reachable time, retransmission timer: unspecified
      ] + self.options
    try namespace.perform {
      let descriptor = socket(
        AF_INET6, CInt(SOCK_RAW.rawValue) | CInt(SOCK_CLOEXEC.rawValue), CInt(IPPROTO_ICMPV6))
      guard descriptor >= 0 else { throw CommandError("socket: errno \(errno)") }
      defer { close(descriptor) }
      // Hosts ignore advertisements that a router has forwarded.
      var (hops, index): (CInt, CInt) = (255, CInt(if_nametoindex(link)))
      let size = socklen_t(MemoryLayout<CInt>.size)
      setsockopt(descriptor, CInt(IPPROTO_IPV6), IPV6_MULTICAST_HOPS, &hops, size)
      setsockopt(descriptor, CInt(IPPROTO_IPV6), IPV6_MULTICAST_IF, &index, size)
      let sent = try Endpoint("ff02::1").withAddress {
        CInt(sendto(descriptor, message, message.count, 0, $0, $1))
      }
      guard sent == message.count else {
        throw CommandError("router advertisement by \(link): errno \(errno)")
      }
    }
  }
}

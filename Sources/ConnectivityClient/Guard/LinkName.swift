internal import Connectivity

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The name of the link of an index; `nil` where there is none, as of 0.
func linkName(_ index: UInt32) -> String? {
  var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
  guard index != 0, if_indextoname(index, &name) != nil else { return nil }
  return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
}

extension IPAddress {
  /// Whether it is another host's on each link, so that connect(2) binds the socket to the one that is named with it (RFC 4007).
  var needsLink: Bool { self.family == .ipv6 && self.isLinkLocal }
}

import Connectivity
import Glibc

/// The error of a name that cannot be resolved, in the resolver's words.
struct ResolutionError: Error, CustomStringConvertible {
  var description: String
}

enum Resolver {
  /// An address, and its link if it is link-local and the link is known.
  struct Host: Hashable {
    var address: IPAddress
    var link: String?
  }

  /// Returns the addresses of a host, unique and in the order in which applications try them (RFC
  /// 6724). An address is returned as it is; an IPv4-mapped one as the IPv4 address.
  ///
  /// The corresponding C function is `getaddrinfo`, which blocks.
  static func hosts(of host: String) throws(ResolutionError) -> [Host] {
    if let address = IPAddress(host) { return [Host(address: address.unmapped)] }
    guard !self.isMoreThanHost(host) else {
      throw ResolutionError(
        description:
          "“\(host)” is not a host name or address: omit port, brackets and prefix")
    }
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    let result = getaddrinfo(host, nil, &hints, &list)
    guard result == 0 else {
      let why =
        result == EAI_SYSTEM
        ? strerror(errno) : UnsafeMutablePointer(mutating: gai_strerror(result))
      let words = why.map { String(cString: $0) } ?? "error \(result)"
      let link =
        if_nametoindex(host) == 0 ? "" : " (it is a link of this machine: “connctl links” shows it)"
      throw ResolutionError(description: "cannot resolve “\(host)”: \(words)\(link)")
    }
    defer { freeaddrinfo(list) }
    var hosts: [Host] = []
    for entry in sequence(first: list, next: { $0?.pointee.ai_next }) {
      guard let entry, let address = Self.address(entry.pointee),
        !hosts.contains(where: { $0.address == address })
      else { continue }
      hosts.append(Host(address: address, link: Self.link(entry.pointee)))
    }
    guard !hosts.isEmpty else {
      throw ResolutionError(description: "“\(host)” has no IPv4 or IPv6 address")
    }
    return hosts
  }

  /// Whether the text is more than a host, as often copied from elsewhere: `192.0.2.1:443`,
  /// `[2001:db8::1]`, `192.0.2.0/24`, `https://example.com/`. The part after a `%` is an address's
  /// link, which the resolver handles.
  static func isMoreThanHost(_ text: String) -> Bool {
    text.contains { "/[]".contains($0) } || (text.contains(":") && !text.contains("%"))
  }

  private static func link(_ entry: addrinfo) -> String? {
    guard entry.ai_family == AF_INET6, let pointer = entry.ai_addr else { return nil }
    return self.linkName(
      UnsafeRawPointer(pointer).loadUnaligned(as: sockaddr_in6.self).sin6_scope_id)
  }

  /// Returns the name of the link with an index, or `nil` if it does not exist, as for 0.
  static func linkName(_ index: UInt32) -> String? {
    var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
    guard index != 0, if_indextoname(index, &name) != nil else { return nil }
    return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  private static func address(_ entry: addrinfo) -> IPAddress? {
    guard let pointer = entry.ai_addr else { return nil }
    let raw = UnsafeRawPointer(pointer)
    switch entry.ai_family {
    case AF_INET:
      let address = raw.loadUnaligned(as: sockaddr_in.self).sin_addr
      return IPAddress(bytes: withUnsafeBytes(of: address) { Array($0) })
    case AF_INET6:
      let address = raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr
      return IPAddress(bytes: withUnsafeBytes(of: address) { Array($0) })?.unmapped
    default:
      return nil
    }
  }
}

import Connectivity
import Glibc

/// A name that the system's resolver does not know, in its words.
struct ResolutionError: Error, CustomStringConvertible {
  var description: String
}

enum Resolver {
  /// The addresses of a host, in the order in which applications try them (RFC 6724), each once. An address stands
  /// for itself, one that is mapped to IPv6 for the IPv4 address.
  ///
  /// The corresponding C function is `getaddrinfo`; it blocks.
  static func addresses(of host: String) throws(ResolutionError) -> [IPAddress] {
    if let address = IPAddress(host) { return [address.unmapped] }
    guard !self.isMoreThanHost(host) else {
      throw ResolutionError(
        description:
          "“\(host)” is no name or address of a host: leave out port, brackets and prefix")
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
      throw ResolutionError(description: "cannot resolve “\(host)”: \(words)")
    }
    defer { freeaddrinfo(list) }
    var addresses: [IPAddress] = []
    for entry in sequence(first: list, next: { $0?.pointee.ai_next }) {
      guard let entry, let address = Self.address(entry.pointee), !addresses.contains(address)
      else { continue }
      addresses.append(address)
    }
    guard !addresses.isEmpty else {
      throw ResolutionError(description: "“\(host)” has no IPv4 or IPv6 address")
    }
    return addresses
  }

  /// What people copy from elsewhere: `192.0.2.1:443`, `[2001:db8::1]`, `192.0.2.0/24`, `https://example.com/`. What
  /// follows a `%` is the link of an address, which is the resolver's matter.
  static func isMoreThanHost(_ text: String) -> Bool {
    text.contains { "/[]".contains($0) } || (text.contains(":") && !text.contains("%"))
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

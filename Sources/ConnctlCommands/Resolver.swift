import Connectivity
import Glibc
import LinuxSupport

/// The error of a name that cannot be resolved, with the resolver's text.
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
  /// Blocks.
  static func hosts(of host: String) throws(ResolutionError) -> [Host] {
    guard !host.isEmpty else {
      throw ResolutionError(description: "a host name or an address is missing")
    }
    if let address = IPAddress(host) { return [Host(address: address.unmapped)] }
    let parts = host.split(separator: "%", maxSplits: 1).map(String.init)
    if parts.count == 2, IPAddress(parts[0]) != nil, UInt32(parts[1]) == nil,
      if_nametoindex(parts[1]) == 0
    {
      throw ResolutionError(description: "there is no link “\(parts[1])”")
    }
    guard !self.isMoreThanHost(host) else {
      throw ResolutionError(
        description:
          "“\(host)” is not a host name or address: omit port, brackets and prefix")
    }
    let names: [SocketName]
    do throws(HostLookupError) {
      names = try addresses(ofHost: host).map(\.unmapped)
    } catch {
      let link =
        if_nametoindex(host) == 0 ? "" : " (it is a link of this machine: “connctl links” shows it)"
      throw ResolutionError(description: "cannot resolve “\(host)”: \(error)\(link)")
    }
    var hosts: [Host] = []
    for name in names where !hosts.contains(where: { $0.address == name.address }) {
      hosts.append(Host(address: name.address, link: linkName(name.link)))
    }
    guard !hosts.isEmpty else {
      throw ResolutionError(description: "“\(host)” has no IPv4 or IPv6 address")
    }
    return hosts
  }

  /// Whether the text contains more than a host, as copied texts often do: `192.0.2.1:443`,
  /// `[2001:db8::1]`, `192.0.2.0/24`, `https://example.com/`. The part after a `%` is an address's
  /// link, which the resolver handles.
  static func isMoreThanHost(_ text: String) -> Bool {
    text.contains { "/[]".contains($0) } || (text.contains(":") && !text.contains("%"))
  }
}

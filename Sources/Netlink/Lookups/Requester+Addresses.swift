import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// Returns an address of a link, and further addresses that the kernel reports with it, because
  /// RTM_GETADDR cannot query a single IPv4 address. The address is missing if the link does not
  /// have it or does not exist, or the kernel lacks the family.
  package func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(NetlinkError) -> [Address] {
    switch address.family {
    case .ipv4: return try self.addresses(of: .ipv4, on: link)
    case .ipv6:
      var request = Request(
        Int(RTM_GETADDR), "RTM_GETADDR", header: Self.header(.ipv6, link: link))
      request.put(Int(IFA_ADDRESS), address)
      let absences = [EADDRNOTAVAIL, ENODEV, EOPNOTSUPP, EAFNOSUPPORT]
      let found = try self.object(request, absentIf: absences) { Address(message: $0) }
      // If the link does not exist, the kernel searches for the address on all links.
      return found?.link == link ? [found].compactMap { $0 } : []
    }
  }

  /// Returns the IPv4 and IPv6 addresses of one or all links. Returns an empty array if the link
  /// does not exist.
  package func addresses(on link: UInt32? = nil) throws(NetlinkError) -> [Address] {
    try self.addresses(of: .ipv4, on: link) + self.addresses(of: .ipv6, on: link)
  }

  private func addresses(
    of family: AddressFamily, on link: UInt32?
  ) throws(NetlinkError) -> [Address] {
    // With strict checking, the kernel visits only that link's addresses.
    let request = Request(
      Int(RTM_GETADDR), "RTM_GETADDR", isDump: true,
      header: Self.header(family, link: link ?? 0))
    do throws(NetlinkError) {
      return try self.objects(request) { message in
        guard
          Int(message.type) == Int(RTM_NEWADDR), let address = Address(message: message),
          // A kernel without IPv6 lists the addresses of all its families instead.
          address.address.family == family,
          link == nil || address.link == link
        else { return nil }
        return address
      }
    } catch {
      let isWithoutFamily = family == .ipv6 && error.isUnsupported
      guard error.code == ENODEV || isWithoutFamily else { throw error }
      return []
    }
  }

  private static func header(_ family: AddressFamily, link: UInt32) -> ifaddrmsg {
    var header = ifaddrmsg()
    header.ifa_family = family.netlinkNumber
    header.ifa_index = link
    return header
  }
}

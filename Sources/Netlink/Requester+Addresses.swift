import CLinux
package import Connectivity
import Glibc

extension Requester {
  /// An address of a link, with those that the kernel tells with it: for IPv4 there is no RTM_GETADDR of a single one. It is not
  /// among them where the link has it not, or does not exist, or the kernel has no such family.
  package func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(NetlinkError) -> [Address] {
    switch address.family {
    case .ipv4: return try self.addresses(of: .ipv4, on: link)
    case .ipv6:
      var request = Request(
        Int(RTM_GETADDR), "RTM_GETADDR", header: Self.header(.ipv6, link: link))
      request.put(Int(IFA_ADDRESS), address)
      let absences: Set<CInt> = [EADDRNOTAVAIL, ENODEV, EOPNOTSUPP, EAFNOSUPPORT]
      let found = try self.object(request, absentIf: absences) { Address(message: $0) }
      // For a link that does not exist the kernel answers with any link's.
      return found?.link == link ? [found].compactMap { $0 } : []
    }
  }

  /// The IPv4 and IPv6 addresses of a link, or of all. A link that does not exist has none.
  package func addresses(on link: UInt32? = nil) throws(NetlinkError) -> [Address] {
    try self.addresses(of: .ipv4, on: link) + self.addresses(of: .ipv6, on: link)
  }

  private func addresses(
    of family: AddressFamily, on link: UInt32?
  ) throws(NetlinkError) -> [Address] {
    // Under strict checking the kernel walks the addresses of that link alone.
    let request = Request(
      Int(RTM_GETADDR), "RTM_GETADDR", isDump: true,
      header: Self.header(family, link: link ?? 0))
    do throws(NetlinkError) {
      return try self.objects(request) { message in
        guard
          Int(message.type) == Int(RTM_NEWADDR), let address = Address(message: message),
          // A kernel without IPv6 takes the question for one about all families that it has.
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

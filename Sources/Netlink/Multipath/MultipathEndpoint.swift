import CLinux
package import Connectivity
import Glibc

/// An endpoint of Multipath TCP: an address from which the kernel adds subflows to connections.
package struct MultipathEndpoint: Hashable, Sendable {
  package struct Flags: OptionSet, Hashable, Sendable {
    package var rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The address is announced to peers.
    package static let signal = Flags(rawValue: 1 << 0)
    /// The kernel makes subflows from the address.
    package static let subflow = Flags(rawValue: 1 << 1)
    /// The endpoint's subflows carry data only if no other subflow does.
    package static let backup = Flags(rawValue: 1 << 2)
    /// The kernel created the endpoint, for the address of a subflow without one.
    package static let implicit = Flags(rawValue: 1 << 4)
  }

  /// The kernel's number for the endpoint, or 0 before it is added.
  package var id: UInt8
  package var address: IPAddress
  /// The index of the link that the endpoint's subflows are bound to, or 0 if they are not bound.
  package var link: UInt32
  package var flags: Flags

  package init(id: UInt8 = 0, _ address: IPAddress, link: UInt32, _ flags: Flags) {
    self.id = id
    self.address = address
    self.link = link
    self.flags = flags
  }
}

/// The numbers of linux/mptcp.h, which are ABI. The header is missing in old kernel headers.
enum MultipathNumbers {
  static let family = "mptcp_pm"
  /// The multicast group of events about connections. The kernel sends no events about changed
  /// endpoints.
  static let events = "mptcp_pm_events"

  enum Command: UInt8 {
    case add = 1
    case delete = 2
    case get = 3
    case setFlags = 7
  }

  /// `MPTCP_PM_ATTR_ADDR`.
  static let endpoint = 1

  // MPTCP_PM_ADDR_ATTR_*
  static let addressFamily = 1
  static let id = 2
  static let address4 = 3
  static let address6 = 4
  static let flags = 6
  static let link = 7
}

extension MultipathEndpoint {
  private typealias Numbers = MultipathNumbers

  /// Reads an answer to `MPTCP_PM_CMD_GET_ADDR`. Returns `nil` if it is malformed.
  init?(message: Message) {
    var attributes = AttributeReader(message.payload, after: MemoryLayout<genlmsghdr>.size)
    guard var endpoint = attributes.nested(in: Numbers.endpoint) else { return nil }
    var (id, address): (UInt8?, IPAddress?)
    var link: UInt32 = 0
    var flags: Flags = []
    while let attribute = endpoint.next() {
      switch attribute.type {
      case Numbers.id: id = attribute.payload.uint8
      case Numbers.address4: address = attribute.payload.address(.ipv4)
      case Numbers.address6: address = attribute.payload.address(.ipv6)?.unmapped
      case Numbers.flags: flags = Flags(rawValue: attribute.payload.uint32 ?? 0)
      case Numbers.link: link = attribute.payload.uint32 ?? 0
      default: break
      }
    }
    guard !attributes.isMalformed, !endpoint.isMalformed, let id, let address else { return nil }
    self.init(id: id, address, link: link, flags)
  }

  /// Adds the endpoint's attributes to a request. Without an id, the kernel chooses one.
  func put(into request: inout Request) {
    request.nest(Numbers.endpoint) { request in
      request.put(Numbers.flags, self.flags.rawValue)
      if self.link != 0 { request.put(Numbers.link, self.link) }
      if self.id != 0 { request.put(Numbers.id, self.id) }
      Self.put(self.address, into: &request)
    }
  }

  static func put(_ address: IPAddress, into request: inout Request) {
    request.put(Numbers.addressFamily, UInt16(address.family.netlinkNumber))
    let type = address.family == .ipv4 ? Numbers.address4 : Numbers.address6
    request.put(type, address)
  }
}

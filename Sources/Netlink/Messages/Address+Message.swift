import CLinux
import Connectivity
import Glibc

extension Address {
  /// Reads RTM_NEWADDR and RTM_DELADDR. Returns `nil` if the message is malformed or of another
  /// family than IPv4 and IPv6.
  init?(message: Message) {
    guard
      let family = message.payload.uint8.flatMap(AddressFamily.init(netlink:)),
      let length = message.payload.load(UInt8.self, at: 1).map(Int.init),
      let shortFlags = message.payload.load(UInt8.self, at: 2),
      let link = message.payload.load(UInt32.self, at: 4),
      length <= family.bitWidth
    else { return nil }

    var (local, other): (IPAddress?, IPAddress?)
    var flags = UInt32(shortFlags)
    var attributes = AttributeReader(message.payload, after: MemoryLayout<ifaddrmsg>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(IFA_LOCAL): local = attribute.payload.address(family)
      case Int(IFA_ADDRESS): other = attribute.payload.address(family)
      case Int(IFA_FLAGS): flags = attribute.payload.uint32 ?? flags
      default: break
      }
    }
    // On a point-to-point link IFA_ADDRESS is the peer's address.
    guard !attributes.isMalformed, let address = local ?? other else { return nil }
    // IPv4's IFA_F_SECONDARY has the same value as IPv6's IFA_F_TEMPORARY.
    if family == .ipv4 { flags &= ~AddressFlags.temporary.rawValue }
    self.init(
      address, prefixLength: length, link: link, flags: AddressFlags(rawValue: flags))
  }
}

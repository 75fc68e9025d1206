import CLinux
import Connectivity

extension Neighbour {
  /// Reads RTM_NEWNEIGH. Returns `nil` if the message is malformed or of another family than IPv4
  /// and IPv6.
  init?(message: Message) {
    guard
      let family = message.payload.uint8.flatMap(AddressFamily.init(netlink:)),
      let index = message.payload.load(Int32.self, at: 4), index > 0,
      let state = message.payload.load(UInt16.self, at: 8)
    else { return nil }

    var address: IPAddress?
    var hardwareAddress: [UInt8] = []
    var confirmed: Duration?
    var attributes = AttributeReader(message.payload, after: MemoryLayout<ndmsg>.size)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(NDA_DST): address = attribute.payload.address(family)
      case Int(NDA_LLADDR): hardwareAddress = attribute.payload.array
      case Int(NDA_CACHEINFO):
        // The first field of nda_cacheinfo.
        confirmed = attribute.payload.uint32.map { Self.precision * Int($0) }
      default: break
      }
    }
    guard !attributes.isMalformed, let address else { return nil }
    // An entry that is incomplete or failed may still contain its former address.
    let isKnown = CInt(state) & Self.valid != 0 && !hardwareAddress.isEmpty
    self.init(
      address, link: UInt32(index), hardwareAddress: isKnown ? hardwareAddress : nil,
      isFailed: CInt(state) & NUD_FAILED != 0, confirmed: confirmed)
  }

  /// The kernel's NUD_VALID, which its headers do not export.
  private static let valid =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY
}

import CLinux
import Connectivity

extension PortalAdvertisement {
  /// The type of the captive-portal option (RFC 8910, 2.3).
  static let option: UInt8 = 37

  /// The offset of the option in a message, which has one option: nlmsghdr, then nduseroptmsg.
  static let offset = MemoryLayout<nlmsghdr>.size + MemoryLayout<nduseroptmsg>.size

  /// Reads RTM_NEWNDUSEROPT. Returns `nil` if the message is malformed, or has another option.
  init?(message: Message) {
    let header = MemoryLayout<nduseroptmsg>.size
    let option = message.payload.slice(from: header)
    guard Int(message.type) == Int(RTM_NEWNDUSEROPT),
      let link = message.payload.load(Int32.self, at: 4), link > 0,
      option.uint8 == Self.option,
      // The length counts units of eight bytes, and the URI is padded with zeros.
      let length = option.load(UInt8.self, at: 1).map({ Int($0) * 8 }), length <= option.count,
      let uri = PortalAdvertisement.uri(option.slice(from: 2, to: length).array.prefix { $0 != 0 })
    else { return nil }
    self.init(link: UInt32(link), portal: uri)
  }
}
